/** Requests under way: at most so many at a time, first come, first served. */

import { ApiError } from "../../core/errors.js";

/** @import { Environment } from "../../core/environment.js" */

/**
 * @typedef {(asked: {signal: AbortSignal}) => any} Poll Gives the answer, or a promise of it.
 */

/** One call of a poll, in flight or waiting for its turn. */
export class Request {
  /** @type {Set<{resolve: (value: any) => void, reject: (error: unknown) => void}>} */
  waiters = new Set();
  /** @type {Poll | null} */
  offer = null; // of somebody who waits without subscribing
  startedAt = 0;
  isStarted = false;
  controller = new AbortController();

  /**
   * @param {string} key
   * @param {() => Poll | null} source Asked when it starts: by then a subscriber may have left.
   * @param {(request: Request, value: any, error: unknown) => void} ended
   */
  constructor(key, source, ended) {
    this.key = key;
    this.source = source;
    this.ended = ended;
  }

  /**
   * What the poll gives, for one who waits without subscribing.
   *
   * @param {AbortSignal | undefined} signal
   * @param {() => void} left Called when this one waits no more.
   * @returns {Promise<any>}
   */
  answer(signal, left) {
    const { waiters } = this;
    return new Promise((resolve, reject) => {
      const waiter = { resolve, reject };
      waiters.add(waiter);
      signal?.addEventListener("abort", () => {
        if (!waiters.delete(waiter)) return;
        reject(signal.reason);
        left();
      });
    });
  }
}

export class RequestQueue {
  #environment;
  #room;
  #timeoutMs;
  /** @type {Set<Request>} */
  #queued = new Set();
  /** @type {Set<Request>} */
  #inFlight = new Set();
  calls = 0;

  /** @param {{environment: Environment, room: number, timeoutMs: number | null}} options */
  constructor({ environment, room, timeoutMs }) {
    this.#environment = environment;
    this.#room = room;
    this.#timeoutMs = timeoutMs;
  }

  get queued() {
    return this.#queued.size;
  }

  get inFlight() {
    return this.#inFlight.size;
  }

  /**
   * Start the request when its turn has come, which may be now.
   *
   * @param {Request} request
   */
  add(request) {
    this.#queued.add(request);
    this.#start();
  }

  /**
   * Nobody wants the answer any more: it is dropped, and its place is free.
   *
   * @param {Request} request
   */
  withdraw(request) {
    this.#queued.delete(request);
    this.#inFlight.delete(request);
    request.controller.abort();
    this.#start();
  }

  /** Withdraw everything; gives what was queued or in flight. */
  close() {
    const everything = [...this.#inFlight, ...this.#queued];
    this.#queued.clear();
    this.#inFlight.clear();
    for (const request of everything) request.controller.abort();
    return everything;
  }

  #start() {
    for (const request of this.#queued) {
      if (this.#inFlight.size >= this.#room) return;
      this.#queued.delete(request);
      this.#inFlight.add(request);
      this.#call(request);
    }
  }

  /** @param {Request} request */
  async #call(request) {
    request.isStarted = true;
    request.startedAt = this.#environment.now();
    this.calls += 1;
    /** @type {any} */
    let value;
    /** @type {unknown} */
    let error = null;
    try {
      value = await this.#inTime(request);
    } catch (raised) {
      error = raised ?? new Error("the poll was rejected without saying why");
    }
    if (!this.#inFlight.delete(request)) return; // withdrawn meanwhile
    this.#start();
    request.ended(request, value, error);
  }

  /**
   * @param {Request} request
   * @returns {Promise<any>}
   */
  #inTime(request) {
    return new Promise((resolve, reject) => {
      const { signal } = request.controller;
      const timeoutMs = this.#timeoutMs;
      const timer =
        timeoutMs === null
          ? null
          : this.#environment.setTimeout(() => {
              reject(tooLate(request.key, timeoutMs));
              request.controller.abort();
            }, timeoutMs);
      signal.addEventListener("abort", () => this.#environment.clearTimeout(timer), { once: true });
      const poll = request.source() ?? request.offer;
      Promise.resolve()
        .then(() => poll?.({ signal }))
        .then(resolve, reject)
        .finally(() => this.#environment.clearTimeout(timer));
    });
  }
}

/**
 * @param {string} key
 * @param {number} timeoutMs
 */
function tooLate(key, timeoutMs) {
  const message = `The poll of ${key} gave no answer in ${timeoutMs / 1000} s.`;
  return new ApiError({ status: 0, code: "timeout", message });
}
