/**
 * An object whose changes can be watched.
 * @template [Change=void]
 */
export class Watchable {
  /** @type {Set<(change: Change) => void>} */
  #watchers = new Set();

  /**
   * Notify a watcher of every change, until the returned function is called.
   * @param {(change: Change) => void} watcher @returns {() => void}
   */
  watch(watcher) {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** @param {Change} change */
  notify(change) {
    for (const watcher of [...this.#watchers]) watcher(change);
  }
}

/**
 * A value that can be watched. An equal value notifies no watcher.
 * @template T
 * @extends {Watchable<T>}
 */
export class Observable extends Watchable {
  /** @param {T} value */
  constructor(value) {
    super();
    this.value = value;
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    this.notify(value);
  }

  /**
   * Also notifies the watcher of the current value at once.
   * @override
   * @param {(value: T) => void} watcher
   */
  watch(watcher) {
    const stop = super.watch(watcher);
    watcher(this.value);
    return stop;
  }
}
