/**
 * The filters of the board. They only write the address; the view reads it.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { setQuery } from "./router.js";

const STATUSES = ["running", "succeeded", "partial", "failed", "cancelled"];
const MODES = [["DRILL", "Drills"], ["RECOVERY", "Recoveries"], ["JOB", "Jobs"]];
const TYPING_MS = 180;

export class ExecutionsFilters {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;
  #search = h("input", { type: "search", placeholder: "Search names, plans and ids", "aria-label": "Search executions", autocomplete: "off", spellcheck: "false", on: { input: () => this.#typed() } });
  #statuses = [["", "All"], ...STATUSES.map((status) => [status, `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`])].map(([value, label]) =>
    h("button", { type: "button", class: "chip", data: { value: value ?? "" }, on: { click: () => setQuery({ status: value ?? null }) } }, label ?? ""),
  );
  #mode = h("select", { "aria-label": "Type", on: { change: () => setQuery({ mode: this.#mode.value }) } }, h("option", { value: "" }, "All types"), ...MODES.map(([value, label]) => h("option", { value }, label)));

  element = h(
    "div",
    { class: "toolbar filters", role: "search", "aria-label": "Executions" },
    h("div", { class: "search" }, icon("search"), this.#search, h("kbd", {}, "/")),
    h("div", { class: "chips", role: "group", "aria-label": "Status" }, ...this.#statuses),
    this.#mode,
  );

  /** @param {URLSearchParams} query */
  show(query) {
    if (document.activeElement !== this.#search) this.#search.value = query.get("text") ?? "";
    const status = query.get("status") ?? "";
    for (const chip of this.#statuses) chip.setAttribute("aria-pressed", String(chip.dataset["value"] === status));
    const mode = query.get("mode") ?? "";
    if (![...this.#mode.options].some((option) => option.value === mode)) this.#mode.append(h("option", { value: mode }, mode));
    this.#mode.value = mode;
  }

  focusSearch() {
    this.#search.focus();
    this.#search.select();
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => setQuery({ text: this.#search.value.trim() }), TYPING_MS);
  }
}
