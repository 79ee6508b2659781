/** A queue of requests with a limit on those in flight: first in, first out. */

import { ApiError } from "../../core/errors.js";

/** @import { Environment } from "../../core/environment.js" */

/** @typedef {(options: {signal: AbortSignal}) => any} Poll Returns the result, or a promise of it. */

/** One call of a poll, in flight or queued. */
export class Request {
  /** @type {Set<{resolve: (value: any) => void, reject: (error: unknown) => void}>} */
  waiters = new Set();
  /** @type {Poll | null} */
  offer = null; // the poll of a caller of `fetch`, who waits without subscribing
  startedAt = 0;
  isStarted = false;
  controller = new AbortController();

  /**
   * @param {string} key
   * @param {() => Poll | null} source Called at the start: by then a subscriber may have left.
   * @param {(request: Request, value: any, error: unknown) => void} ended
   */
  constructor(key, source, ended) {
    this.key = key;
    this.source = source;
    this.ended = ended;
  }

  /**
   * The result of the poll, for a caller who waits without subscribing.
   *
   * @param {AbortSignal | undefined} signal
   * @param {() => void} left Called when the caller stops waiting.
   * @returns {Promise<any>}
   */
  result(signal, left) {
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
  #maxConcurrent;
  #timeoutMs;
  /** @type {Set<Request>} */
  #queued = new Set();
  /** @type {Set<Request>} */
  #inFlight = new Set();
  calls = 0;

  /** @param {{environment: Environment, maxConcurrent: number, timeoutMs: number | null}} options */
  constructor({ environment, maxConcurrent, timeoutMs }) {
    this.#environment = environment;
    this.#maxConcurrent = maxConcurrent;
    this.#timeoutMs = timeoutMs;
  }

  get queued() {
    return this.#queued.size;
  }

  get inFlight() {
    return this.#inFlight.size;
  }

  /**
   * Start the request as soon as the limit allows.
   *
   * @param {Request} request
   */
  add(request) {
    this.#queued.add(request);
    this.#start();
  }

  /**
   * Abort a request whose result is no longer needed, and start the next one.
   *
   * @param {Request} request
   */
  withdraw(request) {
    this.#queued.delete(request);
    this.#inFlight.delete(request);
    request.controller.abort();
    this.#start();
  }

  /** Abort everything; returns the requests that were queued or in flight. */
  close() {
    const everything = [...this.#inFlight, ...this.#queued];
    this.#queued.clear();
    this.#inFlight.clear();
    for (const request of everything) request.controller.abort();
    return everything;
  }

  #start() {
    for (const request of this.#queued) {
      if (this.#inFlight.size >= this.#maxConcurrent) return;
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
      value = await this.#callWithTimeout(request);
    } catch (raised) {
      error = raised ?? new Error("The poll was rejected without a reason.");
    }
    if (!this.#inFlight.delete(request)) return; // withdrawn meanwhile
    this.#start();
    request.ended(request, value, error);
  }

  /**
   * @param {Request} request
   * @returns {Promise<any>}
   */
  #callWithTimeout(request) {
    return new Promise((resolve, reject) => {
      const { signal } = request.controller;
      const timeoutMs = this.#timeoutMs;
      const timer =
        timeoutMs === null
          ? null
          : this.#environment.setTimeout(() => {
              reject(timeoutError(request.key, timeoutMs));
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
function timeoutError(key, timeoutMs) {
  const message = `No response to the poll of ${key} within ${timeoutMs / 1000} s.`;
  return new ApiError({ status: 0, code: "timeout", message });
}
