/** Schedules that several subscribers share: a fixed interval, and the soonest of several schedules. */

import { Ramp, validateDelay } from "../../core/schedule.js";

/** @import { Schedule } from "../../core/schedule.js" */

/**
 * Always the same delay.
 * @implements {Schedule}
 */
export class Fixed {
  /** @param {number} ms */
  constructor(ms) {
    validateDelay("interval", ms);
    this.delay = ms;
    /** @type {string | null} */
    this.reason = null;
    Object.freeze(this);
  }

  afterPoll() {
    return this;
  }

  touched() {
    return this;
  }
}

/**
 * Several schedules for one poll, by the requested interval: the soonest decides.
 * @implements {Schedule}
 */
export class Soonest {
  /** @param {ReadonlyMap<number | null, Schedule>} [members] */
  constructor(members = new Map()) {
    this.members = members;
    Object.freeze(this);
  }

  /** @returns {number | null} */
  get delay() {
    /** @type {number | null} */
    let soonest = null;
    for (const { delay } of this.members.values()) {
      if (delay !== null && (soonest === null || delay < soonest)) soonest = delay;
    }
    return soonest;
  }

  /** @returns {string | null} */
  get reason() {
    if (this.delay !== null) return null;
    for (const { reason } of this.members.values()) if (reason) return reason;
    return "no subscribers";
  }

  /**
   * The schedule with this interval added; an existing one starts again.
   * @param {number | null} interval
   */
  withInterval(interval) {
    const members = new Map(this.members);
    members.delete(interval);
    return new Soonest(members.set(interval, scheduleFor(interval)));
  }

  /** @param {number | null} interval */
  without(interval) {
    const members = new Map(this.members);
    members.delete(interval);
    return new Soonest(members);
  }

  /**
   * @param {number} now
   * @param {boolean} news
   */
  afterPoll(now, news) {
    return this.#each((schedule) => schedule.afterPoll(now, news));
  }

  /** @param {number} now */
  touched(now) {
    return this.#each((schedule) => schedule.touched(now));
  }

  /** @param {(schedule: Schedule) => Schedule} next */
  #each(next) {
    return new Soonest(
      new Map([...this.members].map(([interval, schedule]) => [interval, next(schedule)])),
    );
  }
}

/**
 * A fixed schedule for an interval in milliseconds, the ramp for none.
 * @param {number | null} [interval]
 * @returns {Fixed | Ramp}
 */
export function scheduleFor(interval = null) {
  return interval === null ? new Ramp() : new Fixed(interval);
}
