/**
 * What the custom elements share: a cleanup when an element leaves the page.
 */
export class Part extends HTMLElement {
  /** @type {(() => void)[]} */
  #cleanups = [];

  /**
   * Call these functions when the element leaves the page.
   * @param {...() => void} cleanups
   */
  onDisconnect(...cleanups) {
    this.#cleanups.push(...cleanups);
  }

  /**
   * Call this function when the size of the element changes.
   * @param {() => void} draw
   */
  onResize(draw) {
    const observer = new ResizeObserver(draw);
    observer.observe(this);
    this.onDisconnect(() => observer.disconnect());
  }

  disconnectedCallback() {
    for (const cleanup of this.#cleanups.splice(0)) cleanup();
  }
}

/**
 * Start an element again, as if it had just been inserted.
 * @param {Part & {connectedCallback: () => void}} element
 */
export function restart(element) {
  element.disconnectedCallback();
  element.connectedCallback();
}

/**
 * Register a custom element once; a module may be loaded by the page and by a report.
 * @param {string} name
 * @param {CustomElementConstructor} type
 */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
