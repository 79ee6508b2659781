/** One topic of a feed: where it stands, and who listens. */

/**
 * A message of the feed, as the server words it.
 *
 * @typedef {object} FeedMessage
 * @property {string} event `event`, `caught_up`, `missed`, `ended`, `run`, `execution`, `turn`, `block`, `files`, `project`,
 *   `session`, `error`
 * @property {any} data
 *
 * @typedef {"connecting" | "live" | "polling" | "offline"} FeedState
 *
 * @typedef {object} FeedDetail
 * @property {"stream" | "long poll" | "poll"} way
 * @property {Error | null} error Why it is offline.
 * @property {number | null} retryInMs How long until the next try, told when it begins to wait.
 *
 * @typedef {object} Listening
 * @property {string} [after] The cursor to go on from; without it, from the start.
 * @property {(message: FeedMessage) => void} onMessage
 * @property {(state: FeedState, detail: FeedDetail) => void} [onState]
 */

export class Listener {
  /** @type {Set<string>} */
  #seen = new Set();

  /** @param {Listening} listening */
  constructor(listening) {
    this.listening = listening;
    this.active = true;
  }

  /**
   * Deliver the message, unless this listener has had it: a stream that is opened again may repeat some.
   * @param {FeedMessage} message
   */
  give(message) {
    if (!this.active) return;
    const id = idOf(message);
    if (id !== null) {
      if (this.#seen.has(id)) return;
      this.#seen.add(id);
    }
    guarded(() => this.listening.onMessage(message));
  }

  /** @param {FeedState} state @param {FeedDetail} detail */
  tell(state, detail) {
    if (this.active) guarded(() => this.listening.onState?.(state, detail));
  }
}

export class Topic {
  /** @param {string} name @param {string} after */
  constructor(name, after) {
    this.name = name;
    this.cursor = after;
    this.hasEnded = false; // the server is quiet about it until it is asked again
    this.isRefused = false; // the server cannot give it
    this.isCaughtUp = false; // every listener has been told so
    /** @type {Set<Listener>} */
    this.listeners = new Set();
  }

  /**
   * One more who listens. It needs what the others have had, so the topic begins again; they skip what they know.
   * @param {Listener} listener
   */
  join(listener) {
    const after = listener.listening.after ?? "";
    if (this.listeners.size && after !== this.cursor) this.cursor = "";
    this.listeners.add(listener);
    this.isRefused = false;
    this.hasEnded = false;
    this.isCaughtUp = false;
  }

  /** @param {FeedMessage} message */
  give(message) {
    if (message.event === "caught_up") this.isCaughtUp = true;
    if (message.event === "ended") this.hasEnded = this.isCaughtUp = true;
    if (message.event === "event") this.hasEnded = false;
    if (message.event === "error") this.isRefused = true;
    for (const listener of [...this.listeners]) listener.give(message);
  }
}

/**
 * What makes a message the same one when it comes again. Others are states: to have one twice changes nothing.
 * @param {FeedMessage} message
 * @returns {string | null}
 */
function idOf({ event, data }) {
  if (event === "event") return data.event.event_id;
  // A block moves when an earlier one comes late, and is told again then.
  if (event === "block") return `${data.turn_id}/${data.block.id}/${data.block.sequence}`;
  return null;
}

/**
 * A listener's mistake must not end the feed for the others; it is reported as an uncaught error.
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
