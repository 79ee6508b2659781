/** A clock that a test turns by hand, with everything that happens between its ticks. */

/** @import { Environment } from "../../../src/longwatch/server/page/viewer/core/environment.js" */

export class FakeEnvironment {
  time = 0;
  #next = 1;
  /** @type {Map<number, {at: number, run: () => void}>} */
  #timers = new Map();

  now = () => this.time;

  /** @type {Environment["setTimeout"]} */
  setTimeout = (run, ms) => {
    const id = this.#next++;
    this.#timers.set(id, { at: this.time + Math.max(0, ms), run });
    return id;
  };

  /** @type {Environment["clearTimeout"]} */
  clearTimeout = (id) => void this.#timers.delete(id);

  /** @type {Environment["fetch"]} */
  fetch = () => Promise.reject(new TypeError("this environment has no network"));

  /** How many timers wait. */
  get pending() {
    return this.#timers.size;
  }

  /**
   * Let so many milliseconds pass, with all that happens meanwhile.
   *
   * @param {number} ms
   */
  async advance(ms) {
    const until = this.time + ms;
    await settled();
    for (;;) {
      const due = [...this.#timers]
        .filter(([, { at }]) => at <= until)
        .sort(([a, one], [b, other]) => one.at - other.at || a - b);
      const first = due[0];
      if (first === undefined) break;
      const [id, { at, run }] = first;
      this.#timers.delete(id);
      this.time = Math.max(this.time, at);
      run();
      await settled();
    }
    this.time = until;
  }
}

/** Until promises and streams have nothing left to do. */
export async function settled() {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
