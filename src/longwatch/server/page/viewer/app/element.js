/**
 * What our custom elements share: things to undo when an element leaves the page.
 */
export class Part extends HTMLElement {
  /** @type {(() => void)[]} */
  #undo = [];

  /**
   * Call this when the element leaves.
   * @param {() => void} undo
   */
  whenGone(undo) {
    this.#undo.push(undo);
  }

  disconnectedCallback() {
    for (const undo of this.#undo.splice(0)) undo();
  }
}

/**
 * Register a custom element once; a module may be loaded by the page and by a report.
 * @param {string} name
 * @param {CustomElementConstructor} type
 */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
