/** The end and the duration of a run as text. For a run that died, only an interval is known. */

import { dateTimeText, durationText, elapsedText, timeText } from "./format.js";

/** @import { Interval } from "../core/run-fold.js" */
/** @import { Summary } from "./types.js" */
/** @typedef {Pick<Summary, "status" | "started_at" | "ended_at" | "ended_between" | "duration_ms" | "duration_between" | "attempts">} Times */

/**
 * Whether a run is open: neither its end nor an interval for it is known.
 * @param {Pick<Times, "ended_at" | "ended_between">} run
 */
export function isOpen(run) {
  return run.ended_at === null && run.ended_between === null;
}

/**
 * The duration of the last attempt, or so far if the run is open; of a run that died the longest that is known. Every
 * duration of a run on the page derives from this.
 * @param {Times} run @param {number} now
 */
export function lengthMs(run, now) {
  const began = run.attempts[run.attempts.length - 1]?.started_at ?? run.started_at;
  if (isOpen(run)) return Math.max(0, now - began);
  return run.duration_between?.[1] ?? run.duration_between?.[0] ?? run.duration_ms ?? 0;
}

/**
 * The same for a narrow column: `24.0 s`, `207 ms–24.0 s`, `≥ 500 ms`; whole seconds for an open run.
 * @param {Times} run @param {number} now
 */
export function lengthText(run, now) {
  if (isOpen(run)) return elapsedText(lengthMs(run, now));
  if (!run.duration_between) return durationText(lengthMs(run, now));
  const [least, most] = lengths(run.duration_between);
  if (most === null) return `≥ ${least}`;
  return least === most ? least : `${least}–${most}`;
}

/**
 * The same as a phrase, for a run whose end is an interval: `ran between 207 ms and 24.0 s`.
 * @param {Interval} between
 */
export function ranText(between) {
  const [least, most] = lengths(between);
  if (most === null) return `ran at least ${least}`;
  return least === most ? `ran ${least}` : `ran between ${least} and ${most}`;
}

/**
 * `between 14:17:06 and 14:17:30`, `after 14:17:06`, or `at 14:17:06` if both are the same.
 * @param {Interval} between @param {number} now
 */
export function betweenText([notBefore, notAfter], now) {
  const earliest = dateTimeText(notBefore, now);
  if (notAfter === null) return `after ${earliest}`;
  const sameDay = new Date(notBefore).toDateString() === new Date(notAfter).toDateString();
  const latest = sameDay ? timeText(notAfter) : dateTimeText(notAfter, now);
  return earliest.endsWith(latest) ? `at ${earliest}` : `between ${earliest} and ${latest}`;
}

/**
 * `died between 14:17:06 and 14:17:30`; `ended …` for an attempt that was superseded.
 * @param {Pick<Times, "status"> & {ended_between: Interval}} run @param {number} now
 */
export function endText(run, now) {
  return `${run.status === "died" ? "died" : "ended"} ${betweenText(run.ended_between, now)}`;
}

/** @param {Interval} between @returns {[string, string | null]} */
function lengths([least, most]) {
  return [durationText(least), most === null ? null : durationText(most)];
}
