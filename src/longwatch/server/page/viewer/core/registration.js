/** @import { Cadence } from "./cadence.js" */
/** @import { Subscriber } from "./shared-poll.js" */

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
