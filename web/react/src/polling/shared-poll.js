/** The one poll that all subscribers of a key share, and what each of them gets from it. */

import { asError } from "../../core/errors.js";
import { Cadence } from "./cadence.js";
import { Soonest } from "./schedules.js";

/** @import { Backoff } from "../../core/backoff.js" */
/** @import { Poll, Request } from "./requests.js" */

/**
 * @typedef {object} Callbacks
 * @property {(value: any) => void} [onResult]
 * @property {(error: Error) => void} [onError]
 * @property {() => void} [onActivity] After polling was paused, resumed or started again: see `Registration.isPolling`.
 */

/**
 * A key's poll, from the first who wants it to the last.
 *
 * When the last one leaves, the manager forgets this object and makes a new one for whoever comes next: an
 * answer that is still under way reaches the old one only, and so never a later registration.
 */
export class SharedPoll {
  /** @type {Set<Subscriber>} */
  subscribers = new Set(); // oldest first
  /** @type {Request | null} */
  request = null; // queued or in flight
  /** @type {{value: any, at: number} | null} */
  answer = null;
  since = -Infinity; // what the delay to the next look counts from
  /** @type {number | null} */
  dueAt = null;
  /** @type {unknown} */
  timer = null;

  /**
   * @param {string} key
   * @param {Backoff} backoff
   */
  constructor(key, backoff) {
    this.key = key;
    this.cadence = new Cadence(new Soonest(), backoff);
  }

  /**
   * One more. A poll that had stopped goes on, and one that had slowed down begins again.
   *
   * @param {Subscriber} subscriber
   * @param {number} now
   */
  join(subscriber, now) {
    this.cadence = this.cadence.on(this.cadence.schedule.joined(subscriber.interval));
    if (this.cadence.stopped) this.cadence = this.cadence.touched(now);
    this.subscribers.add(subscriber);
  }

  /**
   * One fewer. What nobody else wanted so often is not done so often any more.
   *
   * @param {Subscriber} subscriber
   */
  leave(subscriber) {
    this.subscribers.delete(subscriber);
    for (const other of this.subscribers) if (other.interval === subscriber.interval) return;
    this.cadence = this.cadence.on(this.cadence.schedule.left(subscriber.interval));
  }

  /**
   * What to call: the poll of the one who has been here longest.
   *
   * @returns {Poll | null}
   */
  source() {
    for (const { poll } of this.subscribers) return poll;
    return null;
  }

  /**
   * Take in an answer. The next look counts from the beginning of this one.
   *
   * @param {any} value
   * @param {{startedAt: number, now: number, activeTime: number}} times
   */
  succeeded(value, { startedAt, now, activeTime }) {
    const news = this.answer === null || !isSame(this.answer.value, value);
    this.answer = { value, at: now };
    this.since = startedAt;
    this.cadence = this.cadence.succeeded(activeTime, news);
  }

  /**
   * Take in a failure. The next look counts from its end: one that failed slowly needs its rest too.
   *
   * @param {unknown} error
   * @param {number} now
   * @param {() => number} draw
   */
  failed(error, now, draw) {
    this.since = now;
    this.cadence = this.cadence.failed(error, draw);
  }
}

/** Somebody who wants the answers of a poll. */
export class Subscriber {
  active = true;
  #told = false;

  /**
   * @param {SharedPoll} shared
   * @param {Poll} poll
   * @param {number | null} interval
   * @param {Callbacks} callbacks
   */
  constructor(shared, poll, interval, callbacks) {
    this.shared = shared;
    this.poll = poll;
    this.interval = interval;
    this.callbacks = callbacks;
  }

  /**
   * Deliver an answer. What the subscriber throws hurts nobody else, and is reported to it.
   *
   * @param {any} value
   */
  give(value) {
    if (!this.active) return; // it left while the others before it were told
    this.#told = true;
    try {
      this.callbacks.onResult?.(value);
    } catch (mistake) {
      if (this.callbacks.onError) this.fail(mistake);
      else reportError(mistake);
    }
  }

  /**
   * Deliver a cached answer, unless a newer one was quicker.
   *
   * @param {any} value
   */
  catchUp(value) {
    if (!this.#told) this.give(value);
  }

  /** Report that polling was paused, resumed or started again. */
  notify() {
    if (!this.active) return;
    try {
      this.callbacks.onActivity?.();
    } catch (mistake) {
      reportError(mistake);
    }
  }

  /** @param {unknown} error */
  fail(error) {
    if (!this.active) return;
    try {
      this.callbacks.onError?.(asError(error));
    } catch (mistake) {
      reportError(mistake);
    }
  }
}

/** What a subscriber holds in its hand. */
export class Registration {
  #subscriber;
  #leave;
  #isPaused;

  /**
   * @param {Subscriber} subscriber
   * @param {(subscriber: Subscriber) => void} leave
   * @param {() => boolean} isPaused
   */
  constructor(subscriber, leave, isPaused) {
    this.#subscriber = subscriber;
    this.#leave = leave;
    this.#isPaused = isPaused;
  }

  get key() {
    return this.#subscriber.shared.key;
  }

  /** Whether anything may still be delivered. */
  get active() {
    return this.#subscriber.active;
  }

  /** Whether another poll will be sent: not while polling is paused, nor after the poll has stopped. */
  get isPolling() {
    return this.active && !this.state.stopped && !this.#isPaused();
  }

  /**
   * When the poll looks next, how often it failed, whether it has stopped and why.
   *
   * @returns {Cadence}
   */
  get state() {
    return this.#subscriber.shared.cadence;
  }

  /** The moment of the next look; null while none is planned. */
  get dueAt() {
    return this.active ? this.#subscriber.shared.dueAt : null;
  }

  /** Leave. Nothing is delivered any more, also not from a poll under way. Again, it does nothing. */
  dispose() {
    this.#leave(this.#subscriber);
  }
}

/**
 * Whether two values say the same, however deep.
 *
 * @param {unknown} one
 * @param {unknown} other
 * @returns {boolean}
 */
export function isSame(one, other) {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null)
    return false;
  if (Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
  if (Array.isArray(one))
    return Array.isArray(other) && one.length === other.length && sameEntries(one, other);
  if (one instanceof Date) return one.getTime() === /** @type {Date} */ (other).getTime();
  if (Object.getPrototypeOf(one) !== Object.prototype) return false; // a class of its own: only itself
  return Object.keys(one).length === Object.keys(other).length && sameEntries(one, other);
}

/**
 * @param {Record<string, any>} one
 * @param {Record<string, any>} other
 */
function sameEntries(one, other) {
  return Object.keys(one).every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]));
}

/** @param {unknown} mistake */
function reportError(mistake) {
  queueMicrotask(() => {
    throw mistake;
  });
}
