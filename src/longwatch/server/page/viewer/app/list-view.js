/** A page with a live list: filters, and a row for each item, newest first. */

import { ApiError } from "../core/errors.js";
import { beforePaint, button, fill, h, moveFocus, setText, updateChildren } from "./dom.js";
import { div, p } from "./markup.js";
import { Part, define } from "./element.js";
import { connection, pageNow } from "./connection.js";
import { icon } from "./icons.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { ListFilters } from "./list-filters.js";
import { ListModel, queryOf } from "./list-model.js";
import { currentRoute, go, searchPath, setQuery } from "./router.js";
import { failure, loading, state } from "./placeholders.js";
import { mistakeMark } from "./query-field.js";
import { hasTerm, termText, toggleTerm } from "./query-text.js";
import { everySecond, everySeconds } from "./ticker.js";

/** @import { Child } from "./dom.js" */
/** @import { Filters } from "./list-filters.js" */
/** @import { Items } from "./list-model.js" */
/** @import { KnownValues } from "./query-text.js" */

/**
 * @template Item
 * @typedef {object} List
 * @property {string} noun of one item
 * @property {string} nouns of several, and the name of the view in a URL
 * @property {string} title
 * @property {() => Child[]} [actions] beside the title
 * @property {Items<Item>} items
 * @property {Omit<Filters, "label" | "known">} filters
 * @property {(items: readonly Item[]) => KnownValues} [known] values of the items, for completion; makes the search a query
 * @property {string} [counted] the field of the known values that is shown with its counts
 * @property {readonly Column<Item>[]} columns
 * @property {(items: readonly Item[], now: number) => Group[]} [groups] items that failed alike
 * @property {(items: readonly Item[]) => string} [total] what adds up over the shown items; empty without any
 * @property {number} skeleton lines shown while it loads
 * @property {boolean} [showsHint] whether the server's hint is shown below the list
 * @property {(item: Item) => string} href
 * @property {(item: Item, now: number) => Child[]} cells of a row
 * @property {(row: HTMLElement, item: Item, now: number) => void} tick updates the texts that count
 * @property {(hint: string | null) => HTMLElement} empty shown if the server has no item at all
 */

/**
 * @template Item
 * @typedef {object} Column
 * @property {string} label
 * @property {string} [sort] its name in the URL, if the list can be sorted by it
 * @property {(item: Item, now: number) => number} [value] to sort by, the largest first
 */

/** @typedef {{key: string, text: string}} Group the key is that of `failure.group` */

const REFRESH_SECONDS = 15;
const MAX_GROUPS = 5;
const MAX_COUNTED = 12;

/** @template {{started_at: number}} Item */
class ListView extends Part {
  #of;
  /** @type {ListModel<Item>} */
  #model;
  #filters;
  #list;
  #head;
  #groups = h("ul", { class: "failure-groups", "aria-label": "Similar failures", hidden: true });
  #total = h("p", { class: "runs-total dim nums", hidden: true });
  #counts = h("ul", { class: "chips tag-counts", "aria-label": "Tags of the listed runs" });
  #foot = div("runs-foot");
  #hint = h("p", { class: "runs-hint dim", role: "status", hidden: true });
  #draw = beforePaint(() => this.#drawNow());
  #query = "";
  /** @type {KnownValues | null} */
  #lastKnown = null;
  /** @type {WeakMap<Element, Item>} the item of each row */
  #shown = new WeakMap();

