/** `<lw-calls>`: the calls of tools and models of a run, one per row. */

import { ABANDONED } from "../core/calls.js";
import { beforePaint, button, h, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import {
  countText,
  durationText,
  millisecondsText,
  numberText,
  timeElement,
  timeText,
} from "./format.js";
import { agentMark, statusMark } from "./icons.js";
import { state } from "./placeholders.js";
import { kindMark } from "./timeline-row.js";
import { modelCallText } from "./usage-text.js";
import "./window-list.js";

/** @import { RunModel } from "./run-model.js" */
/** @import { Call } from "./types.js" */

export class Calls extends Part {
  /** @type {RunModel} */
  model;
  /** Called with the call that the user selects. @type {(call: Call) => void} */
  onSelect = () => {};

  #draw = beforePaint(() => this.#drawNow());
  #list = h("lw-window", { class: "call-rows", "aria-label": "Calls" });
  #failed = this.#chip("Failed only");
  #open = this.#chip("Without an end");
  /** @type {HTMLSelectElement} */
  #sort = h(
    "select",
    { "aria-label": "Order", on: { change: this.#draw } },
    h("option", { value: "time" }, "By time"),
    h("option", { value: "length" }, "Longest first"),
  );
  #counts = h("span", { class: "dim nums", role: "status" });
  #empty = h(
    "div",
    { hidden: true },
    state({
      title: "No calls",
      text: "Calls of models, and of functions decorated with @longwatch.tool, appear here.",
      symbol: "tool",
    }),
  );
  #head = h(
    "div",
    { class: "call-row head", "aria-hidden": "true" },
    ...["Tool or model", "Agent", "Started", "Duration", "Result"].map((name) =>
      h("span", {}, name),
    ),
  );

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(
        div("toolbar", this.#failed, this.#open, this.#sort, spacer(), this.#counts),
        this.#head,
        this.#list,
        this.#empty,
      );
      this.#list.onSelect = (call) => this.onSelect(call);
    }
    this.onDisconnect(this.model.watch(this.#draw));
    this.#draw();
  }

  /** @param {string | null} callId */
  reveal(callId) {
    this.#drawNow();
    this.#list.reveal((call) => call.call_id === callId);
  }

  /** @param {number} step */
  move(step) {
    this.#list.move(step);
  }

  /** @param {string} label */
  #chip(label) {
    const toggle = () => {
      chip.setAttribute("aria-pressed", String(!isPressed(chip)));
      this.#draw();
    };
    const chip = button(toggle, { class: "chip", "aria-pressed": "false" }, label);
    return chip;
  }

  #drawNow() {
    const all = this.model.toolCalls;
    const [failed, open] = [isPressed(this.#failed), isPressed(this.#open)];
    const shown = all.filter(
      (call) => (!failed || call.status === "failed") && (!open || call.ended_at === null),
    );
    if (this.#sort.value === "length")
      shown.sort((one, other) => (other.duration_ms ?? Infinity) - (one.duration_ms ?? Infinity));
    const longest = all.reduce((most, call) => Math.max(most, call.duration_ms ?? 0), 1);
    this.#list.show({ items: shown, key: keyOf, draw: (call) => row(call, longest) });
    this.#empty.hidden = shown.length > 0;
    this.#head.hidden = this.#list.hidden = !shown.length;
    const [bad, abandoned] = ["failed", ABANDONED].map((status) =>
      all.reduce((sum, call) => sum + Number(call.status === status), 0),
    );
    const counts = [
      countText(all.length, "call"),
      bad ? `${numberText(bad)} failed` : "",
      abandoned ? `${numberText(abandoned)} abandoned` : "",
    ];
    setText(this.#counts, counts.filter(Boolean).join(", "));
  }
}

/** @param {Call} call @param {number} longest */
function row(call, longest) {
  const took = call.duration_ms;
  return div(
    "call-row",
    span(
      "cut call-name",
      statusMark(call.status, { quiet: true }),
      kindMark(call.kind),
      span("cut", call.name),
      call.input_preview && span("cut dim preview", call.input_preview),
    ),
    call.agent_name ? agentMark(call.agent_name) : h("span"),
    timeElement(
      call.started_at,
      `${timeText(call.started_at)}${millisecondsText(call.started_at)}`,
    ),
    span(
      "took nums",
      took !== null ? durationText(took) : call.status === ABANDONED ? "–" : "…",
      h("i", { style: { "--share": took === null ? 0 : took / longest } }),
    ),
    span(`cut ${call.error ? "is-failed" : "dim"}`, call.error ?? resultText(call)),
  );
}

/** @param {Call} call */
function resultText(call) {
  const parts = [call.output_preview, modelCallText(call)].filter(Boolean);
  return parts.join(" · ") || (call.status === "started" ? "running" : call.status);
}

/** @param {Call} call */
function keyOf(call) {
  return `${call.call_id}/${call.status}/${call.duration_ms}/${call.cost}`;
}

/** @param {HTMLElement} chip */
function isPressed(chip) {
  return chip.getAttribute("aria-pressed") === "true";
}

define("lw-calls", Calls);
