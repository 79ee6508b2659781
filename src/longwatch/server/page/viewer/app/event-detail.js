/** `<lw-detail>`: everything about one event or one call, beside the log, or over it on a phone. */

import { ABANDONED } from "../core/calls.js";
import { payloadOf } from "../core/payloads.js";
import { button, fill, h } from "./dom.js";
import { p, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import {
  countText,
  dateTimeText,
  durationText,
  isoTime,
  millisecondsText,
  numberText,
  timeElement,
} from "./format.js";
import { agentMark, iconButton, statusMark } from "./icons.js";
import { betweenText } from "./run-times.js";
import { copyButton, idMark } from "./toast.js";
import { valueText, valueTree } from "./value-tree.js";
import { deathOf, errorOf } from "./event-text.js";
import { messageList, messagesOf } from "./messages.js";
import { costText } from "./usage-text.js";

/** @import { Child } from "./dom.js" */
/** @import { Message } from "./messages.js" */
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
      ...(call.kind === "model" ? modelFacts(call, first) : []),
      ["Waits for", text(first, "reason")],
      ["Detail", text(first, "detail")],
      ["Call ID", idMark("Call ID", call.call_id)],
      ["Events", h("span", {}, ...links.slice(1))],
    ];
    const [input, output] = [
      field(first, "input") ?? field(first, "handoff_prompt"),
      field(end, "output") ?? field(end, "response"),
    ];
    /** @type {[string, unknown][]} */
    const values = [
      ["Parameters", field(first, "parameters")],
      ["Input", input],
      ["Output", output],
    ];
    const recorded = values.filter(([, value]) => (value ?? null) !== null);
    const said =
      call.kind === "model"
        ? [...messagesOf(input, "user"), ...messagesOf(output, "assistant")]
        : [];
    this.#show(call.name, call.status, facts, call.error, recorded, said);
  }

  /**
   * @param {string} title @param {string | null} status @param {Facts} facts
   * @param {string | null} problem @param {[string, unknown][]} values
   * @param {Message[]} [messages] shown instead of the values, which stay available below
   */
  #show(title, status, facts, problem, values, messages = []) {
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
      messages.length ? h("section", {}, h("h3", {}, "Messages"), messageList(messages)) : null,
      ...values.map(([name, value]) =>
        h(
          "section",
          {},
          h("header", {}, h("h3", {}, name), copyButton(name, valueText(value))),
          valueTree(value, { open: messages.length && name !== "Parameters" ? 0 : 2 }),
        ),
      ),
    );
    this.scrollTop = 0;
  }
}

/** @param {Call} call @param {RunEvent | undefined} first @returns {Facts} */
function modelFacts(call, first) {
  const { usage, cost = null, time_to_first_token_ms: firstMs = null } = call;
  const chunks = call.chunk_count ? `, ${countText(call.chunk_count, "chunk")}` : "";
  return [
    ["Provider", [call.provider, text(first, "operation")].filter(Boolean).join(", ") || null],
    ["Responded", call.response_model === call.model ? null : (call.response_model ?? null)],
    ["First token", firstMs === null ? null : `after ${durationText(firstMs)}${chunks}`],
    ["Finish", call.finish_reasons?.join(", ") || null],
    [
      "Input",
      tokensText(usage?.input_tokens, [
        [usage?.cache_read_tokens, "read from the cache"],
        [usage?.cache_write_tokens, "written to the cache"],
      ]),
    ],
    ["Output", tokensText(usage?.output_tokens, [[usage?.reasoning_tokens, "for reasoning"]])],
    ["Cost", cost !== null ? costText(cost) : usage ? span("dim", "no known price") : null],
  ];
}

/**
 * `1,204 tokens, 1,000 read from the cache`: a count and the parts of it that are known.
 * @param {number | null | undefined} tokens @param {[number | null | undefined, string][]} parts
 */
function tokensText(tokens, parts) {
  if ((tokens ?? null) === null) return null;
  const known = parts.flatMap(([count, about]) => (count ? [`${numberText(count)} ${about}`] : []));
  return [countText(tokens ?? 0, "token"), ...known].join(", ");
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
