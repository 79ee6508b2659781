/** A search field for queries: completes fields and values while they are typed. */

import { fill, h } from "./dom.js";
import { div, span } from "./markup.js";
import { icon } from "./icons.js";
import { completionsOf, isIncomplete } from "./query-text.js";

/** @import { Completion, KnownValues } from "./query-text.js" */

const TYPING_MS = 250;
let fields = 0;

export class QueryField {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing;
  /** @type {Completion[]} */
  #completions = [];
  #chosen = -1;
  #input;
  #list;
  #onText;
  #known;

  /**
   * @param {{label: string, placeholder: string, onText: (text: string, how: {typed: boolean}) => void,
   *   known: () => KnownValues}} how `onText`: a query to apply; `typed`: typing continues
   */
  constructor({ label, placeholder, onText, known }) {
    this.#onText = onText;
    this.#known = known;
    const id = `query-${(fields += 1)}`;
    this.#list = h("ul", {
      id,
      class: "completions",
      role: "listbox",
      "aria-label": "Completions",
      hidden: true,
    });
    this.#input = h("input", {
      type: "search",
      role: "combobox",
      placeholder,
      "aria-label": label,
      "aria-autocomplete": "list",
      "aria-controls": id,
      "aria-expanded": "false",
      autocapitalize: "off",
      autocomplete: "off",
      spellcheck: "false",
      on: {
        input: () => this.#typed(),
        keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
        blur: () => this.#close(),
      },
    });
    this.element = div("search query", icon("search"), this.#input, h("kbd", {}, "/"), this.#list);
  }

  /** What is typed, applied or not. */
  get text() {
    return this.#input.value.trim();
  }

  /** Show the text of the URL, unless the user is typing another. @param {string} text */
  show(text) {
    const isTyping = this.#typing !== undefined || isIncomplete(this.#input.value);
    if (isTyping && document.activeElement === this.#input) return;
    if (this.text !== text) this.#input.value = text;
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      this.#typing = undefined;
      if (this.#input.isConnected && !isIncomplete(this.#input.value)) this.#apply(true);
    }, TYPING_MS);
    this.#open();
  }

  /** @param {boolean} typed */
  #apply(typed) {
    clearTimeout(this.#typing);
    this.#typing = undefined;
    this.#onText(this.text, { typed });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { key } = event;
    const isOpen = !this.#list.hidden;
    if (key === "ArrowDown" || key === "ArrowUp") {
      if (isOpen) this.#choose(this.#chosen + (key === "ArrowDown" ? 1 : -1));
      else this.#open();
    } else if (isOpen && this.#chosen >= 0 && (key === "Enter" || key === "Tab")) {
      this.#accept(/** @type {Completion} */ (this.#completions[this.#chosen]));
    } else if (key === "Enter") {
      this.#close();
      this.#apply(false);
    } else if (key === "Escape" && isOpen) {
      this.#close();
    } else return;
    event.preventDefault();
  }

  #open() {
    const { value, selectionStart } = this.#input;
    this.#completions = completionsOf(value, selectionStart ?? value.length, this.#known());
    this.#chosen = -1;
    fill(
      this.#list,
      ...this.#completions.map((each, at) =>
        h(
          "li",
          {
            id: `${this.#list.id}-${at}`,
            role: "option",
            "aria-selected": "false",
            // The field keeps the focus, so that typing continues.
            on: { mousedown: (event) => event.preventDefault(), click: () => this.#accept(each) },
          },
          h("bdi", { class: "cut" }, each.label),
          span("dim", each.note),
        ),
      ),
    );
    this.#list.hidden = !this.#completions.length;
    this.#input.setAttribute("aria-expanded", String(!this.#list.hidden));
    this.#input.removeAttribute("aria-activedescendant");
  }

  #close() {
    this.#list.hidden = true;
    this.#chosen = -1;
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} at */
  #choose(at) {
    const count = this.#completions.length;
    this.#chosen = (at + count) % count;
    for (const [index, option] of [...this.#list.children].entries()) {
      const isChosen = index === this.#chosen;
      option.setAttribute("aria-selected", String(isChosen));
      if (!isChosen) continue;
      option.scrollIntoView({ block: "nearest" });
      this.#input.setAttribute("aria-activedescendant", option.id);
    }
  }

  /** @param {Completion} completion */
  #accept({ from, to, text }) {
    const { value } = this.#input;
    const isField = text.endsWith(":");
    const rest = value.slice(to).trimStart();
    const before = `${value.slice(0, from)}${text}${isField ? "" : " "}`;
    this.#input.value = `${before}${rest}`;
    this.#input.setSelectionRange(before.length, before.length);
    this.#close();
    if (isField) this.#open();
    else this.#apply(true);
  }
}

/**
 * A query with a mistake, and the mistake marked.
 * @param {string} query @param {number} position from 1, in code points
 */
export function mistakeMark(query, position) {
  const characters = [...query];
  const before = characters.slice(0, position - 1).join("");
  const [wrong = "", rest = ""] = splitFirst(characters.slice(position - 1).join(""));
  return h(
    "p",
    { class: "query-mistake" },
    h("code", {}, before, h("mark", {}, wrong || " "), rest),
  );
}

/** @param {string} text */
function splitFirst(text) {
  const end = text.search(/\s/);
  return end < 0 ? [text] : [text.slice(0, end), text.slice(end)];
}
