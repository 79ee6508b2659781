/**
 * The polls of a page: shared between subscribers, cached and limited in number.
 *
 * The rules are those of Python's `longwatch.polling.PollingManager`; times are milliseconds here. There is one
 * timer for each key that waits for its next poll and one for each request in flight.
 */

import { Activity } from "../../core/activity.js";
import { PauseReasons } from "../../core/pause-reasons.js";
import { environmentWith } from "../../core/environment.js";
import { REQUEST_BACKOFF } from "./cadence.js";
import { Request, RequestQueue } from "./requests.js";
import { scheduleFor } from "./schedules.js";
import { Registration, SharedPoll, Subscriber } from "./shared-poll.js";

/** @import { Backoff } from "../../core/backoff.js" */
/** @import { PauseReason } from "../../core/pause-reasons.js" */
/** @import { Environment } from "../../core/environment.js" */
/** @import { Cadence } from "./cadence.js" */
/** @import { Poll } from "./requests.js" */
/** @import { Callbacks } from "./shared-poll.js" */

export const MAX_CONCURRENT = 3; // requests in flight
export const CACHE_MS = 500;
export const TIMEOUT_MS = 30_000; // without it, three hanging polls would block all others

/**
 * @typedef {object} ManagerOptions
 * @property {number} [maxConcurrent]
 * @property {number} [cacheMs]
 * @property {Backoff} [backoff]
 * @property {number | null} [timeoutMs]
 * @property {Partial<Environment>} [environment]
 * @property {() => number} [draw] For a backoff with jitter.
 * @property {() => number} [slowdown] The factor for each delay: see `core/activity.js`.
 */

export class PollingManager {
  #environment;
  #cacheMs;
  #backoff;
  #draw;
  #slowdown;
  #requests;
  /** @type {Map<string, SharedPoll>} */
  #polls = new Map();
  #pauses = new PauseReasons();
  /** @type {number | null} */
  #pausedAt = null;
  #pausedMs = 0;
  #isClosed = false;
  #hits = 0;
  #shares = 0;
  #failures = 0;

