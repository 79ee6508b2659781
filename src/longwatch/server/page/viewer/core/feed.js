/**
 * One feed for all topics of a page: a stream, long polls where a proxy blocks streams, plain polls where it blocks those
 * too, or where other windows hold the connections of the browser.
 *
 * Each subscriber receives every event once and ends up with what the journal holds: the feed keeps a cursor for each
 * topic, every request resumes from it, and repeated events are dropped.
 */

import { FEED_BACKOFF } from "./backoff.js";
import { ApiError, isAbort } from "./errors.js";
import { Ladder, RUNGS } from "./feed-ladder.js";
import { outcomeOf, tryStream } from "./feed-stream.js";
import { Subscriber, Topic } from "./feed-topic.js";
import { PauseReasons } from "./pause-reasons.js";
import { Ramp } from "./schedule.js";
import { childOf, sleep } from "./sleep.js";
import { StreamSlots, browserLocks } from "./stream-slots.js";
import { environmentWith } from "./environment.js";

/** @import { Api } from "./api.js" */
/** @import { Backoff } from "./backoff.js" */
/** @import { Environment } from "./environment.js" */
/** @import { Outcome } from "./feed-ladder.js" */
/** @import { Attempt } from "./feed-stream.js" */
/** @import { FeedDetail, FeedMessage, FeedState, SubscribeOptions } from "./feed-topic.js" */
/** @import { PauseReason } from "./pause-reasons.js" */
/** @import { Locks } from "./stream-slots.js" */

export const WAIT_SECONDS = 25; // of a long poll
const WAIT_GRACE_MS = 10_000; // beyond that a long poll counts as cut off
const REFOLLOW_MS = 300_000; // a run that has ended can still get late events: request it again from time to time

/**
 * @typedef {object} FeedOptions
 * @property {Api} api
 * @property {Partial<Environment>} [environment]
 * @property {Backoff} [backoff]
 * @property {() => number} [draw] For the jitter.
 * @property {(state: FeedState, detail: FeedDetail) => void} [onState]
 * @property {(isAway: boolean) => void} [onJournal] With each heartbeat: whether the server cannot reach its journal, so
 *   that nothing new arrives although the stream is alive.
 * @property {Locks | null} [locks] With which the windows of a browser share its connections. By default those of the
 *   browser; null for no limit.
 */

export class FeedClient {
  #api;
  #environment;
  #draw;
  #onState;
  #onJournal;
  #ladder;
  /** @type {Map<string, Topic>} */
  #topics = new Map();
  /** @type {FeedState} */
  #state = "connecting";
  /** @type {AbortController | null} */
  #run = null;
  /** @type {unknown} */
  #restarting = null;
  /** @type {unknown} */
  #refollowing = null;
  #pauses = new PauseReasons();
  #slots;
  #isCrowded = false; // other windows hold all slots
  #nextClimb = 0;
  #polls = new Ramp({ quietMs: Infinity }); // the schedule of the last rung

  /** @param {FeedOptions} options */
  constructor({
    api,
    environment,
    backoff = FEED_BACKOFF,
    draw = Math.random,
    onState,
    onJournal,
    locks = browserLocks(),
  }) {
    this.#api = api;
    this.#environment = environmentWith(environment);
    this.#draw = draw;
    this.#onState = onState;
    this.#onJournal = onJournal;
    this.#ladder = new Ladder(0, backoff);
    this.#slots = new StreamSlots(locks);
  }

  /** @returns {FeedState} */
  get state() {
    return this.#state;
  }

