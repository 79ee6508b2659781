/**
 * `<lw-window>`: a list of any length that draws only the visible rows. All rows have the same height.
 *
 * It is a listbox, or a tree if it has that role: one row is active, arrow keys move it, and the list itself has the focus.
 */

import { beforePaint, h } from "./dom.js";
import { Part, define } from "./element.js";

const ROW_PX = 28;
const SPARE_ROWS = 12;
const AT_END_PX = 24;

/**
 * @typedef {object} Rows
 * @property {readonly any[] | Int32Array} items one for each row
 * @property {(item: any) => HTMLElement} draw
 * @property {(item: any) => string} key identifies the content of a row; a row with the same key is reused
 * @property {number} [newest] index of the row to stay at; without it, or if it is not listed, the last
 */

export class WindowList extends Part {
  /** @type {Rows} */
  #rows = { items: [], draw: () => h("div"), key: String };
  /** @type {Map<string, HTMLElement>} */
  #drawn = new Map();
  #span = h("div", { class: "span", role: "presentation" });
  #active = -1;
  #follows = false;
  #name = `window-${Math.random().toString(36).slice(2)}`;
  #draw = beforePaint(() => this.drawNow());
  /** Called when the user selects a row. @type {(item: any) => void} */
  onSelect = () => {};
  /** Called when the user opens a row with Enter or a double click. @type {(item: any) => void} */
  onOpen = () => {};
  /** Called when the list starts or stops staying at its newest row. @type {(follows: boolean) => void} */
  onFollow = () => {};

