/**
 * When to look again while all is well. Values: each look gives the next state, and none of them waits.
 * All times are milliseconds, `now` of any clock that only grows.
 *
 * @typedef {object} Schedule
 * @property {number | null} delay From the last look to the next; null: it has stopped.
 * @property {string | null} reason Why it has stopped, for people.
 * @property {(now: number, news: boolean) => Schedule} looked The state after a look at this moment.
 * @property {(now: number) => Schedule} touched The state after somebody showed interest.
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
 * @property {number | null} step The delay now, before it is known whether the ramp has stopped.
 * @property {number | null} startedAt First look, or the last touch.
 * @property {number | null} newsAt
 * @property {number | null} lookedAt
 */

export const RAMP = Object.freeze({
  first: 1_000,
  factor: 1.5,
  most: 5_000,
  activeMs: 30_000,
  quietMs: 120_000,
});

/** @type {RampState} */
const NEVER_LOOKED = { step: null, startedAt: null, newsAt: null, lookedAt: null };

/**
 * Intelligent polling: quick while it is young, then slower, then not at all.
 *
 * `first` for the first `activeMs`, then × `factor` with each look up to `most`. News does not quicken it, but
 * keeps it alive: it stops at the first look that comes `quietMs` after the last news.
 * @implements {Schedule}
 */
export class Ramp {
  /** @param {RampOptions} [options] @param {RampState} [state] */
  constructor(options = {}, state = NEVER_LOOKED) {
    this.options = { ...RAMP, ...options };
    const { first, factor, most } = this.options;
    checkDelay("the first delay of a ramp", first);
    checkDelay("the last delay of a ramp", most);
    if (first > most || !(factor >= 1 && factor < Infinity)) {
      throw new RangeError(
        `a ramp from ${first} ms times ${factor} does not lead up to ${most} ms; ` +
          "give first <= most and a factor of at least 1",
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
  looked(now, news) {
    const { first, factor, most, activeMs } = this.options;
    const startedAt = this.state.startedAt ?? now;
    const step = this.state.step ?? first;
    return new Ramp(this.options, {
      step: now - startedAt >= activeMs ? Math.min(most, step * factor) : step,
      startedAt,
      newsAt: news ? now : (this.state.newsAt ?? now),
      lookedAt: now,
    });
  }

  /** @param {number} now */
  touched(now) {
    return new Ramp(this.options, { step: null, startedAt: now, newsAt: now, lookedAt: now });
  }

  #isQuiet() {
    const { lookedAt, newsAt } = this.state;
    return lookedAt !== null && newsAt !== null && lookedAt - newsAt >= this.options.quietMs;
  }
}

/** @param {string} what @param {unknown} ms */
export function checkDelay(what, ms) {
  if (typeof ms !== "number" || !(ms > 0 && ms < Infinity)) {
    throw new RangeError(`${what} is a number of milliseconds above 0, not ${String(ms)}`);
  }
}
