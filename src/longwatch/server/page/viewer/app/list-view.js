/** A page with a live list: filters, and a row for each item, newest first. */

import { beforePaint, button, fill, h, moveFocus, updateChildren } from "./dom.js";
import { div, p } from "./markup.js";
import { Part, define } from "./element.js";
import { connection } from "./connection.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { ListFilters } from "./list-filters.js";
import { ListModel, queryOf } from "./list-model.js";
import { currentRoute, go, setQuery } from "./router.js";
import { failure, loading, state } from "./placeholders.js";
import { everySecond, everySeconds } from "./ticker.js";

/** @import { Child } from "./dom.js" */
/** @import { Filters } from "./list-filters.js" */
/** @import { Items } from "./list-model.js" */

/**
 * @template Item
 * @typedef {object} List
 * @property {string} noun of one item
 * @property {string} nouns of several, and the name of the view in a URL
 * @property {string} title
 * @property {Items<Item>} items
 * @property {Omit<Filters, "label">} filters
 * @property {readonly string[]} columns
 * @property {number} skeleton lines shown while it loads
 * @property {boolean} [showsHint] whether the server's hint is shown below the list
 * @property {(item: Item) => string} href
 * @property {(item: Item, now: number) => Child[]} cells of a row
 * @property {(row: HTMLElement, item: Item, now: number) => void} tick updates the texts that count
 * @property {(hint: string | null) => HTMLElement} empty shown if the server has no item at all
 */

const REFRESH_SECONDS = 15;

/** @template {{started_at: number}} Item */
class ListView extends Part {
  #of;
  /** @type {ListModel<Item>} */
  #model;
  #filters;
  #list;
  #head;
  #foot = div("runs-foot");
  #hint = h("p", { class: "runs-hint dim", role: "status", hidden: true });
  #draw = beforePaint(() => this.#drawNow());
  #query = "";
  /** @type {WeakMap<Element, Item>} the item of each row */
  #shown = new WeakMap();

  /** @param {List<Item>} list */
  constructor(list) {
    super();
    const { noun, title } = list;
    this.#of = list;
    this.#model = new ListModel(list.items);
    this.#filters = new ListFilters({ ...list.filters, label: title });
    this.#list = h("ul", { class: "runs", "aria-label": `${title}, newest first` });
    this.#head = h(
      "div",
      { class: `${noun}-row head`, "aria-hidden": "true" },
      ...list.columns.map((name) => h("span", {}, name)),
    );
  }

  connectedCallback() {
    const { noun, title, tick, showsHint = false } = this.#of;
    this.append(
      div("page-head", h("h1", {}, title)),
      this.#filters.element,
      this.#head,
      this.#list,
      this.#foot,
    );
    if (showsHint) this.append(this.#hint);
    this.onDisconnect(
      this.#model.watch(this.#draw),
      () => this.#model.close(),
      currentRoute.watch(() => this.#load()),
      connection.watch(this.#draw),
      everySeconds(REFRESH_SECONDS, () => void this.#model.refresh()),
      everySecond((now) => {
        for (const row of this.#list.children) {
          const item = this.#shown.get(row);
          if (item) tick(/** @type {HTMLElement} */ (row), item, now);
        }
      }),
      addShortcuts(title, [
        ...moveShortcuts(noun, (step) => moveFocus(this.#list.querySelectorAll("a"), step)),
        { keys: ["Enter"], about: `Open the ${noun}`, run: (event) => this.#open(event) },
        { keys: ["/"], about: "Search", run: () => this.#filters.focusSearch() },
      ]),
    );
  }

  #load() {
    const { view, query } = currentRoute.value;
    if (view !== this.#of.nouns) return;
    this.#filters.show(query);
    const wanted = queryOf(query, this.#of.items.filters);
    if (JSON.stringify(wanted) === this.#query) return;
    this.#query = JSON.stringify(wanted);
    void this.#model.open(wanted);
  }

  #drawNow() {
    const { items, hint } = this.#model;
    const now = Date.now();
    this.#head.hidden = !items.length;
    this.#hint.hidden = hint === null;
    this.#hint.textContent = hint ?? "";
    updateChildren(this.#list, items, {
      key: this.#of.items.key,
      make: (item) =>
        h("li", {}, h("a", { class: `${this.#of.noun}-row`, href: this.#of.href(item) })),
      update: (row, item) => this.#show(row, item, now),
    });
    fill(this.#foot, this.#end());
  }

  /** @param {HTMLElement} row @param {Item} item @param {number} now */
  #show(row, item, now) {
    if (this.#shown.get(row) === item) return;
    this.#shown.set(row, item);
    fill(/** @type {HTMLElement} */ (row.firstElementChild), ...this.#of.cells(item, now));
    this.#of.tick(row, item, now);
  }

  /** The element after the last row. */
  #end() {
    const { nouns, skeleton } = this.#of;
    const { items, state: at, error, more } = this.#model;
    if (at === "loading") return items.length ? null : loading(nouns, skeleton);
    if (at === "failed")
      return failure(`The list of ${nouns}`, error, () => void this.#model.reload());
    if (more) {
      const text = at === "more" ? "Loading …" : items.length ? "Load more" : "Search further";
      return button(() => void this.#model.loadMore(), { disabled: at === "more" }, text);
    }
    return items.length ? p("dim", `No more ${nouns}.`) : this.#noMatch();
  }

  #noMatch() {
    const { noun, nouns, items, empty } = this.#of;
    if (!Object.keys(queryOf(currentRoute.value.query, items.filters)).length)
      return empty(this.#model.hint);
    const clear = () => setQuery(Object.fromEntries(items.filters.map((name) => [name, null])));
    const text = `Choose other filters, or show all ${nouns}.`;
    return state(
      { symbol: "search", title: `No ${noun} matches`, text },
      button(clear, {}, `Show all ${nouns}`),
    );
  }

  /** @param {KeyboardEvent} event */
  #open(event) {
    const focused = document.activeElement;
    if (focused instanceof HTMLButtonElement || focused instanceof HTMLAnchorElement) {
      focused.click();
      return;
    }
    const first = this.#model.items[0];
    if (first && event.target === document.body) go(this.#of.href(first));
  }
}

/**
 * Register a custom element that shows a list.
 * @template {{started_at: number}} Item
 * @param {string} name @param {List<Item>} list
 */
export function defineList(name, list) {
  /** @extends {ListView<Item>} */
  class View extends ListView {
    constructor() {
      super(list);
    }
  }
  define(name, View);
}