  connectedCallback() {
    if (!this.contains(this.#span)) this.append(this.#span);
    if (!this.hasAttribute("role")) this.setAttribute("role", "listbox");
    this.tabIndex = 0;
    this.addEventListener("scroll", this.#onScroll, { passive: true });
    this.addEventListener("keydown", this.#onKey);
    this.addEventListener("click", this.#onClick);
    this.onResize(() => {
      if (this.#follows) this.#toEnd();
      this.#draw();
    });
    this.#draw();
  }

  get active() {
    return this.#active;
  }

  get visibleRows() {
    return Math.max(1, Math.floor(this.clientHeight / ROW_PX));
  }

  get firstVisible() {
    return Math.floor(this.scrollTop / ROW_PX);
  }

  /** Whether the list stays at its newest row while it grows. */
  get follows() {
    return this.#follows;
  }

  set follows(value) {
    if (value) this.#toEnd();
    if (value === this.#follows) return;
    this.#follows = value;
    this.onFollow(value);
  }

  /**
   * Show these rows. `anchor` is the number of rows inserted above: the list scrolls so that the visible rows stay.
   * @param {Rows} rows
   * @param {{fresh?: boolean, anchor?: number}} [how] `fresh` draws all rows again, at once
   */
  show(rows, { fresh = false, anchor = 0 } = {}) {
    this.#rows = rows;
    if (fresh) this.#clear();
    if (this.#active >= rows.items.length) this.#active = -1;
    this.#stretch();
    if (anchor) this.scrollBy(0, anchor * ROW_PX);
    if (this.#follows) this.#toEnd();
    if (fresh) this.drawNow();
    else this.#draw();
  }

  /**
   * Make a row the active one and scroll to it.
   * @param {number} index @param {{isSelection?: boolean, centre?: boolean}} [how]
   */
  activate(index, { isSelection = false, centre = false } = {}) {
    if (!this.#rows.items.length) return;
    const within = Math.max(0, Math.min(this.#rows.items.length - 1, index));
    this.#active = within;
    const top = within * ROW_PX;
    if (centre) this.scrollTo(0, top - this.clientHeight / 2 + ROW_PX);
    else if (top < this.scrollTop) this.scrollTo(0, top);
    else if (top + ROW_PX > this.scrollTop + this.clientHeight)
      this.scrollTo(0, top + ROW_PX - this.clientHeight);
    this.drawNow();
    if (isSelection) this.onSelect(this.#rows.items[within]);
  }

  /** Make a row the active one without scrolling; -1: none. @param {number} index */
  mark(index) {
    if (index === this.#active) return;
    this.#active = index;
    this.#draw();
  }

  deactivate() {
    this.#active = -1;
    this.removeAttribute("aria-activedescendant");
    this.#draw();
  }

  /**
   * Make the row of the matching item the active one; none without a match.
   * @param {(item: any) => boolean} matches
   */
  reveal(matches) {
    const index = this.#rows.items.findIndex(matches);
    if (index < 0) return this.deactivate();
    if (index === this.#active) return;
    this.follows = false;
    this.activate(index, { centre: true });
  }

  /**
   * Select the next or the previous row; without an active one, the first visible row.
   * @param {number} step
   */
  move(step) {
    this.activate(this.#active < 0 ? this.firstVisible : this.#active + step, {
      isSelection: true,
    });
  }

  drawNow() {
    const { items, draw, key } = this.#rows;
    const isList = this.getAttribute("role") === "listbox";
    const first = Math.max(0, this.firstVisible - SPARE_ROWS);
    const last = Math.min(items.length, this.firstVisible + this.visibleRows + 1 + SPARE_ROWS);
    const before = this.#drawn;
    /** @type {Map<string, HTMLElement>} */
    const now = new Map();
    for (let index = first; index < last; index += 1) {
      const item = items[index];
      const name = key(item);
      let row = before.get(name);
      if (row) {
        before.delete(name);
      } else {
        row = draw(item);
        row.setAttribute("role", isList ? "option" : "treeitem");
        this.#span.append(row);
      }
      const transform = `translateY(${index * ROW_PX}px)`;
      if (row.style.transform !== transform) row.style.transform = transform;
      row.id = `${this.#name}-${index}`;
      row.dataset["index"] = String(index);
      if (isList) {
        row.setAttribute("aria-setsize", String(items.length));
        row.setAttribute("aria-posinset", String(index + 1));
      }
      row.setAttribute("aria-selected", String(index === this.#active));
      now.set(name, row);
    }
    for (const gone of before.values()) gone.remove();
    this.#drawn = now;
    const active = this.#active >= first && this.#active < last;
    if (active) this.setAttribute("aria-activedescendant", `${this.#name}-${this.#active}`);
    else this.removeAttribute("aria-activedescendant");
  }

  #clear() {
    for (const row of this.#drawn.values()) row.remove();
    this.#drawn.clear();
  }

  #stretch() {
    const height = `${this.#rows.items.length * ROW_PX}px`;
    if (this.#span.style.height !== height) this.#span.style.height = height;
  }

  #toEnd() {
    this.scrollTo(0, this.#end);
  }

  /** The scroll position at which the newest row is the lowest one. */
  get #end() {
    const { items, newest = items.length } = this.#rows;
    return Math.max(0, Math.min(newest + 1, items.length) * ROW_PX - this.clientHeight);
  }

  #onScroll = () => {
    if (this.#follows && Math.abs(this.scrollTop - this.#end) > AT_END_PX) {
      this.#follows = false;
      this.onFollow(false);
    }
    this.#draw();
  };

  /** @param {KeyboardEvent} event */
  #onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = this.visibleRows - 1;
    const step = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    }[event.key];
    if (event.key === "Enter" && this.#active >= 0) {
      this.onOpen(this.#rows.items[this.#active]);
    } else if (step !== undefined) {
      const from =
        this.#active < 0 ? (step > 0 ? this.firstVisible - 1 : this.firstVisible) : this.#active;
      this.activate(from + step, { isSelection: true });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  /** @param {MouseEvent} event */
  #onClick = (event) => {
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    if (!(row instanceof HTMLElement) || !this.#span.contains(row)) return;
    const index = Number(row.dataset["index"]);
    const again = index === this.#active && event.detail > 1;
    this.activate(index, { isSelection: true });
    if (again) this.onOpen(this.#rows.items[index]);
  };
}

define("lw-window", WindowList);
