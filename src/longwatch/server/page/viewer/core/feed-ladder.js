/**
 * Which transport a feed uses, and how long it waits before the next attempt. A value: each outcome returns the next
 * state.
 *
 * The rungs are a stream, long polls and plain polls. An unreachable server is no reason to step down, because no other
 * transport would reach it either. A transport that connects and then delivers nothing, or is cut off repeatedly, is
 * blocked by a proxy: the feed steps down. The lower rungs retry the stream from time to time.
 */

import { FEED_BACKOFF } from "./backoff.js";

/** @import { Backoff } from "./backoff.js" */

export const RUNGS = /** @type {const} */ (["stream", "long poll", "poll"]);
export const DOUBTS_TO_STEP_DOWN = 2; // in a row
export const FIRST_CLIMB_MS = 30_000; // doubled with each failed climb
export const LAST_CLIMB_MS = 600_000;

/**
 * How an attempt ended.
 *
 * - `responded`: a poll received its response.
 * - `closing`: the server announced that it shuts down.
 * - `silent`: no message arrived, whether or not the stream connected.
 * - `stalled`: messages arrived, then not even a heartbeat.
 * - `cut`: messages arrived and the stream ended, or a held request broke off.
 * - `away`: no connection, or a temporary error of the server.
 * - `refused`: a permanent error of the server.
 *
 * @typedef {"responded" | "closing" | "silent" | "stalled" | "cut" | "away" | "refused"} Outcome
 */

/** @type {Record<Outcome, number>} */
const DOUBTS = {
  responded: 0,
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

  /** Milliseconds until the next attempt. */
  get delay() {
    return this.backoff.delay ?? 0;
  }

  /** @param {Outcome} outcome @param {() => number} [draw] @returns {Ladder} */
  after(outcome, draw) {
    if (outcome === "responded")
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

  /** The state after the first message: the server is reachable. */
  connected() {
    return new Ladder(this.rung, this.backoff.succeeded(), this.doubts, this.climbMs);
  }

  /** The state after a heartbeat on time: this transport works. */
  proven() {
    return new Ladder(this.rung, this.backoff.succeeded());
  }

  /** The state after a successful trial of the stream. Climbs stay rare until a heartbeat proves the stream. */
  climbSucceeded() {
    return new Ladder(0, this.backoff.succeeded(), 0, this.#laterClimb());
  }

  /** The state after a failed trial of the stream. Plain polls become long polls. */
  climbFailed() {
    return new Ladder(Math.min(this.rung, 1), this.backoff, 0, this.#laterClimb());
  }

  #laterClimb() {
    return Math.min(LAST_CLIMB_MS, this.climbMs * 2);
  }
}
