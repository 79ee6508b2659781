/**
 * Many polls in one page: shared, cached, limited and fair.
 *
 * The rules are those of Python's `longwatch.polling.PollingManager`; times are milliseconds here. There is one
 * timer for each key that waits for its next look and one for each request in flight, and none otherwise.
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
export const TIMEOUT_MS = 30_000; // three polls that never answer would stop all the others

/**
 * @typedef {object} ManagerOptions
 * @property {number} [maxConcurrent]
 * @property {number} [cacheMs]
 * @property {Backoff} [backoff]
 * @property {number | null} [timeoutMs]
 * @property {Partial<Environment>} [environment]
 * @property {() => number} [draw] For a backoff with jitter.
 * @property {() => number} [slowdown] What delays are multiplied by, asked before each: see `core/activity.js`.
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
        `a polling manager needs room for 1 request at least, not ${maxConcurrent}`,
      );
    }
    this.#environment = environmentWith(environment);
    this.#cacheMs = cacheMs;
    this.#backoff = backoff;
    this.#draw = draw;
    this.#slowdown = slowdown;
    this.#requests = new RequestQueue({
      environment: this.#environment,
      room: maxConcurrent,
      timeoutMs,
    });
  }

  /**
   * Look at once, and then again and again: every `interval` milliseconds, or on the ramp if none is given.
   *
   * Subscribers of one key share one poll, as often as the most eager of them wants it. Where the key was
   * answered within the cache's time, the subscriber gets that answer, and nobody is asked for it.
   *
   * @param {string} key
   * @param {Poll} poll
   * @param {number | null} [interval]
   * @param {Callbacks} [callbacks]
   * @returns {Registration}
   */
  register(key, poll, interval = null, callbacks = {}) {
    this.#checkOpen();
    scheduleFor(interval); // refuses what is no interval, before anything has changed
    const shared = this.#polls.get(key) ?? new SharedPoll(key, this.#backoff);
    const subscriber = new Subscriber(shared, poll, interval, callbacks);
    shared.join(subscriber, this.#activeTime());
    this.#polls.set(key, shared);
    const { answer } = shared;
    if (answer !== null && this.#isFresh(shared)) {
      this.#hits += 1;
      queueMicrotask(() => subscriber.catchUp(answer.value));
      this.#plan(shared);
    } else if (shared.request !== null) this.#shares += 1;
    else this.#look(shared);
    return new Registration(
      subscriber,
      (left) => this.#leave(left),
      () => this.isPaused,
    );
  }

  /**
   * Take out this subscriber, or the latest of a key. The last one to leave ends the poll.
   *
   * A request in flight is aborted then, and its answer goes nowhere. Whoever has left already has left.
   *
   * @param {string | Registration} which
   */
  unregister(which) {
    if (which instanceof Registration) return which.dispose();
    const latest = [...(this.#polls.get(which)?.subscribers ?? [])].at(-1);
    if (latest) this.#leave(latest);
  }

  /**
   * Ask once, without a schedule. Whoever asks for the key meanwhile, or soon after, shares the answer. With the
   * last who waits for it, a request is given up.
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
    if (shared.answer !== null && this.#isFresh(shared)) {
      this.#hits += 1;
      return shared.answer.value;
    }
    if (shared.request !== null) this.#shares += 1;
    const request = shared.request ?? this.#request(shared);
    request.offer ??= poll;
    if (!request.isStarted) this.#requests.add(request);
    return request.answer(signal, () => shared.request && this.#release(shared, shared.request));
  }

  /**
   * Forget what the key was last answered, because it is known to be old, and look at once. An answer that is
   * under way may be as old, so it is dropped, and whoever waits for it gets the new one.
   *
   * @param {string} key
   */
  refresh(key) {
    const shared = this.#polls.get(key);
    if (shared === undefined) return;
    if (shared.answer !== null) shared.answer = { ...shared.answer, at: -Infinity };
    const before = shared.request;
    if (before?.isStarted) {
      const request = this.#request(shared);
      request.waiters = before.waiters;
      request.offer = before.offer;
      this.#requests.withdraw(before);
      this.#requests.add(request);
    } else if (before === null && shared.subscribers.size) this.#look(shared);
  }

  /**
   * Refresh every key that begins so.
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
   * Somebody shows interest, in a key or in all: what had stopped is looked at, a ramp begins again.
   *
   * @param {string} [key]
   */
  touch(key) {
    for (const shared of [...this.#polls.values()]) {
      if (key !== undefined && shared.key !== key) continue;
      const { stopped } = shared.cadence;
      shared.cadence = shared.cadence.touched(this.#activeTime());
      if (shared.request !== null || shared.subscribers.size === 0) continue;
      if (stopped) this.#look(shared);
      else this.#plan(shared);
      if (stopped) for (const subscriber of [...shared.subscribers]) subscriber.notify();
    }
  }

  /**
   * Do as much as people's activity asks for.
   *
   * @param {"active" | "idle" | "hidden"} mode
   */
  attend(mode) {
    if (mode !== "active") return this.#pauseFor("activity");
    this.#resumeFrom("activity");
    this.touch();
  }

  /**
   * Every key that has subscribers, and how its poll stands.
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

  /** End everything now: requests are aborted, and nothing is delivered any more. */
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
      if (shared.subscribers.size && shared.request === null) this.#look(shared);
    }
    this.#notify();
  }

  #notify() {
    for (const { subscribers } of [...this.#polls.values()]) {
      for (const subscriber of [...subscribers]) subscriber.notify();
    }
  }

  /** @param {SharedPoll} shared */
  #look(shared) {
    const mustWait = this.#pausedAt !== null || shared.cadence.failures || shared.cadence.stopped;
    if (mustWait) this.#plan(shared);
    else this.#requests.add(this.#request(shared));
  }

  /**
   * Let the key fall due when its next look is, or when its cached answer is too old.
   *
   * @param {SharedPoll} shared
   */
  #plan(shared) {
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
      return shared.answer === null ? now : shared.answer.at + this.#cacheMs;
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
      (request, value, error) => this.#ended(shared, request, value, error),
    );
    return shared.request;
  }

  /** @param {Subscriber} subscriber */
  #leave(subscriber) {
    if (!subscriber.active) return;
    subscriber.active = false;
    const { shared } = subscriber;
    shared.leave(subscriber);
    if (shared.subscribers.size) return this.#plan(shared);
    this.#cancel(shared);
    this.#polls.delete(shared.key);
    if (shared.request !== null) this.#release(shared, shared.request);
  }

  /**
   * Give up a request if nobody waits for it: for good, or until polling is resumed.
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
   * Take in the end of a request: first all that is ours, then the subscribers, who may do anything.
   *
   * @param {SharedPoll} shared
   * @param {Request} request
   * @param {any} value
   * @param {unknown} error
   */
  #ended(shared, request, value, error) {
    shared.request = null;
    if (error !== null) this.#failures += 1;
    const isWanted = this.#polls.get(shared.key) === shared; // or all left, and who came since has its own
    if (isWanted && error === null) {
      const now = this.#environment.now();
      shared.succeeded(value, {
        startedAt: request.startedAt,
        now,
        activeTime: this.#activeTime(),
      });
      this.#plan(shared);
    } else if (isWanted && shared.subscribers.size === 0) {
      this.#polls.delete(shared.key);
    } else if (isWanted) {
      shared.failed(error, this.#environment.now(), this.#draw);
      this.#plan(shared);
    }
    for (const { resolve, reject } of request.waiters)
      error === null ? resolve(value) : reject(error);
    request.waiters.clear();
    if (!isWanted) return;
    for (const subscriber of [...shared.subscribers]) {
      if (error === null) subscriber.give(value);
      else subscriber.fail(error);
    }
  }

  /** @param {SharedPoll} shared */
  #isFresh(shared) {
    return shared.answer !== null && this.#environment.now() - shared.answer.at < this.#cacheMs;
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

/** The polling manager of this page. `pageActivity.guide(pollingManager)` lets it pause by itself. */
export const pollingManager = new PollingManager({ slowdown: () => pageActivity.slowdown });

function closedError() {
  return new Error("This polling manager is closed. Make a new one.");
}
