/** `<lw-detail>`: everything about one event or one call, beside the log, or over it on a phone. */

import { ABANDONED } from "../core/calls.js";
import { payloadOf } from "../core/payloads.js";
import { button, fill, h } from "./dom.js";
import { p, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { dateTimeText, durationText, isoTime, millisecondsText, timeElement } from "./format.js";
import { agentMark, iconButton, statusMark } from "./icons.js";
import { betweenText } from "./run-times.js";
import { copyButton, idMark } from "./toast.js";
import { valueText, valueTree } from "./value-tree.js";
import { deathOf, errorOf } from "./event-text.js";

/** @import { Child } from "./dom.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { Call, RunEvent } from "./types.js" */
/** @typedef {[string, Child][]} Facts */

export class Detail extends Part {
  /** @type {() => void} */
  onClose = () => {};
  /** Called with the event that the user follows a link to. @type {(eventId: string) => void} */
  onEvent = () => {};
  /** Called with the call that the user follows a link to. @type {(callId: string) => void} */
  onCall = () => {};

  connectedCallback() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Details");
  }

  /** @param {RunEvent} event @param {RunModel} model */
  showEvent(event, model) {
    const call = model.callOf(event);
    const death = deathOf(event);
    const { notBefore = null, notAfter = null } = death ?? {};
    const noTime = "none: an observer wrote this event after the run's last one";
    /** @type {Facts} */
    const facts = [
      ["Time", death ? noTime : when(event.occurred_at)],
      ["Died", notBefore === null ? null : betweenText([notBefore, notAfter], Date.now())],
      ["Agent", event.agent_name ? agentMark(event.agent_name) : null],
      ["Call", call ? link(`${call.kind} ${call.name}`, () => this.onCall(call.call_id)) : null],
      ["Event ID", idMark("Event ID", event.event_id)],
      ["Call ID", event.call_id ? idMark("Call ID", event.call_id) : null],
      ["Producer", event.producer ? `${event.producer}, number ${event.number}` : null],
      ["Trace ID", event.trace_id ? idMark("Trace ID", event.trace_id) : null],
      ["Arrived", model.late.has(event.event_id) ? "late: later events arrived before it" : null],
    ];
    this.#show(event.type, null, facts, errorOf(event), [["Payload", payloadOf(event)]]);
  }

  /** @param {Call} call @param {RunModel} model */
  showCall(call, model) {
    const events = model.eventsOf(call);
    const first = events[0];
    const last = events.length > 1 ? events[events.length - 1] : undefined;
    const end = last ?? (call.ended_at === null ? undefined : first);
    const noEnd = call.status === ABANDONED ? "no end recorded" : "not yet";
    const links = events.flatMap((event) => [
      ", ",
      link(event === first && first !== end ? "start" : "end", () => this.onEvent(event.event_id)),
    ]);
    /** @type {Facts} */
    const facts = [
      ["Agent", call.agent_name ? agentMark(call.agent_name) : null],
      ["System", text(first, "system") ?? text(end, "system")],
      ["Role", text(first, "role")],
      ["Started", when(call.started_at)],
      ["Ended", call.ended_at === null ? noEnd : when(call.ended_at)],
      ["Duration", call.duration_ms === null ? null : durationText(call.duration_ms)],
      ["Call ID", idMark("Call ID", call.call_id)],
      ["Events", h("span", {}, ...links.slice(1))],
    ];
    /** @type {[string, unknown][]} */
    const values = [
      ["Input", field(first, "input") ?? field(first, "handoff_prompt")],
      ["Output", field(end, "output") ?? field(end, "response")],
    ];
    const recorded = values.filter(([, value]) => (value ?? null) !== null);
    this.#show(call.name, call.status, facts, call.error, recorded);
  }

  /**
   * @param {string} title @param {string | null} status @param {Facts} facts
   * @param {string | null} problem @param {[string, unknown][]} values
   */
  #show(title, status, facts, problem, values) {
    fill(
      this,
      h(
        "header",
        {},
        h("h2", { class: "cut", title }, title),
        status ? statusMark(status, { badge: true }) : null,
        spacer(),
        iconButton("close", "Close details", () => this.onClose()),
      ),
      problem ? p("problem", problem) : null,
      h(
        "dl",
        { class: "facts" },
        ...facts.flatMap(([name, value]) => (value ? [h("dt", {}, name), h("dd", {}, value)] : [])),
      ),
      ...values.map(([name, value]) =>
        h(
          "section",
          {},
          h("header", {}, h("h3", {}, name), copyButton(name, valueText(value))),
          valueTree(value),
        ),
      ),
    );
    this.scrollTop = 0;
  }
}

/** @param {RunEvent | undefined} event @param {string} name */
function text(event, name) {
  const value = field(event, name);
  return typeof value === "string" ? value : null;
}

/** @param {RunEvent | undefined} event @param {string} name @returns {unknown} */
function field(event, name) {
  return event ? payloadOf(event)[name] : undefined;
}

/** @param {number} at */
function when(at) {
  return h(
    "span",
    {},
    timeElement(at, `${dateTimeText(at, Date.now())}${millisecondsText(at)}`),
    span("dim", ` · ${isoTime(at).slice(11, 23)} UTC`),
  );
}

/** @param {string} label @param {() => void} click */
function link(label, click) {
  return button(click, { class: "linkish" }, label);
}

define("lw-detail", Detail);
