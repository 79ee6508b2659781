/**
 * Spreads costly work that every change makes outdated, so that a page with a large run stays responsive: after it, eight
 * times as long as it took passes until it is due again.
 */

const PAUSE = 8;

export class Pace {
  #now;
  #due = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #later;

  /** @param {() => number} [now] milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  get isDue() {
    return this.#now() >= this.#due;
  }

  /** @template T @param {() => T} work @returns {T} */
  run(work) {
    const began = this.#now();
    const result = work();
    const ended = this.#now();
    this.#due = ended + (ended - began) * PAUSE;
    return result;
  }

  /** Call a function once the work is due. @param {() => void} again */
  later(again) {
    this.#later ??= setTimeout(() => {
      this.#later = undefined;
      again();
    }, this.#due - this.#now());
  }

  stop() {
    clearTimeout(this.#later);
    this.#later = undefined;
  }
}