  get way() {
    return /** @type {(typeof RUNGS)[number]} */ (RUNGS[this.#rung]);
  }

  get #rung() {
    return this.#isCrowded ? 2 : this.#ladder.rung;
  }

  get isPaused() {
    return this.#pauses.isPaused;
  }

  /**
   * Follow a topic: the messages since `after`, then `caught_up`, then new messages.
   * @param {string} name `run:{id}`, `runs`, `turn:{p}/{s}/{t}`, `session:{p}/{s}`, `sessions:{p}`, `projects` or
   *   `files:{p}`
   * @param {SubscribeOptions} options @returns {() => void} unsubscribes
   */
  subscribe(name, options) {
    const subscriber = new Subscriber(options);
    const topic = this.#topics.get(name) ?? new Topic(name, options.after ?? "");
    this.#topics.set(name, topic);
    topic.subscribe(subscriber);
    this.#restart();
    return () => {
      if (!subscriber.active) return;
      subscriber.active = false;
      topic.subscribers.delete(subscriber);
      if (topic.subscribers.size) return;
      this.#topics.delete(name);
      this.#restart();
    };
  }

  /** Close the connection and keep the cursors, until `resume()`. */
  pause() {
    this.#pauseFor("application");
  }

  /** Connect again from the cursors. Lifts the application's own pause only: see `pause-reasons.js`. */
  resume() {
    this.#resumeFrom("application");
  }

  /**
   * Adapt to the user's activity. An idle stream costs next to nothing, so it stays open for an idle user; polls pause.
   * @param {"active" | "idle" | "hidden"} mode
   */
  setActivity(mode) {
    if (mode === "hidden" || (mode === "idle" && this.#rung > 0)) return this.#pauseFor("activity");
    this.#resumeFrom("activity");
    if (mode === "active") this.touch();
  }

  /** Retry at once what is waiting for its next attempt, and request topics that have ended again. */
  touch() {
    if (this.isPaused) return;
    const hasEnded = [...this.#topics.values()].some((topic) => topic.hasEnded);
    if (this.#state === "offline" || hasEnded) this.#restart();
    if (this.#rung === 2) this.#polls = this.#polls.touched(this.#environment.now());
  }

  /** End everything; no subscriber is notified again. */
  close() {
    this.#stop();
    this.#slots.release();
    for (const topic of this.#topics.values())
      for (const subscriber of topic.subscribers) subscriber.active = false;
    this.#topics.clear();
  }

  /** @param {PauseReason} reason */
  #pauseFor(reason) {
    if (!this.#pauses.add(reason)) return;
    this.#stop();
    this.#slots.release();
    this.#enter("connecting");
  }

  /** @param {PauseReason} reason */
  #resumeFrom(reason) {
    if (this.#pauses.remove(reason)) this.#restart();
  }

  #stop() {
    this.#environment.clearTimeout(this.#restarting);
    this.#environment.clearTimeout(this.#refollowing);
    this.#restarting = this.#refollowing = null;
    this.#run?.abort();
    this.#run = null;
  }

  /** Reconnect from the cursors. Deferred, so that a page that subscribes ten times opens one stream. */
  #restart() {
    this.#stop();
    if (this.isPaused || this.#topics.size === 0) return this.#slots.release();
    this.#restarting = this.#environment.setTimeout(() => {
      this.#restarting = null;
      const run = (this.#run = new AbortController());
      this.#follow(run.signal).catch((error) => {
        if (!run.signal.aborted) throw error;
      });
    }, 0);
  }

  /** @param {AbortSignal} signal */
  async #follow(signal) {
    this.#nextClimb = this.#environment.now() + this.#ladder.climbMs;
    let isFreshStart = false; // the cursors were reset once in this run
    while (!signal.aborted) {
      const topics = [...this.#topics.values()].filter((topic) => !topic.isRefused);
      if (topics.length === 0) return this.#slots.release();
      await this.#takeSlot();
      if (signal.aborted) {
        if (this.isPaused || !this.#topics.size) this.#slots.release(); // taken meanwhile
        return;
      }
      const isStream = this.#rung === 0;
      const { outcome, error } = await (isStream
        ? this.#stream(topics, signal)
        : this.#poll(topics, signal));
      if (signal.aborted) return;
      if (
        outcome === "refused" &&
        error?.status === 400 &&
        !isFreshStart &&
        topics.some((each) => each.cursor)
      ) {
        for (const topic of topics) topic.cursor = ""; // another journal, or one that was emptied
        isFreshStart = true;
        continue;
      }
      if (isStream && outcome === "cut" && topics.every((topic) => topic.hasEnded))
        return this.#slots.release();
      this.#ladder = this.#ladder.after(outcome, this.#draw);
      if (outcome === "responded") continue;
      const waitMs = Math.max(this.#ladder.delay, error?.retryAfterMs ?? 0);
      const isOffline = outcome === "away" || outcome === "refused";
      this.#enter(isOffline ? "offline" : "connecting", error, waitMs);
      await sleep(this.#environment, waitMs, signal);
    }
  }

  /** A stream or a long poll holds a connection, for which it needs a slot; without one the feed polls plainly. */
  async #takeSlot() {
    const holds = this.#ladder.rung < 2;
    if (!holds) this.#slots.release();
    this.#isCrowded = holds && !(await this.#slots.take());
  }

  /** @param {Topic[]} topics @param {AbortSignal} signal @returns {Promise<Attempt>} */
  #stream(topics, signal) {
    let hasMessage = false;
    return tryStream({
      environment: this.#environment,
      api: this.#api,
      topics: topics.map((topic) => topic.name),
      after: cursorsOf(topics),
      signal,
      onMessage: ({ event, data, id }) => {
        if (!hasMessage) {
          hasMessage = true;
          this.#ladder = this.#ladder.connected();
          this.#enter("live");
        }
        if (event === "beat") {
          this.#ladder = this.#ladder.proven();
          this.#onJournal?.(data["journal"] === "away");
        }
        updateCursors(topics, id);
        this.#deliver(topics, { event, data });
      },
    });
  }

  /** @param {Topic[]} topics @param {AbortSignal} signal @returns {Promise<Attempt>} */
  async #poll(topics, signal) {
    const isLong = this.#rung === 1;
    // The server holds a poll until there is news; `caught_up` does not count as news.
    const waitSeconds = isLong && topics.every((topic) => topic.isCaughtUp) ? WAIT_SECONDS : 0;
    const now = this.#environment.now();
    if (now >= this.#nextClimb && !this.#isCrowded) this.#climb(topics, signal);
    const { controller, release } = childOf(signal);
    let isTooLate = false;
    const timer = this.#environment.setTimeout(
      () => {
        isTooLate = true;
        controller.abort();
      },
      waitSeconds * 1000 + WAIT_GRACE_MS,
    );
    try {
      const before = cursorsOf(topics);
      const url = this.#api.url("/api/feed", {
        topic: topics.map((topic) => topic.name),
        after: before || null,
        wait: waitSeconds,
      });
      const response = await this.#api.request(url, { signal: controller.signal });
      const page = await response.json();
      this.#environment.clearTimeout(timer);
      if (signal.aborted) return { outcome: "responded", error: null };
      updateCursors(topics, page.cursor);
      for (const message of page.messages) this.#deliver(topics, message);
      this.#enter("polling");
      await this.#rest(page.messages, before !== page.cursor, now, signal);
      return { outcome: "responded", error: null };
    } catch (error) {
      if (signal.aborted) return { outcome: "responded", error: null };
      if (isTooLate) return { outcome: isLong ? "cut" : "away", error: null };
      if (error instanceof ApiError) return { outcome: this.#pollOutcome(error, now), error };
      if (isAbort(error) || error instanceof SyntaxError || error instanceof TypeError) {
        return { outcome: "cut", error: null }; // a truncated response
      }
      throw error;
    } finally {
      this.#environment.clearTimeout(timer);
      release();
    }
  }

  /**
   * A long poll that was held for a while and then broke off was cut by a proxy.
   * @param {ApiError} error @param {number} startedAt @returns {Outcome}
   */
  #pollOutcome(error, startedAt) {
    const heldMs = this.#environment.now() - startedAt;
    return error.status === 0 && this.#rung === 1 && heldMs >= 2_000 ? "cut" : outcomeOf(error);
  }

  /**
   * Wait before the next poll, unless there is more to read or the server already waited.
   * @param {FeedMessage[]} messages @param {boolean} hasMoved @param {number} startedAt
   * @param {AbortSignal} signal
   */
  async #rest(messages, hasMoved, startedAt, signal) {
    const hasNews =
      hasMoved && messages.some(({ event }) => event !== "caught_up" && event !== "beat");
    const now = this.#environment.now();
    if (this.#rung === 1) {
      if (!hasNews && now - startedAt < 1_000) await sleep(this.#environment, 1_000, signal);
      return;
    }
    if (hasNews) this.#polls = this.#polls.touched(now);
    this.#polls = this.#polls.afterPoll(now, hasNews);
    await sleep(this.#environment, this.#polls.delay ?? 0, signal);
  }

  /**
   * Try the stream beside the polls, without using its messages: the polls continue if the trial fails.
   * @param {Topic[]} topics @param {AbortSignal} signal
   */
  #climb(topics, signal) {
    this.#nextClimb = Infinity; // one at a time
    tryStream({
      environment: this.#environment,
      api: this.#api,
      topics: topics.map((topic) => topic.name),
      after: cursorsOf(topics),
      signal,
      onMessage: () => "responded",
    }).then(({ outcome }) => {
      if (signal.aborted) return;
      if (outcome === "responded") {
        this.#ladder = this.#ladder.climbSucceeded();
        this.#restart();
      } else {
        this.#ladder = this.#ladder.climbFailed();
        this.#nextClimb = this.#environment.now() + this.#ladder.climbMs;
      }
    });
  }

  #refollowLater() {
    this.#refollowing ??= this.#environment.setTimeout(() => this.#restart(), REFOLLOW_MS);
  }

  /** @param {Topic[]} topics @param {FeedMessage} message */
  #deliver(topics, message) {
    const topic = topics.find(({ name }) => name === message.data.topic);
    if (topic === undefined) return; // a heartbeat has no topic
    if (message.event === "error" && message.data.code === "invalid_cursor" && topic.cursor) {
      topic.cursor = ""; // of another journal, or one that was emptied
      return this.#restart();
    }
    topic.deliver(message);
    if (message.event === "ended") this.#refollowLater();
  }

  /** @param {FeedState} state @param {Error | null} [error] @param {number | null} [retryInMs] */
  #enter(state, error = null, retryInMs = null) {
    if (state === this.#state && error === null) return;
    this.#state = state;
    const detail = { way: this.way, error, retryInMs };
    this.#onState?.(state, detail);
    for (const topic of [...this.#topics.values()]) {
      for (const subscriber of [...topic.subscribers]) subscriber.notifyState(state, detail);
    }
  }
}

/** @param {Topic[]} topics @returns {string} empty if all of them start at the beginning */
function cursorsOf(topics) {
  return topics.some((topic) => topic.cursor) ? topics.map((topic) => topic.cursor).join(";") : "";
}

/** @param {Topic[]} topics @param {string} joined */
function updateCursors(topics, joined) {
  if (joined === "") return; // a message before the first cursor
  const cursors = topics.length === 1 ? [joined] : joined.split(";");
  if (cursors.length !== topics.length) return;
  topics.forEach((topic, at) => (topic.cursor = /** @type {string} */ (cursors[at])));
}