  /** @param {List<Item>} list */
  constructor(list) {
    super();
    const { noun, title } = list;
    this.#of = list;
    this.#model = new ListModel(list.items);
    this.#filters = new ListFilters({
      ...list.filters,
      label: title,
      ...(list.known ? { known: () => this.#knownValues() } : {}),
    });
    this.#list = h("ul", { class: "runs", "aria-label": `${title}, newest first` });
    this.#head = h(
      "div",
      { class: `${noun}-row head`, role: "group", "aria-label": "Sort by" },
      ...list.columns.map(({ label, sort }) =>
        sort ? sortButton(label, sort) : h("span", { "aria-hidden": "true" }, label),
      ),
    );
  }

  connectedCallback() {
    const { noun, title, tick, showsHint = false } = this.#of;
    this.append(
      div("page-head", h("h1", {}, title), ...(this.#of.actions?.() ?? [])),
      this.#filters.element,
      ...(this.#of.counted ? [this.#counts] : []),
      this.#groups,
      this.#total,
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
    this.#draw();
    const wanted = queryOf(query, this.#of.items.filters);
    if (JSON.stringify(wanted) === this.#query) return;
    this.#query = JSON.stringify(wanted);
    void this.#model.open(wanted);
  }

  #drawNow() {
    const { hint } = this.#model;
    const now = pageNow();
    const items = this.#arranged(now);
    this.#drawGroups(now);
    this.#drawCounts();
    for (const sorter of this.#head.querySelectorAll("button"))
      sorter.setAttribute("aria-pressed", String(sorter.dataset["sort"] === this.#sort));
    this.#head.hidden = !items.length;
    const total = this.#of.total?.(items) ?? "";
    this.#total.hidden = !total;
    setText(this.#total, total);
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

  get #sort() {
    return currentRoute.value.query.get("sort") ?? "started";
  }

  /** The loaded items, of the chosen group and in the chosen order. @param {number} now */
  #arranged(now) {
    const group = currentRoute.value.query.get("failure");
    const { items } = this.#model;
    const shown = group ? items.filter((item) => groupOf(item) === group) : items;
    const value = this.#of.columns.find(({ sort }) => sort === this.#sort)?.value;
    if (!value || this.#sort === "started") return shown; // they are newest first
    return [...shown].sort((one, other) => value(other, now) - value(one, now));
  }

  /** @param {number} now */
  #drawGroups(now) {
    const groups = this.#of.groups?.(this.#model.items, now).slice(0, MAX_GROUPS) ?? [];
    const chosen = currentRoute.value.query.get("failure");
    this.#groups.hidden = !groups.length;
    updateChildren(this.#groups, groups, {
      key: ({ key }) => key,
      make: ({ key }) => h("li", {}, groupButton(key)),
      update: (row, { key, text }) => {
        const toggle = /** @type {HTMLElement} */ (row.firstElementChild);
        setText(/** @type {HTMLElement} */ (toggle.lastElementChild), text);
        toggle.setAttribute("aria-pressed", String(key === chosen));
      },
    });
  }

  /** The values of the listed runs, or of the last ones: a half-typed term may match none. */
  #knownValues() {
    const { items } = this.#model;
    if (items.length || !this.#lastKnown) this.#lastKnown = this.#of.known?.(items) ?? {};
    return this.#lastKnown;
  }

  /** The most frequent values of a field, each a filter: `nightly (14)`. */
  #drawCounts() {
    const { known, counted = "", nouns } = this.#of;
    const values = [...(known?.(this.#model.items)[counted] ?? [])].slice(0, MAX_COUNTED);
    const q = currentRoute.value.query.get("q") ?? "";
    updateChildren(this.#counts, values, {
      key: ([value]) => value,
      make: ([value]) => h("li", {}, termButton(termText(counted, value), value)),
      update: (row, [value, count]) => {
        const toggle = /** @type {HTMLElement} */ (row.firstElementChild);
        setText(/** @type {Element} */ (toggle.lastElementChild), ` (${count})`);
        toggle.title = `${value}: ${count} of the listed ${nouns}`;
        toggle.setAttribute("aria-pressed", String(hasTerm(q, termText(counted, value))));
      },
    });
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
    if (at === "failed" && error instanceof ApiError && error.code === "invalid_query")
      return mistake(error);
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
    const q = currentRoute.value.query.get("q");
    return state(
      { symbol: "search", title: `No ${noun} matches`, text },
      q ? h("a", { class: "button", href: searchPath(q) }, "Search in events") : null,
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

/** @param {unknown} item */
const groupOf = (item) => /** @type {{failure?: {group: string} | null}} */ (item).failure?.group;

/** A query with a mistake. @param {ApiError} error */
function mistake({ message, position }) {
  const q = currentRoute.value.query.get("q") ?? "";
  return state(
    { symbol: "search", title: "This query has a mistake", text: message },
    mistakeMark(q, position ?? 1),
  );
}

/** Adds a term to the query, or removes it. @param {string} term @param {string} value shown, before its count */
function termButton(term, value) {
  const toggle = () => setQuery({ q: toggleTerm(currentRoute.value.query.get("q") ?? "", term) });
  return button(toggle, { class: "chip" }, h("bdi", { class: "cut" }, value), h("span", {}));
}

/** Shows the runs of one group only, or all again. @param {string} key */
function groupButton(key) {
  const toggle = () =>
    setQuery({ failure: currentRoute.value.query.get("failure") === key ? null : key });
  return button(toggle, { class: "failure-group" }, icon("failed"), h("span", {}));
}

/** @param {string} label @param {string} sort */
function sortButton(label, sort) {
  const choose = () => setQuery({ sort: sort === "started" ? null : sort });
  return button(
    choose,
    { class: "sort", data: { sort }, title: `Sort by ${label.toLowerCase()}` },
    label,
  );
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