  /** @param {ManagerOptions} [options] */
  constructor({
    maxConcurrent = MAX_CONCURRENT,
    cacheMs = CACHE_MS,
    backoff = REQUEST_BACKOFF,
    timeoutMs = TIMEOUT_MS,
    environment,
    draw = Math.random,
    slowdown = () => 1,
  } = {}) {
    if (maxConcurrent < 1) {
      throw new RangeError(
        `Invalid maxConcurrent: ${maxConcurrent}. A polling manager needs at least 1 request.`,
      );
    }
    this.#environment = environmentWith(environment);
    this.#cacheMs = cacheMs;
    this.#backoff = backoff;
    this.#draw = draw;
    this.#slowdown = slowdown;
    this.#requests = new RequestQueue({
      environment: this.#environment,
      maxConcurrent,
      timeoutMs,
    });
  }

  /**
   * Poll at once, and then every `interval` milliseconds, or on the ramp if none is given.
   *
   * The subscribers of a key share one poll at the shortest of their intervals. If a result is still cached, a new
   * subscriber receives that result without a request.
   *
   * @param {string} key
   * @param {Poll} poll
   * @param {number | null} [interval]
   * @param {Callbacks} [callbacks]
   * @returns {Registration}
   */
  register(key, poll, interval = null, callbacks = {}) {
    this.#checkOpen();
    scheduleFor(interval); // throws for an invalid interval before anything has changed
    const shared = this.#polls.get(key) ?? new SharedPoll(key, this.#backoff);
    const subscriber = new Subscriber(shared, poll, interval, callbacks);
    shared.subscribe(subscriber, this.#activeTime());
    this.#polls.set(key, shared);
    const { result } = shared;
    if (result !== null && this.#isFresh(shared)) {
      this.#hits += 1;
      queueMicrotask(() => subscriber.catchUp(result.value));
      this.#schedule(shared);
    } else if (shared.request !== null) this.#shares += 1;
    else this.#poll(shared);
    return new Registration(
      subscriber,
      (left) => this.#unsubscribe(left),
      () => this.isPaused,
    );
  }

  /**
   * Remove this subscriber, or the latest of a key. The last one to leave ends the poll and aborts its request.
   * Idempotent.
   *
   * @param {string | Registration} which
   */
  unregister(which) {
    if (which instanceof Registration) return which.dispose();
    const latest = [...(this.#polls.get(which)?.subscribers ?? [])].at(-1);
    if (latest) this.#unsubscribe(latest);
  }

  /**
   * Poll once, without a schedule. Calls for the same key, meanwhile or soon after, share the result. The request is
   * aborted when the last caller stops waiting.
   *
   * @param {string} key
   * @param {Poll} poll
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async fetch(key, poll, { signal } = {}) {
    this.#checkOpen();
    signal?.throwIfAborted();
    const shared = this.#polls.get(key) ?? new SharedPoll(key, this.#backoff);
    this.#polls.set(key, shared);
    if (shared.result !== null && this.#isFresh(shared)) {
      this.#hits += 1;
      return shared.result.value;
    }
    if (shared.request !== null) this.#shares += 1;
    const request = shared.request ?? this.#request(shared);
    request.offer ??= poll;
    if (!request.isStarted) this.#requests.add(request);
    return request.result(signal, () => shared.request && this.#release(shared, shared.request));
  }

  /**
   * Drop the cached result of the key and poll at once. A result in flight may be outdated as well, so it is dropped, and
   * its waiters receive the new one.
   *
   * @param {string} key
   */
  refresh(key) {
    const shared = this.#polls.get(key);
    if (shared === undefined) return;
    if (shared.result !== null) shared.result = { ...shared.result, at: -Infinity };
    const before = shared.request;
    if (before?.isStarted) {
      const request = this.#request(shared);
      request.waiters = before.waiters;
      request.offer = before.offer;
      this.#requests.withdraw(before);
      this.#requests.add(request);
    } else if (before === null && shared.subscribers.size) this.#poll(shared);
  }

  /**
   * Refresh every key with this prefix.
   *
   * @param {string} prefix
   */
  refreshAll(prefix) {
    for (const key of [...this.#polls.keys()]) if (key.startsWith(prefix)) this.refresh(key);
  }

  /** Start no more polls until `resume()`. Requests in flight are finished and delivered, and all state is kept. */
  pause() {
    this.#pauseFor("application");
  }

  /**
   * Poll everything at once, but let a failing poll wait for the rest of its backoff. Lifts the application's own
   * pause only: see `core/pause-reasons.js`.
   */
  resume() {
    this.#resumeFrom("application");
  }

  /**
   * Note a sign of interest in a key or in all: stopped polls resume, ramps start again.
   *
   * @param {string} [key]
   */
  touch(key) {
    for (const shared of [...this.#polls.values()]) {
      if (key !== undefined && shared.key !== key) continue;
      const { stopped } = shared.cadence;
      shared.cadence = shared.cadence.touched(this.#activeTime());
      if (shared.request !== null || shared.subscribers.size === 0) continue;
      if (stopped) this.#poll(shared);
      else this.#schedule(shared);
      if (stopped) for (const subscriber of [...shared.subscribers]) subscriber.notify();
    }
  }

  /**
   * Adapt to the user's activity.
   *
   * @param {"active" | "idle" | "hidden"} mode
   */
  setActivity(mode) {
    if (mode !== "active") return this.#pauseFor("activity");
    this.#resumeFrom("activity");
    this.touch();
  }

  /**
   * The cadence of every key that has subscribers.
   *
   * @returns {Map<string, Cadence>}
   */
  states() {
    const watched = [...this.#polls].filter(([, shared]) => shared.subscribers.size);
    return new Map(watched.map(([key, shared]) => [key, shared.cadence]));
  }

  get metrics() {
    return {
      calls: this.#requests.calls,
      cacheHits: this.#hits,
      shared: this.#shares,
      failures: this.#failures,
      inFlight: this.#requests.inFlight,
      queued: this.#requests.queued,
      keys: this.#polls.size,
      subscribers: [...this.#polls.values()].reduce(
        (sum, { subscribers }) => sum + subscribers.size,
        0,
      ),
    };
  }

  get isPaused() {
    return this.#pausedAt !== null;
  }

  get isClosed() {
    return this.#isClosed;
  }

  /** Abort all requests; nothing more is delivered. */
  close() {
    this.#isClosed = true;
    for (const request of this.#requests.close()) {
      for (const { reject } of request.waiters) reject(closedError());
    }
    for (const shared of this.#polls.values()) {
      this.#cancel(shared);
      for (const subscriber of shared.subscribers) subscriber.active = false;
    }
    this.#polls.clear();
  }

  /** @param {PauseReason} reason */
  #pauseFor(reason) {
    if (!this.#pauses.add(reason)) return;
    this.#pausedAt = this.#environment.now();
    for (const shared of this.#polls.values()) {
      if (shared.request !== null) this.#release(shared, shared.request);
      else if (shared.subscribers.size) this.#cancel(shared);
    }
    this.#notify();
  }

  /** @param {PauseReason} reason */
  #resumeFrom(reason) {
    if (!this.#pauses.remove(reason) || this.#pausedAt === null) return;
    this.#pausedMs += this.#environment.now() - this.#pausedAt;
    this.#pausedAt = null;
    for (const shared of [...this.#polls.values()].sort((one, other) => one.since - other.since)) {
      if (shared.subscribers.size && shared.request === null) this.#poll(shared);
    }
    this.#notify();
  }

  #notify() {
    for (const { subscribers } of [...this.#polls.values()]) {
      for (const subscriber of [...subscribers]) subscriber.notify();
    }
  }

  /** @param {SharedPoll} shared */
  #poll(shared) {
    const mustWait = this.#pausedAt !== null || shared.cadence.failures || shared.cadence.stopped;
    if (mustWait) this.#schedule(shared);
    else this.#requests.add(this.#request(shared));
  }

  /**
   * Schedule the next poll of the key, or the end of its cached result.
   *
   * @param {SharedPoll} shared
   */
  #schedule(shared) {
    if (shared.request !== null) return; // planned when it has ended
    this.#cancel(shared);
    shared.dueAt = this.#nextAt(shared);
    if (shared.dueAt === null) return;
    shared.timer = this.#environment.setTimeout(
      () => this.#fallDue(shared),
      shared.dueAt - this.#environment.now(),
    );
  }

  /** @param {SharedPoll} shared */
  #nextAt(shared) {
    const now = this.#environment.now();
    if (shared.subscribers.size === 0)
      return shared.result === null ? now : shared.result.at + this.#cacheMs;
    const { nextDelay: delay, failures } = shared.cadence;
    if (delay === null || this.#pausedAt !== null) return null;
    return Math.max(now, shared.since + (failures ? delay : delay * this.#slowdown()));
  }

  /** @param {SharedPoll} shared */
  #fallDue(shared) {
    shared.timer = null;
    if (shared.request !== null || this.#polls.get(shared.key) !== shared) return;
    if (shared.subscribers.size) this.#requests.add(this.#request(shared));
    else this.#polls.delete(shared.key);
  }

  /** @param {SharedPoll} shared */
  #cancel(shared) {
    this.#environment.clearTimeout(shared.timer);
    shared.timer = null;
    shared.dueAt = null;
  }

  /** @param {SharedPoll} shared */
  #request(shared) {
    this.#cancel(shared);
    shared.request = new Request(
      shared.key,
      () => shared.source(),
      (request, value, error) => this.#onEnd(shared, request, value, error),
    );
    return shared.request;
  }

  /** @param {Subscriber} subscriber */
  #unsubscribe(subscriber) {
    if (!subscriber.active) return;
    subscriber.active = false;
    const { shared } = subscriber;
    shared.unsubscribe(subscriber);
    if (shared.subscribers.size) return this.#schedule(shared);
    this.#cancel(shared);
    this.#polls.delete(shared.key);
    if (shared.request !== null) this.#release(shared, shared.request);
  }

  /**
   * Abort a request without waiters: for good, or until polling resumes.
   *
   * @param {SharedPoll} shared
   * @param {Request} request
   */
  #release(shared, request) {
    if (request.waiters.size || shared.request !== request) return;
    if (shared.subscribers.size && (this.#pausedAt === null || request.isStarted)) return;
    if (!shared.subscribers.size && this.#polls.get(shared.key) === shared)
      this.#polls.delete(shared.key);
    shared.request = null;
    this.#requests.withdraw(request);
  }

  /**
   * Apply the end of a request. Subscribers come last, because their callbacks may call the manager.
   *
   * @param {SharedPoll} shared
   * @param {Request} request
   * @param {any} value
   * @param {unknown} error
   */
  #onEnd(shared, request, value, error) {
    shared.request = null;
    if (error !== null) this.#failures += 1;
    const isWanted = this.#polls.get(shared.key) === shared; // otherwise all subscribers have left
    if (isWanted && error === null) {
      const now = this.#environment.now();
      shared.succeeded(value, {
        startedAt: request.startedAt,
        now,
        activeTime: this.#activeTime(),
      });
      this.#schedule(shared);
    } else if (isWanted && shared.subscribers.size === 0) {
      this.#polls.delete(shared.key);
    } else if (isWanted) {
      shared.failed(error, this.#environment.now(), this.#draw);
      this.#schedule(shared);
    }
    for (const { resolve, reject } of request.waiters)
      error === null ? resolve(value) : reject(error);
    request.waiters.clear();
    if (!isWanted) return;
    for (const subscriber of [...shared.subscribers]) {
      if (error === null) subscriber.deliver(value);
      else subscriber.fail(error);
    }
  }

  /** @param {SharedPoll} shared */
  #isFresh(shared) {
    return shared.result !== null && this.#environment.now() - shared.result.at < this.#cacheMs;
  }

  /** A clock that stands still during a pause. */
  #activeTime() {
    return (this.#pausedAt ?? this.#environment.now()) - this.#pausedMs;
  }

  #checkOpen() {
    if (this.#isClosed) throw closedError();
  }
}

/** The activity of this page. */
export const pageActivity = new Activity();

/** The polling manager of this page. `pageActivity.attach(pollingManager)` lets it pause by itself. */
export const pollingManager = new PollingManager({ slowdown: () => pageActivity.slowdown });

function closedError() {
  return new Error("This polling manager is closed. Create a new one.");
}
