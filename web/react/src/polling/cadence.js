/** The schedule of a poll while it succeeds and its backoff while it fails, as one value. */

import { Backoff } from "../../core/backoff.js";

/** @import { Schedule } from "../../core/schedule.js" */

/** For requests: 2, 4, 8, 16, 16 seconds; stops at the sixth failure in a row. */
export const REQUEST_BACKOFF = new Backoff({
  first: 2_000,
  factor: 2,
  most: 16_000,
  maxRetries: 5,
});

/** @template {Schedule} [S=Schedule] */
export class Cadence {
  /**
   * @param {S} schedule
   * @param {Backoff} [backoff]
   * @param {string | null} [lastError] While polls fail.
   */
  constructor(schedule, backoff = REQUEST_BACKOFF, lastError = null) {
    this.schedule = schedule;
    this.backoff = backoff;
    this.lastError = lastError;
    Object.freeze(this);
  }

  /** Milliseconds from the last poll to the next; null once it has stopped. */
  get nextDelay() {
    return this.failures ? this.backoff.delay : this.schedule.delay;
  }

  /** The number of polls that failed in a row. */
  get failures() {
    return this.backoff.failures;
  }

  /** Whether there is no further poll until the next touch. */
  get stopped() {
    return this.nextDelay === null;
  }

  /** Why it waits longer than usual or has stopped, as text; null while polls succeed. */
  get reason() {
    if (!this.failures) return this.schedule.reason;
    const count = this.failures === 1 ? "1 failure" : `${this.failures} failures in a row`;
    const failures = this.lastError ? `${count}: ${this.lastError}` : count;
    return this.stopped ? `gave up after ${failures}` : failures;
  }

  /**
   * The state after a successful poll.
   *
   * @param {number} now
   * @param {boolean} [news]
   * @returns {Cadence<S>}
   */
  succeeded(now, news = true) {
    return new Cadence(
      /** @type {S} */ (this.schedule.afterPoll(now, news)),
      this.backoff.succeeded(),
    );
  }

  /**
   * The state after a failed poll.
   *
   * @param {unknown} error
   * @param {() => number} [draw]
   * @returns {Cadence<S>}
   */
  failed(error, draw) {
    return new Cadence(this.schedule, this.backoff.failed(draw), errorText(error));
  }

  /**
   * The state after a sign of interest. The schedule starts again, and so does a backoff that had given up. A backoff
   * that is still running continues, because interest does not repair the failure.
   *
   * @param {number} now
   * @returns {Cadence<S>}
   */
  touched(now) {
    const schedule = /** @type {S} */ (this.schedule.touched(now));
    return this.backoff.stopped
      ? new Cadence(schedule, this.backoff.succeeded())
      : new Cadence(schedule, this.backoff, this.lastError);
  }

  /**
   * @param {S} schedule
   * @returns {Cadence<S>}
   */
  on(schedule) {
    return new Cadence(schedule, this.backoff, this.lastError);
  }
}

/** @param {unknown} error */
function errorText(error) {
  if (!(error instanceof Error)) return error == null ? null : String(error);
  return error.message ? `${error.name}: ${error.message}` : error.name;
}
