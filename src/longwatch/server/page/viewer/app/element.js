/** The base of the custom elements: runs cleanups when an element leaves the page. */
export class Part extends HTMLElement {
  /** @type {(() => void)[]} */
  #cleanups = [];

  /** @param {...() => void} cleanups */
  onDisconnect(...cleanups) {
    this.#cleanups.push(...cleanups);
  }

  /** @param {() => void} draw */
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
 * Run an element again as if it had just been inserted.
 * @param {Part & {connectedCallback: () => void}} element
 */
export function restart(element) {
  element.disconnectedCallback();
  element.connectedCallback();
}

/**
 * Register a custom element once: the page and a report may load the same module.
 * @param {string} name @param {CustomElementConstructor} type
 */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
