/** How long to wait after a failure. A value: each failure and each success returns the next state. */

/**
 * @typedef {object} BackoffOptions
 * @property {number} first Milliseconds.
 * @property {number} factor
 * @property {number} most Milliseconds.
 * @property {number | null} [maxRetries] Unlimited if missing or null.
 * @property {number} [jitter] The share by which each delay may shrink.
 */

export class Backoff {
  /**
   * @param {BackoffOptions} options
   * @param {number} [failures] In a row, so far.
   * @param {number} [drawn] The last draw for the jitter, from 0 up to 1.
   */
  constructor(options, failures = 0, drawn = 0) {
    const { first, factor, most } = options;
    if (!(first > 0 && first <= most && most < Infinity && factor >= 1 && factor < Infinity)) {
      throw new RangeError(
        `Invalid backoff: ${first} ms times ${factor} up to ${most} ms. ` +
          "Use 0 < first <= most and a factor of at least 1.",
      );
    }
    this.options = options;
    this.failures = failures;
    this.drawn = drawn;
    Object.freeze(this);
  }

  /** Whether it has given up. */
  get stopped() {
    const { maxRetries = null } = this.options;
    return maxRetries !== null && this.failures > maxRetries;
  }

  /** Milliseconds until the next attempt: 0 without a failure, null when it has given up. */
  get delay() {
    if (this.failures === 0) return 0;
    if (this.stopped) return null;
    const { first, factor, most, jitter = 0 } = this.options;
    return Math.min(most, first * factor ** (this.failures - 1)) * (1 - jitter * this.drawn);
  }

  /** The state after one more failure. */
  failed(draw = Math.random) {
    return new Backoff(this.options, this.failures + 1, this.options.jitter ? draw() : 0);
  }

  /** The state after a success. */
  succeeded() {
    return this.failures ? new Backoff(this.options) : this;
  }
}

/**
 * For a feed that never gives up: 1, 2, 4, 8, 16, 30, 30 … seconds, each up to a quarter less, so that the viewers of a
 * restarted server do not all reconnect at once.
 */
export const FEED_BACKOFF = new Backoff({ first: 1_000, factor: 2, most: 30_000, jitter: 0.25 });
