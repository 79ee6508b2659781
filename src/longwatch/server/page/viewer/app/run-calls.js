/**
 * `<lw-calls>`: tool calls with their start and end put together, one a row.
 */

import { ABANDONED } from "../core/calls.js";
import { beforePaint, h, say } from "./dom.js";
import { Part, define } from "./element.js";
import { clock, count, counted, isoTime, length } from "./format.js";
import { agentMark, statusMark } from "./icons.js";
import { state } from "./placeholders.js";
import "./window-list.js";

/** @import { RunModel } from "./run-model.js" */
/** @import { Call } from "./types.js" */
/** @import { WindowList } from "./window-list.js" */

export class Calls extends Part {
  /** @type {RunModel | undefined} */
  model;
  /** Called with the call that the reader chooses. @type {(call: Call) => void} */
  onSelect = () => {};

  /** @type {Call[]} */
  #shown = [];
  #draw = beforePaint(() => this.#drawNow());
  #list = /** @type {WindowList} */ (h("lw-window", { class: "call-rows", "aria-label": "Tool calls" }));
  #failed = h("button", { type: "button", class: "chip", "aria-pressed": "false", on: { click: () => this.#toggle(this.#failed) } }, "Failed only");
  #open = h("button", { type: "button", class: "chip", "aria-pressed": "false", on: { click: () => this.#toggle(this.#open) } }, "Without an end");
  #sort = h(
    "select",
    { "aria-label": "Order", on: { change: () => this.#draw() } },
    h("option", { value: "time" }, "In order of time"),
    h("option", { value: "length" }, "Longest first"),
  );
  #tally = h("span", { class: "dim nums", role: "status" });
  #empty = h("div", { hidden: true }, state({ title: "No tool calls here", text: "Functions marked with @longwatch.tool appear here, each start with its end.", symbol: "tool" }));
  #head = h("div", { class: "call-row head", "aria-hidden": "true" }, ...["Tool", "Agent", "Began", "Took", "Result"].map((name) => h("span", {}, name)));

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(h("div", { class: "toolbar" }, this.#failed, this.#open, this.#sort, h("span", { class: "spread" }), this.#tally), this.#head, this.#list, this.#empty);
      this.#list.onSelect = (index) => {
        const call = this.#shown[index];
        if (call) this.onSelect(call);
      };
    }
    const stop = this.model?.watch(() => this.#draw());
    if (stop) this.whenGone(stop);
    this.#draw();
  }

  /** @param {string | null} callId */
  reveal(callId) {
    this.#drawNow();
    const index = callId ? this.#shown.findIndex((call) => call.call_id === callId) : -1;
    if (index < 0) this.#list.deactivate();
    else if (index !== this.#list.active) this.#list.activate(index, { centre: true });
  }

  /** @param {number} step */
  move(step) {
    this.#list.activate(this.#list.active < 0 ? this.#list.firstInSight : this.#list.active + step, { tell: true });
  }

  /** @param {HTMLElement} chip */
  #toggle(chip) {
    chip.setAttribute("aria-pressed", String(!pressed(chip)));
    this.#draw();
  }

  #drawNow() {
    if (!this.model) return;
    const all = this.model.calls().filter((call) => call.kind === "tool");
    const [failed, open] = [pressed(this.#failed), pressed(this.#open)];
    const shown = all.filter((call) => (!failed || call.status === "failed") && (!open || call.ended_at === null));
    if (this.#sort.value === "length") shown.sort((one, other) => (other.duration_ms ?? Infinity) - (one.duration_ms ?? Infinity));
    this.#shown = shown;
    const longest = all.reduce((most, call) => Math.max(most, call.duration_ms ?? 0), 1);
    this.#list.show({ length: shown.length, key: (index) => keyOf(shown[index]), draw: (index) => row(/** @type {Call} */ (shown[index]), longest) });
    this.#empty.hidden = shown.length > 0;
    this.#head.hidden = this.#list.hidden = !shown.length;
    const [bad, abandoned] = ["failed", ABANDONED].map((status) => all.reduce((sum, call) => sum + Number(call.status === status), 0));
    say(this.#tally, `${counted(all.length, "call")}${bad ? `, ${count(bad)} failed` : ""}${abandoned ? `, ${count(abandoned)} abandoned` : ""}`);
  }
}

/**
 * @param {Call} call
 * @param {number} longest
 */
function row(call, longest) {
  const utc = isoTime(call.started_at);
  const took = call.duration_ms;
  return h(
    "div",
    { class: "call-row" },
    h("span", { class: "cut call-name" }, statusMark(call.status, { quiet: true }), h("span", { class: "cut" }, call.name)),
    call.agent_name ? agentMark(call.agent_name) : h("span"),
    h("time", { datetime: utc, title: `${utc} (UTC)` }, clock(call.started_at, true)),
    h("span", { class: "took nums" }, took !== null ? length(took) : call.status === ABANDONED ? "–" : "…", h("i", { style: { "--share": took === null ? 0 : took / longest } })),
    h("span", { class: `cut ${call.error ? "is-failed" : "dim"}` }, call.error ?? (call.status === "started" ? "still open" : call.status)),
  );
}

/** @param {Call | undefined} call */
function keyOf(call) {
  return call ? `${call.call_id}/${call.status}/${call.duration_ms}` : "";
}

/** @param {HTMLElement} chip */
function pressed(chip) {
  return chip.getAttribute("aria-pressed") === "true";
}

define("lw-calls", Calls);
