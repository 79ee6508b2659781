/**
 * The filters of the list of runs. They only write the address; the view reads it.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { setQuery } from "./router.js";

const STATUSES = ["running", "succeeded", "failed", "died", "partial", "cancelled", "unknown"];
const KINDS = ["workflow", "session", "turn", "execution", "project", "conversation"];
const TIMES = [["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const TYPING_MS = 180;

export class RunsFilters {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;
  #search = h("input", { type: "search", placeholder: "Search names and ids", "aria-label": "Search runs", autocomplete: "off", spellcheck: "false", on: { input: () => this.#typed() } });
  #statuses = [["", "All"], ...STATUSES.map((status) => [status, `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`])].map(([value, label]) =>
    h("button", { type: "button", class: "chip", data: { value: value ?? "" }, on: { click: () => setQuery({ status: value ?? null }) } }, label ?? ""),
  );
  #kind = h("select", { "aria-label": "Kind", on: { change: () => setQuery({ kind: this.#kind.value }) } }, h("option", { value: "" }, "All kinds"), ...KINDS.map((kind) => h("option", { value: kind }, kind)));
  #since = h("select", { "aria-label": "Time", on: { change: () => setQuery({ since: this.#since.value }) } }, h("option", { value: "" }, "Any time"), ...TIMES.map(([value, label]) => h("option", { value }, label)));

  element = h(
    "div",
    { class: "toolbar filters", role: "search", "aria-label": "Runs" },
    h("div", { class: "search" }, icon("search"), this.#search, h("kbd", {}, "/")),
    h("div", { class: "chips", role: "group", "aria-label": "Status" }, ...this.#statuses),
    this.#kind,
    this.#since,
  );

  /** @param {URLSearchParams} query */
  show(query) {
    if (document.activeElement !== this.#search) this.#search.value = query.get("text") ?? "";
    const status = query.get("status") ?? "";
    for (const chip of this.#statuses) chip.setAttribute("aria-pressed", String(chip.dataset["value"] === status));
    choose(this.#kind, query.get("kind") ?? "");
    choose(this.#since, query.get("since") ?? "");
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

/**
 * Show a choice, even one that only the address knows (a kind of the user's own).
 * @param {HTMLSelectElement} field
 * @param {string} value
 */
function choose(field, value) {
  if (![...field.options].some((option) => option.value === value)) field.append(h("option", { value }, value));
  field.value = value;
}
