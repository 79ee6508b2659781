/** `<lw-detail>`: everything about one event or one call, beside the log, or over it on a phone. */

import { ABANDONED } from "../core/calls.js";
import { payloadOf } from "../core/payloads.js";
import { valuePreview } from "../core/preview.js";
import { attemptsOf, valueChanges } from "./call-attempts.js";
import { button, fill, h } from "./dom.js";
import { div, p, spacer, span } from "./markup.js";
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
import { errorFrame } from "./placeholders.js";
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
/**
 * @typedef {object} Content
 * @property {[string, unknown][]} values
 * @property {Message[]} [messages] shown before the values, which are collapsed then
 * @property {unknown} json what the button copies
 * @property {string | null} [traceback] shown below the error
 * @property {Child[]} [more] sections below
 */

const MOST_CHILDREN = 100;

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
    this.#show(event.type, null, facts, errorOf(event), {
      values: [["Payload", payloadOf(event)]],
      json: event,
      traceback: text(event, "traceback"),
    });
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
    const parent = call.parent_call_id ? model.call(call.parent_call_id) : undefined;
    const attempts = attemptsOf(call, model.calls());
    const at = attempts.findIndex(({ call_id }) => call_id === call.call_id);
    const children = model.calls().filter(({ parent_call_id: id }) => id === call.call_id);
    /** @type {Facts} */
    const facts = [
      ["Agent", call.agent_name ? agentMark(call.agent_name) : null],
      [
        "Called by",
        parent ? link(`${parent.kind} ${parent.name}`, () => this.onCall(parent.call_id)) : null,
      ],
      ["Attempt", attempts.length > 1 ? this.#attemptLinks(attempts, at) : null],
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
    const [input, output] = contentOf(model.eventsOf(call));
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
    const previous = attempts[at - 1];
    this.#show(call.name, call.status, facts, call.error, {
      values: recorded,
      messages: said,
      json: { call, events },
      traceback: text(end, "traceback"),
      more: [
        previous ? changesSection(at, model.eventsOf(previous), events) : null,
        children.length ? this.#childrenSection(children) : null,
      ],
    });
  }

  /** @param {Call[]} attempts @param {number} at of the shown one */
  #attemptLinks(attempts, at) {
    const links = attempts.flatMap(({ call_id: id, status }, each) => [
      " ",
      each === at
        ? h("strong", {}, String(each + 1))
        : link(String(each + 1), () => this.onCall(id), `Attempt ${each + 1}, ${status}`),
    ]);
    return h("span", {}, `${at + 1} of ${attempts.length}:`, ...links);
  }

  /** @param {Call[]} children */
  #childrenSection(children) {
    const rows = children.slice(0, MOST_CHILDREN).map((child) =>
      h(
        "li",
        {},
        statusMark(child.status, { quiet: true }),
        link(child.name, () => this.onCall(child.call_id)),
        span(
          "cut dim",
          child.error ?? [child.input_preview, child.output_preview].filter(Boolean).join(" → "),
        ),
        span("nums dim", child.duration_ms === null ? "" : durationText(child.duration_ms)),
      ),
    );
    const rest = children.length - rows.length;
    return h(
      "section",
      {},
      h("h3", {}, `Calls (${numberText(children.length)})`),
      h("ul", { class: "detail-calls" }, ...rows),
      rest ? p("dim", `${numberText(rest)} more in the timeline`) : null,
    );
  }

  /**
   * @param {string} title @param {string | null} status @param {Facts} facts
   * @param {string | null} problem @param {Content} content
   */
  #show(
    title,
    status,
    facts,
    problem,
    { values, messages = [], json, traceback = null, more = [] },
  ) {
    fill(
      this,
      h(
        "header",
        {},
        h("h2", { class: "cut", dir: "auto", title }, title),
        status ? statusMark(status, { badge: true }) : null,
        spacer(),
        copyButton("JSON", valueText(json)),
        iconButton("close", "Close details", () => this.onClose()),
      ),
      problem ? errorFrame(problem) : null,
      traceback ? tracebackSection(traceback) : null,
      h(
        "dl",
        { class: "facts" },
        ...facts.flatMap(([name, value]) => (value ? [h("dt", {}, name), h("dd", {}, value)] : [])),
      ),
      messages.length ? h("section", {}, h("h3", {}, "Messages"), messageList(messages)) : null,
      ...values.map(([name, value]) =>
        valueSection(name, value, messages.length && name !== "Parameters" ? 0 : 2),
      ),
      ...more,
    );
    this.scrollTop = 0;
  }
}

/** A value as a tree, or as the text of its JSON. @param {string} name @param {unknown} value @param {number} open levels */
function valueSection(name, value, open) {
  const body = div("", valueTree(value, { open }));
  const showRaw = () => {
    const isRaw = raw.getAttribute("aria-pressed") !== "true";
    raw.setAttribute("aria-pressed", String(isRaw));
    fill(
      body,
      isRaw ? h("pre", { class: "output" }, valueText(value)) : valueTree(value, { open }),
    );
  };
  const raw = button(
    showRaw,
    { class: "chip", "aria-pressed": "false", "aria-label": `${name} as raw text` },
    "Raw",
  );
  return h(
    "section",
    {},
    h("header", {}, h("h3", {}, name), spacer(), raw, copyButton(name, valueText(value))),
    body,
  );
}

/** The traceback of a failed call, which can be folded. @param {string} traceback */
function tracebackSection(traceback) {
  const name = { tabindex: 0, role: "group", "aria-label": "Traceback" };
  return h(
    "section",
    { class: "traceback" },
    h(
      "details",
      { open: true },
      h("summary", {}, h("h3", {}, "Traceback")),
      h("pre", { class: "output", ...name }, traceback),
    ),
    copyButton("Traceback", traceback),
  );
}

/** What the arguments and the result have that the previous attempt had not. @param {number} number of that attempt @param {RunEvent[]} before @param {RunEvent[]} events */
function changesSection(number, before, events) {
  const [old, now] = [contentOf(before), contentOf(events)];
  const changes = ["Input", "Output"].flatMap((name, at) =>
    valueChanges(old[at], now[at]).map((change) => ({ name, ...change })),
  );
  const rows = changes.map(({ name, path, before: was, after: is }) =>
    h(
      "li",
      {},
      span("key", path ? `${name.toLowerCase()}.${path}` : name.toLowerCase()),
      h("del", {}, was === undefined ? "none" : valuePreview(was) || valueText(was)),
      h("ins", {}, is === undefined ? "none" : valuePreview(is) || valueText(is)),
    ),
  );
  return h(
    "section",
    {},
    h("h3", {}, `Changed since attempt ${number}`),
    rows.length
      ? h("ul", { class: "changes" }, ...rows)
      : p("dim", "Neither the arguments nor the result."),
  );
}

/** The recorded arguments and result of a call. @param {RunEvent[]} events in order @returns {[unknown, unknown]} */
function contentOf(events) {
  const [first, last] = [events[0], events.at(-1)];
  return [
    field(first, "input") ?? field(first, "handoff_prompt"),
    field(last, "output") ?? field(last, "response"),
  ];
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

/** @param {string} label @param {() => void} click @param {string} [name] for assistive technology */
function link(label, click, name) {
  return button(click, { class: "linkish", ...(name ? { "aria-label": name } : {}) }, label);
}

define("lw-detail", Detail);
