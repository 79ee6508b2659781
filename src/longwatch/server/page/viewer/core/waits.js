/**
 * Waits of a run: which are open, since when and why, and how long it has waited for each reason. The start and the end
 * of a wait share a call id and may arrive in any order. The same rules as in Python.
 */

import { roundHalfEven } from "./numbers.js";
import { compareText } from "./order.js";
import { durationOf, payloadOf, textOf } from "./payloads.js";

/** @import { WireEvent } from "./order.js" */

const REASON_CHARACTERS = 100;
const DETAIL_CHARACTERS = 200;

/**
 * @typedef {object} Wait
 * @property {string} callId
 * @property {string} reason
 * @property {string | null} detail
 * @property {number | null} since null: the start has not arrived
 * @property {number | null} endedAt
 * @property {string} producer of the start
 * @property {string | null} agentName of the start
 * @property {string | null} parentCallId of the start
 *
 * @typedef {{reason: string, detail: string | null, since: number}} WaitView An open wait; epoch milliseconds.
 */

export class Waits {
  /** @type {Map<string, Wait>} */
  #byId = new Map();
  /** @type {Map<string, number>} */
  #waitedMs = new Map();

  /** @param {WireEvent} event */
  add(event) {
    if (event.type !== "waiting_started" && event.type !== "waiting_ended") return;
    const wait = waitOf(event);
    const before = this.#byId.get(wait.callId);
    this.#byId.set(wait.callId, before ? merge(before, wait) : wait);
    if (wait.since !== null) return;
    const ms = Math.max(0, roundHalfEven(durationOf(payloadOf(event)) ?? 0));
    this.#waitedMs.set(wait.reason, (this.#waitedMs.get(wait.reason) ?? 0) + ms);
  }

  /** Every wait of which the start has arrived, in the order they began. */
  all() {
    return [...this.#byId.values()]
      .filter(({ since }) => since !== null)
      .sort((one, other) => byStart(one, other));
  }

  /** The open waits, the longest first. */
  open() {
    return this.all().filter(isOpenWait);
  }

  /** Milliseconds of the waits that ended, by reason. */
  waitedMs() {
    return Object.fromEntries(
      [...this.#waitedMs].sort(([one], [other]) => compareText(one, other)),
    );
  }
}

/** @param {Wait} wait */
export function isOpenWait({ since, endedAt }) {
  return since !== null && (endedAt === null || endedAt < since);
}

/** `waiting for approval: deploy to production` @param {{reason: string, detail: string | null}} wait */
export function waitText({ reason, detail }) {
  return detail ? `waiting for ${reason}: ${detail}` : `waiting for ${reason}`;
}

/** @param {WireEvent} event @returns {Wait} */
function waitOf(event) {
  const payload = payloadOf(event);
  const reason = start(textOf(payload, "reason") ?? "unknown", REASON_CHARACTERS);
  const isStart = event.type === "waiting_started";
  const detail = isStart ? textOf(payload, "detail") : null;
  return {
    callId: event.call_id ?? `${reason}:${event.producer ?? ""}`, // other producers may have no id
    reason,
    detail: detail && start(detail, DETAIL_CHARACTERS),
    since: isStart ? event.occurred_at : null,
    endedAt: isStart ? null : event.occurred_at,
    producer: isStart ? (event.producer ?? "") : "",
    agentName: event.agent_name ?? null,
    parentCallId: event.parent_call_id ?? null,
  };
}

/** Of two starts the later counts, and of two ends. @param {Wait} one @param {Wait} other @returns {Wait} */
function merge(one, other) {
  const last = compareStarts(one, other) >= 0 ? one : other;
  const ends = [one.endedAt, other.endedAt].filter((at) => at !== null);
  return { ...last, callId: one.callId, endedAt: ends.length ? Math.max(...ends) : null };
}

/** @param {Wait} one @param {Wait} other */
function compareStarts(one, other) {
  return (
    (one.since ?? 0) - (other.since ?? 0) ||
    compareText(one.reason, other.reason) ||
    compareText(one.detail ?? "", other.detail ?? "") ||
    compareText(one.producer, other.producer)
  );
}

/** @param {Wait} one @param {Wait} other */
function byStart(one, other) {
  return (one.since ?? 0) - (other.since ?? 0) || compareText(one.callId, other.callId);
}

/** The first characters of a text, counted as in Python. @param {string} text @param {number} count */
function start(text, count) {
  return text.length <= count ? text : [...text].slice(0, count).join("");
}
