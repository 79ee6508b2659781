/**
 * One feed for all topics of a page: a stream, long polls where something in between spoils streams, plain polls
 * where it spoils those too.
 *
 * Whatever happens on the way, each listener gets every event once, and ends up with what the journal holds:
 * cursors are kept for each topic, every new request goes on from them, and what comes twice is dropped.
 */

import { FEED_BACKOFF } from "./backoff.js";
import { ApiError, isAbort } from "./errors.js";
import { Ladder } from "./feed-ladder.js";
import { outcomeOf, tryStream } from "./feed-stream.js";
import { Listener, Topic } from "./feed-topic.js";
import { PauseReasons } from "./pause-reasons.js";
import { Ramp } from "./schedule.js";
import { childOf, sleep } from "./sleep.js";
import { environmentWith } from "./environment.js";

/** @import { Api } from "./api.js" */
/** @import { Backoff } from "./backoff.js" */
/** @import { Environment } from "./environment.js" */
/** @import { Outcome } from "./feed-ladder.js" */
/** @import { Tried } from "./feed-stream.js" */
/** @import { FeedDetail, FeedMessage, FeedState, Listening } from "./feed-topic.js" */
/** @import { PauseReason } from "./pause-reasons.js" */

export const WAIT_SECONDS = 25; // of a long poll
const WAIT_GRACE_MS = 10_000; // that it may take longer before it counts as cut off
const REFOLLOW_MS = 300_000; // a run that has ended can still get late events: ask again now and then

