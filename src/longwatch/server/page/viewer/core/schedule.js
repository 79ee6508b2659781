/**
 * When to poll next while nothing fails. Values: each poll returns the next state, and none of them waits.
 * Times are milliseconds of any monotonic clock.
 *
 * @typedef {object} Schedule
 * @property {number | null} delay From the last poll to the next; null once it has stopped.
 * @property {string | null} reason Why it has stopped, as text.
 * @property {(now: number, news: boolean) => Schedule} afterPoll The state after a poll at this moment.
 * @property {(now: number) => Schedule} touched The state after a sign of interest.
 */

/**
 * @typedef {object} RampOptions
 * @property {number} [first]
 * @property {number} [factor]
 * @property {number} [most]
 * @property {number} [activeMs]
 * @property {number} [quietMs]
 *
 * @typedef {object} RampState
 * @property {number | null} step The current delay, whether or not the ramp has stopped.
 * @property {number | null} startedAt Time of the first poll or the last touch.
 * @property {number | null} newsAt
 * @property {number | null} polledAt
 */

export const RAMP = Object.freeze({
  first: 1_000,
  factor: 1.5,
  most: 5_000,
  activeMs: 30_000,
  quietMs: 120_000,
});

/** @type {RampState} */
const NEVER_POLLED = { step: null, startedAt: null, newsAt: null, polledAt: null };

/**
 * A schedule that starts fast, slows down and stops.
 *
 * The delay is `first` for the first `activeMs`, then grows by `factor` with each poll up to `most`. News does not
 * shorten the delay, but keeps the ramp running: it stops at the first poll `quietMs` after the last news.
 * @implements {Schedule}
 */
export class Ramp {
  /** @param {RampOptions} [options] @param {RampState} [state] */
  constructor(options = {}, state = NEVER_POLLED) {
    this.options = { ...RAMP, ...options };
    const { first, factor, most } = this.options;
    validateDelay("first delay of the ramp", first);
    validateDelay("last delay of the ramp", most);
    if (first > most || !(factor >= 1 && factor < Infinity)) {
      throw new RangeError(
        `Invalid ramp: ${first} ms times ${factor} up to ${most} ms. ` +
          "Use first <= most and a factor of at least 1.",
      );
    }
    this.state = state;
    Object.freeze(this);
  }

  get delay() {
    return this.#isQuiet() ? null : (this.state.step ?? this.options.first);
  }

  get reason() {
    return this.#isQuiet() ? `no news for ${this.options.quietMs / 1000} s` : null;
  }

  /** @param {number} now @param {boolean} news */
  afterPoll(now, news) {
    const { first, factor, most, activeMs } = this.options;
    const startedAt = this.state.startedAt ?? now;
    const step = this.state.step ?? first;
    return new Ramp(this.options, {
      step: now - startedAt >= activeMs ? Math.min(most, step * factor) : step,
      startedAt,
      newsAt: news ? now : (this.state.newsAt ?? now),
      polledAt: now,
    });
  }

  /** @param {number} now */
  touched(now) {
    return new Ramp(this.options, { step: null, startedAt: now, newsAt: now, polledAt: now });
  }

  #isQuiet() {
    const { polledAt, newsAt } = this.state;
    return polledAt !== null && newsAt !== null && polledAt - newsAt >= this.options.quietMs;
  }
}

/** @param {string} what @param {unknown} ms */
export function validateDelay(what, ms) {
  if (typeof ms !== "number" || !(ms > 0 && ms < Infinity)) {
    throw new RangeError(`Invalid ${what}: ${String(ms)}. Use a number of milliseconds above 0.`);
  }
}
