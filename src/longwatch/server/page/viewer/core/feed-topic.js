/** One topic of a feed: its cursor and its subscribers. */

/**
 * A message of the feed, as the server sends it.
 *
 * @typedef {object} FeedMessage
 * @property {string} event `event`, `caught_up`, `missed`, `ended`, `run`, `execution`, `turn`, `block`, `block_delta`,
 *   `files`, `project`, `session`, `error`
 * @property {any} data
 *
 * @typedef {"connecting" | "live" | "polling" | "offline"} FeedState
 *
 * @typedef {object} FeedDetail
 * @property {"stream" | "long poll" | "poll"} way
 * @property {Error | null} error Why it is offline.
 * @property {number | null} retryInMs Time until the next attempt, at the start of the wait.
 *
 * @typedef {object} SubscribeOptions
 * @property {string} [after] The cursor to resume from; without it, the start.
 * @property {(message: FeedMessage) => void} onMessage
 * @property {(state: FeedState, detail: FeedDetail) => void} [onState]
 */

export class Subscriber {
  /** @type {Set<string>} */
  #seen = new Set();

  /** @param {SubscribeOptions} options */
  constructor(options) {
    this.options = options;
    this.active = true;
  }

  /**
   * Deliver the message unless this subscriber has received it: a reopened stream may repeat some.
   * @param {FeedMessage} message
   */
  deliver(message) {
    if (!this.active) return;
    const id = idOf(message);
    if (id !== null) {
      if (this.#seen.has(id)) return;
      this.#seen.add(id);
    }
    guarded(() => this.options.onMessage(message));
  }

  /** @param {FeedState} state @param {FeedDetail} detail */
  notifyState(state, detail) {
    if (this.active) guarded(() => this.options.onState?.(state, detail));
  }
}

export class Topic {
  /** @param {string} name @param {string} after */
  constructor(name, after) {
    this.name = name;
    this.cursor = after;
    this.hasEnded = false; // the server sends nothing more until the next request
    this.isRefused = false; // the server rejected the topic
    this.isCaughtUp = false; // every subscriber has been notified of it
    /** @type {Set<Subscriber>} */
    this.subscribers = new Set();
  }

  /**
   * Add a subscriber. It needs what the others have received, so the topic starts again; the others skip repeated messages.
   * @param {Subscriber} subscriber
   */
  subscribe(subscriber) {
    const after = subscriber.options.after ?? "";
    if (this.subscribers.size && after !== this.cursor) this.cursor = "";
    this.subscribers.add(subscriber);
    this.isRefused = false;
    this.hasEnded = false;
    this.isCaughtUp = false;
  }

  /** @param {FeedMessage} message */
  deliver(message) {
    if (message.event === "caught_up") this.isCaughtUp = true;
    if (message.event === "ended") this.hasEnded = this.isCaughtUp = true;
    if (message.event === "event") this.hasEnded = false;
    if (message.event === "error") this.isRefused = true;
    for (const subscriber of [...this.subscribers]) subscriber.deliver(message);
  }
}

/**
 * The identity of a message that must be delivered once. Other messages are states: receiving one twice is harmless.
 * @param {FeedMessage} message @returns {string | null}
 */
function idOf({ event, data }) {
  if (event === "event") return data.event.event_id;
  // A block moves when an earlier one arrives late, and is sent again.
  if (event === "block") return `${data.turn_id}/${data.block.id}/${data.block.sequence}`;
  return null;
}

/**
 * An error in one subscriber must not end the feed for the others; it is reported as an uncaught error.
 * @param {() => void} call
 */
function guarded(call) {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
