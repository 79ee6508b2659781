/** The states of each item and step of an execution over time, from its transitions. Pure. */

import { compareEvents } from "../core/order.js";

/** @import { Stretch } from "./time-scale.js" */
/** @import { RunEvent } from "./types.js" */
/** @typedef {{state: string, from: number, to: number | null}} Span `to` is null while it lasts */

const STEPS_MS = [
  10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 480, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200,
  10_800, 14_400, 21_600, 43_200, 86_400,
].map((seconds) => seconds * 1000);
const MARGIN = 1.12; // beyond now, so that the bars do not move every second

/** @param {string} stage @param {string} item @param {string} [step] */
export const spanKey = (stage, item, step = "") => JSON.stringify([stage, item, step]);

export class Spans {
  /** @type {Map<string, Map<string, RunEvent>>} transitions by span key and event id */
  #transitions = new Map();

  /** @param {RunEvent[]} events */
  add(events) {
    for (const event of events) {
      const { wave: stage, server_id: item, action: step, to } = event.payload ?? {};
      if (!["server_transition", "action_transition"].includes(event.type)) continue;
      if (typeof stage !== "string" || typeof item !== "string" || typeof to !== "string") continue;
      const key = spanKey(
        stage,
        item,
        event.type === "action_transition" && typeof step === "string" ? step : "",
      );
      if (!this.#transitions.has(key)) this.#transitions.set(key, new Map());
      this.#transitions.get(key)?.set(event.event_id, event);
    }
  }

  /**
   * The states in order. The record adds the current state if no event has reported it.
   * @param {string} key @param {{state: string, since: number | null}} now @returns {Span[]}
   */
  of(key, now) {
    const events = [...(this.#transitions.get(key)?.values() ?? [])].sort(compareEvents);
    /** @type {Span[]} */
    const spans = events.map((event, at) => ({
      state: String(event.payload?.["to"]),
      from: event.occurred_at,
      to: events[at + 1]?.occurred_at ?? null,
    }));
    const last = spans.at(-1);
    if (now.since === null || last?.state === now.state) return spans;
    if (last) last.to = Math.max(now.since, last.from);
    return [
      ...spans,
      { state: now.state, from: last ? Math.max(now.since, last.from) : now.since, to: null },
    ];
  }
}

/**
 * The time range of the bars. It grows in steps while the execution is running.
 * @param {{started_at: number, ended_at: number | null}} execution @param {number} now
 * @returns {Stretch}
 */
export function stretchOf({ started_at: from, ended_at: ended }, now) {
  if (ended !== null) return { from, to: Math.max(from + 1000, ended + (ended - from) * 0.02) };
  const length = Math.max(0, now - from) * MARGIN;
  return {
    from,
    to: from + (STEPS_MS.find((step) => step >= length) ?? Math.ceil(length / 864e5) * 864e5),
  };
}
