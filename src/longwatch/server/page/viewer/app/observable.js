/**
 * A value that can be watched. Setters compare first: what has not changed wakes nobody.
 * @template T
 */
export class Observable {
  /** @type {Set<(value: T) => void>} */
  #watchers = new Set();
  /** @type {T} */
  #value;

  /** @param {T} value */
  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher(value);
  }

  /**
   * Be told now and on every change, until the returned function is called.
   * @param {(value: T) => void} watcher
   * @returns {() => void}
   */
  watch(watcher) {
    this.#watchers.add(watcher);
    watcher(this.#value);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