/**
 * @typedef {object} FeedOptions
 * @property {Api} api
 * @property {Partial<Environment>} [environment]
 * @property {Backoff} [backoff]
 * @property {() => number} [draw] For the jitter.
 * @property {(state: FeedState, detail: FeedDetail) => void} [onState]
 * @property {(isAway: boolean) => void} [onJournal] With each heartbeat: whether the journal behind the server does not
 *   answer, so that nothing new can come though the stream is alive.
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
  #nextClimb = 0;
  #polls = new Ramp({ quietMs: Infinity }); // how often, on the last rung

  /** @param {FeedOptions} options */
  constructor({
    api,
    environment,
    backoff = FEED_BACKOFF,
    draw = Math.random,
    onState,
    onJournal,
  }) {
    this.#api = api;
    this.#environment = environmentWith(environment);
    this.#draw = draw;
    this.#onState = onState;
    this.#onJournal = onJournal;
    this.#ladder = new Ladder(0, backoff);
  }

  /** @returns {FeedState} */
  get state() {
    return this.#state;
  }

  get way() {
    return this.#ladder.way;
  }

  get isPaused() {
    return this.#pauses.isPaused;
  }

  /**
   * Follow a topic: what happened since `after`, that it has caught up, then what happens.
   * @param {string} name `run:{id}`, `runs`, `turn:{p}/{s}/{t}`, `session:{p}/{s}`, `sessions:{p}`, `projects` or
   *   `files:{p}`
   * @param {Listening} listening
   * @returns {() => void} stops it
   */
  subscribe(name, listening) {
    const listener = new Listener(listening);
    const topic = this.#topics.get(name) ?? new Topic(name, listening.after ?? "");
    this.#topics.set(name, topic);
    topic.join(listener);
    this.#restart();
    return () => {
      if (!listener.active) return;
      listener.active = false;
      topic.listeners.delete(listener);
      if (topic.listeners.size) return;
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
   * Do as much as people's activity asks for. A stream costs next to nothing while nothing happens, so it
   * stays for one who only looks; polls do not.
   * @param {"active" | "idle" | "hidden"} mode
   */
  attend(mode) {
    if (mode === "hidden" || (mode === "idle" && this.#ladder.rung > 0))
      return this.#pauseFor("activity");
    this.#resumeFrom("activity");
    if (mode === "active") this.touch();
  }

  /** Somebody is interested: try now what would be tried later, and ask again for what has ended. */
  touch() {
    if (this.isPaused) return;
    const hasEnded = [...this.#topics.values()].some((topic) => topic.hasEnded);
    if (this.#state === "offline" || hasEnded) this.#restart();
    if (this.#ladder.rung === 2) this.#polls = this.#polls.touched(this.#environment.now());
  }

  /** End everything; whoever listens hears nothing more. */
  close() {
    this.#stop();
    for (const topic of this.#topics.values())
      for (const listener of topic.listeners) listener.active = false;
    this.#topics.clear();
  }

  /** @param {PauseReason} reason */
  #pauseFor(reason) {
    if (!this.#pauses.add(reason)) return;
    this.#stop();
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

  /** Open anew from the cursors. At the end of this turn: a page that subscribes ten times opens one stream. */
  #restart() {
    this.#stop();
    if (this.isPaused || this.#topics.size === 0) return;
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
    let isFreshStart = false; // the cursors have been given up once in this run
    while (!signal.aborted) {
      const topics = [...this.#topics.values()].filter((topic) => !topic.isRefused);
      if (topics.length === 0) return;
      const isStream = this.#ladder.rung === 0;
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
      if (isStream && outcome === "cut" && topics.every((topic) => topic.hasEnded)) return;
      this.#ladder = this.#ladder.after(outcome, this.#draw);
      if (outcome === "answered") continue;
      const waitMs = Math.max(this.#ladder.delay, error?.retryAfterMs ?? 0);
      const isOffline = outcome === "away" || outcome === "refused";
      this.#enter(isOffline ? "offline" : "connecting", error, waitMs);
      await sleep(this.#environment, waitMs, signal);
    }
  }

  /** @param {Topic[]} topics @param {AbortSignal} signal @returns {Promise<Tried>} */
  #stream(topics, signal) {
    let hasSpoken = false;
    return tryStream({
      environment: this.#environment,
      api: this.#api,
      topics: topics.map((topic) => topic.name),
      after: cursorsOf(topics),
      signal,
      onMessage: ({ event, data, id }) => {
        if (!hasSpoken) {
          hasSpoken = true;
          this.#ladder = this.#ladder.spoken();
          this.#enter("live");
        }
        if (event === "beat") {
          this.#ladder = this.#ladder.proven();
          this.#onJournal?.(data["journal"] === "away");
        }
        takeCursors(topics, id);
        this.#give(topics, { event, data });
      },
    });
  }

  /** @param {Topic[]} topics @param {AbortSignal} signal @returns {Promise<Tried>} */
  async #poll(topics, signal) {
    const isLong = this.#ladder.rung === 1;
    // The server holds a poll until there is news, and that a topic has caught up is none.
    const waitSeconds = isLong && topics.every((topic) => topic.isCaughtUp) ? WAIT_SECONDS : 0;
    const now = this.#environment.now();
    if (now >= this.#nextClimb) this.#climb(topics, signal);
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
      const address = this.#api.address("/api/feed", {
        topic: topics.map((topic) => topic.name),
        after: before || null,
        wait: waitSeconds,
      });
      const response = await this.#api.request(address, { signal: controller.signal });
      const answer = await response.json();
      this.#environment.clearTimeout(timer);
      if (signal.aborted) return { outcome: "answered", error: null };
      takeCursors(topics, answer.cursor);
      for (const message of answer.messages) this.#give(topics, message);
      this.#enter("polling");
      await this.#rest(answer.messages, before !== answer.cursor, now, signal);
      return { outcome: "answered", error: null };
    } catch (error) {
      if (signal.aborted) return { outcome: "answered", error: null };
      if (isTooLate) return { outcome: isLong ? "cut" : "away", error: null };
      if (error instanceof ApiError) return { outcome: this.#pollOutcome(error, now), error };
      if (isAbort(error) || error instanceof SyntaxError || error instanceof TypeError) {
        return { outcome: "cut", error: null }; // the answer broke off in the middle
      }
      throw error;
    } finally {
      this.#environment.clearTimeout(timer);
      release();
    }
  }

  /**
   * A long poll that was held for a while and then broke off was cut by something in between.
   * @param {ApiError} error
   * @param {number} startedAt
   * @returns {Outcome}
   */
  #pollOutcome(error, startedAt) {
    const heldMs = this.#environment.now() - startedAt;
    return error.status === 0 && this.#ladder.rung === 1 && heldMs >= 2_000
      ? "cut"
      : outcomeOf(error);
  }

  /**
   * Wait before the next poll: not at all while there is more or the server did the waiting.
   * @param {FeedMessage[]} messages
   * @param {boolean} hasMoved
   * @param {number} startedAt
   * @param {AbortSignal} signal
   */
  async #rest(messages, hasMoved, startedAt, signal) {
    const hasNews =
      hasMoved && messages.some(({ event }) => event !== "caught_up" && event !== "beat");
    const now = this.#environment.now();
    if (this.#ladder.rung === 1) {
      if (!hasNews && now - startedAt < 1_000) await sleep(this.#environment, 1_000, signal);
      return;
    }
    if (hasNews) this.#polls = this.#polls.touched(now);
    this.#polls = this.#polls.looked(now, hasNews);
    await sleep(this.#environment, this.#polls.delay ?? 0, signal);
  }

  /**
   * Try the stream beside the polls, without taking anything from it: they go on if it brings nothing.
   * @param {Topic[]} topics
   * @param {AbortSignal} signal
   */
  #climb(topics, signal) {
    this.#nextClimb = Infinity; // one at a time
    tryStream({
      environment: this.#environment,
      api: this.#api,
      topics: topics.map((topic) => topic.name),
      after: cursorsOf(topics),
      signal,
      onMessage: () => "answered",
    }).then(({ outcome }) => {
      if (signal.aborted) return;
      if (outcome === "answered") {
        this.#ladder = this.#ladder.climbed();
        this.#restart();
      } else {
        this.#ladder = this.#ladder.climbedInVain();
        this.#nextClimb = this.#environment.now() + this.#ladder.climbMs;
      }
    });
  }

  #refollowLater() {
    this.#refollowing ??= this.#environment.setTimeout(() => this.#restart(), REFOLLOW_MS);
  }

  /** @param {Topic[]} topics @param {FeedMessage} message */
  #give(topics, message) {
    const topic = topics.find(({ name }) => name === message.data.topic);
    if (topic === undefined) return; // a beat has none
    if (message.event === "error" && message.data.code === "invalid_cursor" && topic.cursor) {
      topic.cursor = ""; // of another journal, or one that was emptied
      return this.#restart();
    }
    topic.give(message);
    if (message.event === "ended") this.#refollowLater();
  }

  /** @param {FeedState} state @param {Error | null} [error] @param {number | null} [retryInMs] */
  #enter(state, error = null, retryInMs = null) {
    if (state === this.#state && error === null) return;
    this.#state = state;
    const detail = { way: this.#ladder.way, error, retryInMs };
    this.#onState?.(state, detail);
    for (const topic of [...this.#topics.values()]) {
      for (const listener of [...topic.listeners]) listener.tell(state, detail);
    }
  }
}

/** @param {Topic[]} topics @returns {string} empty if all of them begin at the start */
function cursorsOf(topics) {
  return topics.some((topic) => topic.cursor) ? topics.map((topic) => topic.cursor).join(";") : "";
}

/** @param {Topic[]} topics @param {string} joined */
function takeCursors(topics, joined) {
  if (joined === "") return; // a message before the first cursor
  const cursors = topics.length === 1 ? [joined] : joined.split(";");
  if (cursors.length !== topics.length) return;
  topics.forEach((topic, at) => (topic.cursor = /** @type {string} */ (cursors[at])));
}
