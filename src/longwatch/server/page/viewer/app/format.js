/**
 * Times, durations and counts as text. Times are local; the title of a `<time>` has them in UTC.
 * Without `Intl`, whose first use would delay the first paint by 50 ms.
 */

import { h } from "./dom.js";

/** @import { Child } from "./dom.js" */

/** @import { Condition } from "./types.js" */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** @param {number} number */
export function numberText(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {string} word */
export const capital = (word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;

/**
 * A count and its noun: `1 event`, `1,204 events`.
 * @param {number} number @param {string} one @param {string} [many]
 */
export function countText(number, one, many = `${one}s`) {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

/**
 * `850 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d 04 h`, as the command line writes them. Half a unit rounds up.
 * @param {number} ms
 */
export function durationText(ms) {
  if (ms > 0 && ms < 1) return "<1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) {
    const tenths = Math.round(ms / 100); // toFixed(1) would round 1.15 s down and 1.25 s up
    return `${Math.floor(tenths / 10)}.${tenths % 10} s`;
  }
  const seconds = Math.round(ms / SECOND);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

/**
 * The duration of something that is still running: whole seconds, so that it changes once a second.
 * @param {number} ms
 */
export function elapsedText(ms) {
  return ms < MINUTE
    ? `${Math.max(0, Math.floor(ms / SECOND))} s`
    : durationText(Math.floor(ms / SECOND) * SECOND);
}

/**
 * `just now`, `42 s ago`, `5 min ago`, `3 h ago`, `2 d ago`.
 * @param {number} at @param {number} now
 */
export function agoText(at, now) {
  const ms = now - at;
  if (ms < 5 * SECOND) return "just now";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s ago`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ago`;
  return `${Math.floor(ms / DAY)} d ago`;
}

/**
 * A condition of a run as text. The duration of a silence is computed here, so that it keeps counting.
 * @param {Condition} condition @param {number} lastEventAt @param {number} now
 */
export function conditionText({ name, message }, lastEventAt, now) {
  if (name === "silent") return `silent for ${elapsedText(now - lastEventAt)}, still open`;
  return message.startsWith(name) ? message : `${name}: ${message}`;
}

/** Local time of day. @param {number} at */
export function timeText(at) {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `.042`: the milliseconds of a time, to follow its seconds. @param {number} at */
export const millisecondsText = (at) =>
  `.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;

/**
 * Local date and time; the day is left out when it is today.
 * @param {number} at @param {number} now
 */
export function dateTimeText(at, now) {
  const date = new Date(at);
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return timeText(at);
  const year = date.getFullYear() === today.getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]}${year}, ${timeText(at)}`;
}

/**
 * A `<time>` with UTC on hover.
 * @param {number} at
 * @param {...Child} children the local time, or its age
 */
export function timeElement(at, ...children) {
  return h("time", { datetime: isoTime(at), title: utcText(at) }, ...children);
}

/** @param {number} at @param {number} [now] */
export const dateTimeElement = (at, now = Date.now()) => timeElement(at, dateTimeText(at, now));

/** @param {number} at */
export const utcText = (at) => `${isoTime(at).replace("T", " ").replace("Z", "")} UTC`;

/** ISO 8601 in UTC; a time out of range is written as a number. @param {number} at */
export function isoTime(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

/** @param {number} number */
export function sizeText(number) {
  if (number < 1000) return `${number} B`;
  if (number < 1_000_000) return `${(number / 1000).toFixed(1)} kB`;
  return `${(number / 1_000_000).toFixed(1)} MB`;
}

/** @param {number} number */
function two(number) {
  return String(number).padStart(2, "0");
}
