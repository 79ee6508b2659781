/**
 * `<lw-window>`: a list of any length that draws only the rows in sight. Every row is equally high.
 *
 * It is a listbox: one row is active, arrows move it, and the list itself keeps the focus.
 */

import { beforePaint, h } from "./dom.js";
import { Part, define } from "./element.js";

const ROW_PX = 28;
const SPARE_ROWS = 12;
const AT_END_PX = 24;

/**
 * @typedef {object} Rows
 * @property {readonly any[]} items one for each row
 * @property {(item: any) => HTMLElement} draw
 * @property {(item: any) => string} key names what the row shows; a row whose key stays is kept
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
  /** Called when the reader chooses a row. @type {(item: any) => void} */
  onSelect = () => {};
  /** Called when a row is opened with Enter or a second click. @type {(item: any) => void} */
  onOpen = () => {};
  /** Called when the list starts or stops staying at its end. @type {(follows: boolean) => void} */
  onFollow = () => {};

  connectedCallback() {
    if (!this.contains(this.#span)) this.append(this.#span);
    this.setAttribute("role", "listbox");
    this.tabIndex = 0;
    this.addEventListener("scroll", this.#scrolled, { passive: true });
    this.addEventListener("keydown", this.#pressed);
    this.addEventListener("click", this.#clicked);
    this.onResize(() => {
      if (this.#follows) this.#toEnd();
      this.#draw();
    });
    this.#draw();
  }

  get active() {
    return this.#active;
  }

  get rowsInSight() {
    return Math.max(1, Math.floor(this.clientHeight / ROW_PX));
  }

  get firstInSight() {
    return Math.floor(this.scrollTop / ROW_PX);
  }

  /** Whether the list stays at its end while it grows. */
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
   * Show these rows. With `anchor`, rows were put in above: the list moves so that the reader's place stays.
   * @param {Rows} rows
   * @param {{fresh?: boolean, anchor?: number}} [how] `fresh` draws rows anew even if their keys stay
   */
  show(rows, { fresh = false, anchor = 0 } = {}) {
    this.#rows = rows;
    if (fresh) this.#clear();
    if (this.#active >= rows.items.length) this.#active = -1;
    this.#stretch();
    if (anchor) this.scrollBy(0, anchor * ROW_PX);
    if (this.#follows) this.#toEnd();
    this.#draw();
  }

  /**
   * Make a row the active one and bring it into sight.
   * @param {number} index
   * @param {{tell?: boolean, centre?: boolean}} [how]
   */
  activate(index, { tell = false, centre = false } = {}) {
    if (!this.#rows.items.length) return;
    const within = Math.max(0, Math.min(this.#rows.items.length - 1, index));
    this.#active = within;
    const top = within * ROW_PX;
    if (centre) this.scrollTo(0, top - this.clientHeight / 2 + ROW_PX);
    else if (top < this.scrollTop) this.scrollTo(0, top);
    else if (top + ROW_PX > this.scrollTop + this.clientHeight)
      this.scrollTo(0, top + ROW_PX - this.clientHeight);
    this.drawNow();
    if (tell) this.onSelect(this.#rows.items[within]);
  }

  /** No row is the active one. */
  deactivate() {
    this.#active = -1;
    this.removeAttribute("aria-activedescendant");
    this.#draw();
  }

  /**
   * Make the row of this item the active one; none if there is no such item.
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
   * Choose the next row or the one before; without an active one the first in sight.
   * @param {number} step
   */
  move(step) {
    this.activate(this.#active < 0 ? this.firstInSight : this.#active + step, { tell: true });
  }

  drawNow() {
    const { items, draw, key } = this.#rows;
    const first = Math.max(0, this.firstInSight - SPARE_ROWS);
    const last = Math.min(items.length, this.firstInSight + this.rowsInSight + 1 + SPARE_ROWS);
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
        row.setAttribute("role", "option");
        this.#span.append(row);
      }
      const place = `translateY(${index * ROW_PX}px)`;
      if (row.style.transform !== place) row.style.transform = place;
      row.id = `${this.#name}-${index}`;
      row.dataset["index"] = String(index);
      row.setAttribute("aria-setsize", String(items.length));
      row.setAttribute("aria-posinset", String(index + 1));
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
    this.scrollTo(0, this.#rows.items.length * ROW_PX);
  }

  #scrolled = () => {
    const atEnd =
      this.scrollTop + this.clientHeight >= this.#rows.items.length * ROW_PX - AT_END_PX;
    if (this.#follows && !atEnd) {
      this.#follows = false;
      this.onFollow(false);
    }
    this.#draw();
  };

  /** @param {KeyboardEvent} event */
  #pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = this.rowsInSight - 1;
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
        this.#active < 0 ? (step > 0 ? this.firstInSight - 1 : this.firstInSight) : this.#active;
      this.activate(from + step, { tell: true });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  /** @param {MouseEvent} event */
  #clicked = (event) => {
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    if (!(row instanceof HTMLElement) || !this.#span.contains(row)) return;
    const index = Number(row.dataset["index"]);
    const again = index === this.#active && event.detail > 1;
    this.activate(index, { tell: true });
    if (again) this.onOpen(this.#rows.items[index]);
  };
}

define("lw-window", WindowList);
