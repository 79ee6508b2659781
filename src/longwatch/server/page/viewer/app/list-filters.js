/** The filters of a list. They only change the URL; the view reads it. */

import { button, h } from "./dom.js";
import { div } from "./markup.js";
import { capital } from "./format.js";
import { icon } from "./icons.js";
import { QueryField } from "./query-field.js";
import { searchPath, setQuery } from "./router.js";

/** @import { KnownValues } from "./query-text.js" */

/**
 * @typedef {object} Filters
 * @property {string} label of the bar
 * @property {{label: string, placeholder: string}} search
 * @property {() => KnownValues} [known] values to complete; with it, the search is a query
 * @property {readonly string[]} statuses
 * @property {readonly Choice[]} choices
 *
 * @typedef {object} Choice
 * @property {string} name in the URL
 * @property {string} label
 * @property {string} all the option without a filter
 * @property {readonly (readonly [value: string, label: string])[]} options
 */

const TYPING_MS = 150;

/** A field that reports its text shortly after the user has stopped typing. */
export class SearchField {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;
  #input;

  /** @param {string} label @param {string} placeholder @param {(text: string) => void} onText */
  constructor(label, placeholder, onText) {
    const input = () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => {
        this.#typing = undefined;
        if (this.#input.isConnected) onText(this.#input.value.trim());
      }, TYPING_MS);
    };
    this.#input = h("input", {
      type: "search",
      placeholder,
      "aria-label": label,
      autocomplete: "off",
      spellcheck: "false",
      on: { input },
    });
    this.element = div("search", icon("search"), this.#input, h("kbd", {}, "/"));
  }

  /** Show the text of the URL, unless the user is typing another. @param {string} text */
  show(text) {
    if (this.#typing === undefined && this.#input.value.trim() !== text) this.#input.value = text;
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }
}

export class ListFilters {
  #search;
  #statuses;
  #fields;
  /** @type {HTMLAnchorElement | null} the search in events, for a list with a query */
  #events = null;

  /** @param {Filters} filters */
  constructor({ label, search, known, statuses, choices }) {
    if (known) {
      this.#search = new QueryField({
        ...search,
        known,
        onText: (q, { typed }) => setQuery({ q }, { replace: typed }),
      });
      this.#events = h("a", { class: "button" }, "Search in events");
    } else {
      this.#search = new SearchField(search.label, search.placeholder, (text) =>
        setQuery({ text }, { replace: true }),
      );
    }
    this.#statuses = ["", ...statuses].map((status) =>
      button(
        () => setQuery({ status }),
        { class: "chip", data: { value: status } },
        status ? capital(status) : "All",
      ),
    );
    this.#fields = choices.map((choice) => ({ name: choice.name, field: selectField(choice) }));
    this.element = h(
      "div",
      { class: "toolbar filters", role: "search", "aria-label": label },
      this.#search.element,
      this.#events,
      h("div", { class: "chips", role: "group", "aria-label": "Status" }, ...this.#statuses),
      ...this.#fields.map(({ field }) => field),
    );
  }

  /** @param {URLSearchParams} query */
  show(query) {
    const q = query.get("q") ?? "";
    this.#search.show(this.#events ? q : (query.get("text") ?? ""));
    if (this.#events) this.#events.href = searchPath(q);
    const status = query.get("status") ?? "";
    for (const chip of this.#statuses)
      chip.setAttribute("aria-pressed", String(chip.dataset["value"] === status));
    for (const { name, field } of this.#fields) selectOption(field, query.get(name) ?? "");
  }

  focusSearch() {
    this.#search.focus();
  }
}

/** @param {Choice} choice */
function selectField({ name, label, all, options }) {
  const field = h(
    "select",
    { "aria-label": label, on: { change: () => setQuery({ [name]: field.value }) } },
    h("option", { value: "" }, all),
    ...options.map(([value, shown]) => h("option", { value }, shown)),
  );
  return field;
}

/**
 * Select an option; a value that only the URL has, such as a user's own kind, becomes one.
 * @param {HTMLSelectElement} field @param {string} value
 */
function selectOption(field, value) {
  if (![...field.options].some((option) => option.value === value))
    field.append(h("option", { value }, value));
  field.value = value;
}
