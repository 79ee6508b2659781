/**
 * Limits how many windows of a browser hold a connection to one server. HTTP/1.1 has six for all of them together: six
 * windows that stream would leave none to load a seventh. HTTP/2 has no such limit.
 */

export const MAX_HELD = 4; // the others are for requests

/** @typedef {Pick<LockManager, "request">} Locks */

export class StreamSlots {
  #locks;
  /** @type {(() => void) | null} */
  #release = null;

  /** @param {Locks | null} locks Shared by the windows of an origin; null where nothing limits streams. */
  constructor(locks) {
    this.#locks = locks;
  }

  /** Take a slot unless this window has one. @returns {Promise<boolean>} false if others hold all of them */
  async take() {
    if (!this.#locks || this.#release) return true;
    for (let number = 0; number < MAX_HELD; number += 1) {
      const release = await lockNow(this.#locks, `longwatch-stream-${number}`);
      if (release && this.#release)
        release(); // taken twice at once
      else if (release) this.#release = release;
      if (release) return true;
    }
    return false;
  }

  release() {
    this.#release?.();
    this.#release = null;
  }
}

/**
 * Hold a lock until the returned function is called, if it is free.
 * @param {Locks} locks @param {string} name @returns {Promise<(() => void) | null>}
 */
function lockNow(locks, name) {
  return new Promise((resolve) => {
    locks
      .request(name, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise((released) => resolve(() => released(undefined)));
        resolve(null);
      })
      .catch(() => resolve(() => {})); // a page without an origin has no locks, and no other windows
  });
}

/** The locks of the browser, unless the page came over a protocol without a limit. @returns {Locks | null} */
export function browserLocks() {
  const [page] = globalThis.performance?.getEntriesByType?.("navigation") ?? [];
  const protocol = /** @type {PerformanceNavigationTiming | undefined} */ (page)?.nextHopProtocol;
  return protocol?.startsWith("h2") || protocol?.startsWith("h3")
    ? null
    : (globalThis.navigator?.locks ?? null);
}
