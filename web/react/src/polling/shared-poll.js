/** The poll that all subscribers of a key share. */

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
 * The poll of a key, from the first subscriber to the last.
 *
 * When the last one leaves, the manager drops this object and creates a new one for the next subscriber, so that a
 * response still in flight never reaches a later registration.
 */
export class SharedPoll {
  /** @type {Set<Subscriber>} */
  subscribers = new Set(); // oldest first
  /** @type {Request | null} */
  request = null; // queued or in flight
  /** @type {{value: any, at: number} | null} */
  result = null;
  since = -Infinity; // the delay to the next poll counts from here
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
   * Add a subscriber. A stopped poll resumes, and one that had slowed down starts again.
   *
   * @param {Subscriber} subscriber
   * @param {number} now
   */
  subscribe(subscriber, now) {
    this.cadence = this.cadence.on(this.cadence.schedule.withInterval(subscriber.interval));
    if (this.cadence.stopped) this.cadence = this.cadence.touched(now);
    this.subscribers.add(subscriber);
  }

  /**
   * Remove a subscriber, and its interval unless another subscriber has the same.
   *
   * @param {Subscriber} subscriber
   */
  unsubscribe(subscriber) {
    this.subscribers.delete(subscriber);
    for (const other of this.subscribers) if (other.interval === subscriber.interval) return;
    this.cadence = this.cadence.on(this.cadence.schedule.without(subscriber.interval));
  }

  /**
   * The function to call: that of the longest-standing subscriber.
   *
   * @returns {Poll | null}
   */
  source() {
    for (const { poll } of this.subscribers) return poll;
    return null;
  }

  /**
   * Apply a result. The next delay counts from the start of this poll.
   *
   * @param {any} value
   * @param {{startedAt: number, now: number, activeTime: number}} times
   */
  succeeded(value, { startedAt, now, activeTime }) {
    const news = this.result === null || !isSame(this.result.value, value);
    this.result = { value, at: now };
    this.since = startedAt;
    this.cadence = this.cadence.succeeded(activeTime, news);
  }

  /**
   * Apply a failure. The next delay counts from its end, so that a slow failure is followed by a full pause.
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

/** The callbacks of one registration. */
export class Subscriber {
  active = true;
  #hasResult = false;

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
   * Deliver a result. An error thrown by the callback is reported to this subscriber only.
   *
   * @param {any} value
   */
  deliver(value) {
    if (!this.active) return; // it left while earlier subscribers were notified
    this.#hasResult = true;
    try {
      this.callbacks.onResult?.(value);
    } catch (error) {
      if (this.callbacks.onError) this.fail(error);
      else reportError(error);
    }
  }

  /**
   * Deliver a cached result, unless a newer one arrived first.
   *
   * @param {any} value
   */
  catchUp(value) {
    if (!this.#hasResult) this.deliver(value);
  }

  /** Report that polling was paused, resumed or started again. */
  notify() {
    if (!this.active) return;
    try {
      this.callbacks.onActivity?.();
    } catch (error) {
      reportError(error);
    }
  }

  /** @param {unknown} error */
  fail(error) {
    if (!this.active) return;
    try {
      this.callbacks.onError?.(asError(error));
    } catch (error) {
      reportError(error);
    }
  }
}

/** The handle that `register` returns. */
export class Registration {
  #subscriber;
  #unsubscribe;
  #isPaused;

  /**
   * @param {Subscriber} subscriber
   * @param {(subscriber: Subscriber) => void} unsubscribe
   * @param {() => boolean} isPaused
   */
  constructor(subscriber, unsubscribe, isPaused) {
    this.#subscriber = subscriber;
    this.#unsubscribe = unsubscribe;
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
   * The delay to the next poll, the failures so far, whether the poll has stopped and why.
   *
   * @returns {Cadence}
   */
  get state() {
    return this.#subscriber.shared.cadence;
  }

  /** The time of the next poll; null while none is scheduled. */
  get dueAt() {
    return this.active ? this.#subscriber.shared.dueAt : null;
  }

  /** Unsubscribe. Nothing more is delivered, not even from a poll in flight. Idempotent. */
  dispose() {
    this.#unsubscribe(this.#subscriber);
  }
}

/**
 * Whether two values are deeply equal.
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
  if (Object.getPrototypeOf(one) !== Object.prototype) return false; // an instance equals only itself
  return Object.keys(one).length === Object.keys(other).length && sameEntries(one, other);
}

/**
 * @param {Record<string, any>} one
 * @param {Record<string, any>} other
 */
function sameEntries(one, other) {
  return Object.keys(one).every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]));
}

/** @param {unknown} error */
function reportError(error) {
  queueMicrotask(() => {
    throw error;
  });
}
