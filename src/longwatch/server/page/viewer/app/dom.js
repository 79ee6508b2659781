/** Creates elements. Text only ever becomes a text node, so recorded text can never be markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */
/**
 * @typedef {object} SpecialProps
 * @property {string | null} [class]
 * @property {Record<string, string | number>} [style] custom properties and styles, set through the CSSOM
 * @property {Record<string, string>} [data]
 * @property {Record<string, (event: any) => void>} [on]
 */
/** @typedef {SpecialProps & {[attribute: string]: unknown}} Props */

const SVG = "http://www.w3.org/2000/svg";
const REFUSED = /^(on|srcdoc$|style$)/i;

/**
 * An HTML element. Properties are attributes, except `class`, `style`, `data` and `on`.
 * @type {{
 *   <Tag extends keyof HTMLElementTagNameMap>(tag: Tag, props?: Props, ...children: Child[]): HTMLElementTagNameMap[Tag],
 *   (tag: string, props?: Props, ...children: Child[]): HTMLElement,
 * }}
 */
export const h = (
  /** @type {string} */ tag,
  /** @type {Props} */ props = {},
  /** @type {Child[]} */ ...children
) => {
  const element = document.createElement(tag);
  setProps(element, props);
  append(element, children);
  return /** @type {any} */ (element);
};

/**
 * An SVG element, with the same rules.
 * @param {string} tag @param {Props} [props] @param {...Child} children @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  setProps(element, props);
  append(element, children);
  return element;
}

/** Replace the children of an element. @param {Element} parent @param {...Child} children */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * Update the children of `parent` to match `items`, in order, reusing the elements of items that stay.
 * @template Item
 * @param {Element} parent @param {Iterable<Item>} items
 * @param {{key: (item: Item) => string, make: (item: Item) => HTMLElement, update?: (element: HTMLElement, item: Item) => void}} how
 */
export function updateChildren(parent, items, { key, make, update }) {
  const existing = new Map(
    [...parent.children].map((child) => [/** @type {HTMLElement} */ (child).dataset.key, child]),
  );
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = /** @type {HTMLElement | undefined} */ (existing.get(name));
    if (element) {
      existing.delete(name);
    } else {
      element = make(item);
      element.dataset.key = name;
    }
    update?.(element, item);
    if (element === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(element, next);
    }
  }
  for (const leftover of existing.values()) leftover.remove();
}

/**
 * Set text only if it differs: an unchanged node costs no layout.
 * @param {Node} node @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A button that calls `click`.
 * @param {(event: MouseEvent) => void} click @param {Props} props @param {...Child} children
 */
export const button = (click, props, ...children) =>
  h("button", { type: "button", ...props, on: { click } }, ...children);

/**
 * Whether an element has to be drawn again: `shown` differs from the last call for this element.
 * @param {HTMLElement} element
 * @param {string} shown everything the drawing depends on
 */
export function isOutdated(element, shown) {
  if (element.dataset["shown"] === shown) return false;
  element.dataset["shown"] = shown;
  return true;
}

/** @param {ParentNode} parent @param {string} selector @returns {HTMLElement | null} */
export const find = (parent, selector) => parent.querySelector(selector);

/**
 * Focus the next or the previous element; without a focused one, the first or the last.
 * @param {Iterable<Element>} elements @param {number} step
 */
export function moveFocus(elements, step) {
  const all = /** @type {HTMLElement[]} */ ([...elements]);
  const at = all.findIndex((element) => element.contains(document.activeElement));
  const next =
    all[
      at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))
    ];
  next?.focus();
  return next;
}

/**
 * A function that runs `draw` once before the next paint, however often it is called.
 * @param {() => void} draw @returns {() => void}
 */
export function beforePaint(draw) {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      draw();
    });
  };
}

/** @param {Element} element @param {Props} props */
function setProps(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") {
      element.setAttribute("class", String(value));
    } else if (name === "style") {
      for (const [property, setting] of Object.entries(
        /** @type {Record<string, string | number>} */ (value),
      )) {
        /** @type {HTMLElement | SVGElement} */ (element).style.setProperty(
          property,
          String(setting),
        );
      }
    } else if (name === "data") {
      Object.assign(/** @type {HTMLElement} */ (element).dataset, value);
    } else if (name === "on") {
      for (const [type, listener] of Object.entries(
        /** @type {Record<string, EventListener>} */ (value),
      )) {
        element.addEventListener(type, listener);
      }
    } else if (!REFUSED.test(name)) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/** @param {Element} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}
