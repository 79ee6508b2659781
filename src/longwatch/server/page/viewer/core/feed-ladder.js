/**
 * Which way to get news, and how long to wait before the next try. A value: each outcome gives the next one.
 *
 * The ways are rungs: a stream, then long polls, then plain polls. A server that is away is no reason to step
 * down, because no other way would reach it either. A way that connects and then brings nothing, or is cut off
 * again and again, is: something in between does not let it through. Lower rungs try the stream now and then.
 */

import { FEED_BACKOFF } from "./backoff.js";

/** @import { Backoff } from "./backoff.js" */

export const RUNGS = /** @type {const} */ (["stream", "long poll", "poll"]);
export const DOUBTS_TO_STEP_DOWN = 2; // in a row
export const FIRST_CLIMB_MS = 30_000; // then twice as long with each climb in vain
export const LAST_CLIMB_MS = 600_000;

/**
 * How a try ended.
 *
 * - `answered`: a poll had its answer.
 * - `closing`: the server said that it goes down.
 * - `silent`: it connected, or did not, and the first word never came.
 * - `stalled`: it spoke, and then not even a heartbeat came.
 * - `cut`: it spoke and ended, or was held open and broke off.
 * - `away`: no connection, or the server says that it cannot now.
 * - `refused`: the server does not want to.
 *
 * @typedef {"answered" | "closing" | "silent" | "stalled" | "cut" | "away" | "refused"} Outcome
 */

/** @type {Record<Outcome, number>} */
const DOUBTS = {
  answered: 0,
  closing: 0,
  silent: DOUBTS_TO_STEP_DOWN,
  stalled: 1,
  cut: 1,
  away: 0,
  refused: 0,
};

export class Ladder {
  /**
   * @param {number} [rung] Which of `RUNGS`.
   * @param {Backoff} [backoff]
   * @param {number} [doubts] About this rung, in a row.
   * @param {number} [climbMs] From one climb to the next.
   */
  constructor(rung = 0, backoff = FEED_BACKOFF, doubts = 0, climbMs = FIRST_CLIMB_MS) {
    this.rung = rung;
    this.backoff = backoff;
    this.doubts = doubts;
    this.climbMs = climbMs;
    Object.freeze(this);
  }

  get way() {
    return /** @type {(typeof RUNGS)[number]} */ (RUNGS[this.rung]);
  }

  /** Milliseconds until the next try. */
  get delay() {
    return this.backoff.delay ?? 0;
  }

  /** @param {Outcome} outcome @param {() => number} [draw] @returns {Ladder} */
  after(outcome, draw) {
    if (outcome === "answered")
      return new Ladder(this.rung, this.backoff.succeeded(), 0, this.climbMs);
    if (outcome === "away" || outcome === "refused" || outcome === "closing") {
      return new Ladder(this.rung, this.backoff.failed(draw), this.doubts, this.climbMs);
    }
    const doubts = this.doubts + DOUBTS[outcome];
    if (doubts >= DOUBTS_TO_STEP_DOWN && this.rung < RUNGS.length - 1) {
      return new Ladder(this.rung + 1, this.backoff.succeeded(), 0, this.climbMs);
    }
    return new Ladder(this.rung, this.backoff.failed(draw), doubts, this.climbMs);
  }

  /** The first word came: the server is there. */
  spoken() {
    return new Ladder(this.rung, this.backoff.succeeded(), this.doubts, this.climbMs);
  }

  /** A heartbeat came through in its time: this way works. */
  proven() {
    return new Ladder(this.rung, this.backoff.succeeded());
  }

  /** A trial of the stream went well. The next climb comes later all the same, until a heartbeat proves it. */
  climbed() {
    return new Ladder(0, this.backoff.succeeded(), 0, this.#laterClimb());
  }

  /** A trial of the stream brought nothing. Plain polls try long ones then. */
  climbedInVain() {
    return new Ladder(Math.min(this.rung, 1), this.backoff, 0, this.#laterClimb());
  }

  #laterClimb() {
    return Math.min(LAST_CLIMB_MS, this.climbMs * 2);
  }
}
