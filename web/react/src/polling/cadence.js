/** A schedule while all is well and a backoff while it fails, as one value that people can be shown. */

import { Backoff } from "../../core/backoff.js";

/** @import { Schedule } from "../../core/schedule.js" */

/** For requests: 2, 4, 8, 16, 16 seconds, and it stops at the sixth failure in a row. */
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
   * @param {string | null} [lastError] While it fails.
   */
  constructor(schedule, backoff = REQUEST_BACKOFF, lastError = null) {
    this.schedule = schedule;
    this.backoff = backoff;
    this.lastError = lastError;
    Object.freeze(this);
  }

  /** Milliseconds from the last look to the next; null: it has stopped. */
  get nextDelay() {
    return this.failures ? this.backoff.delay : this.schedule.delay;
  }

  /** How many looks failed in a row. */
  get failures() {
    return this.backoff.failures;
  }

  /** Whether it looks no more until somebody touches it. */
  get stopped() {
    return this.nextDelay === null;
  }

  /** Why it waits longer than usual or has stopped, for people; null while all is well. */
  get reason() {
    if (!this.failures) return this.schedule.reason;
    const count = this.failures === 1 ? "1 failure" : `${this.failures} failures in a row`;
    const told = this.lastError ? `${count}: ${this.lastError}` : count;
    return this.stopped ? `gave up after ${told}` : told;
  }

  /**
   * The state after a look that was answered. Failures are forgotten at once.
   *
   * @param {number} now
   * @param {boolean} [news]
   * @returns {Cadence<S>}
   */
  succeeded(now, news = true) {
    return new Cadence(
      /** @type {S} */ (this.schedule.looked(now, news)),
      this.backoff.succeeded(),
    );
  }

  /**
   * The state after a look that was not answered.
   *
   * @param {unknown} error
   * @param {() => number} [draw]
   * @returns {Cadence<S>}
   */
  failed(error, draw) {
    return new Cadence(this.schedule, this.backoff.failed(draw), told(error));
  }

  /**
   * The state after somebody showed interest. The schedule begins again, and so does a backoff that had given
   * up. One that has not goes on: interest does not mend what fails.
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
function told(error) {
  if (!(error instanceof Error)) return error == null ? null : String(error);
  return error.message ? `${error.name}: ${error.message}` : error.name;
}
