/**
 * Times, lengths and counts as people read them. Times are local; the title of a `<time>` has them in UTC.
 * Written by hand: the first use of `Intl` costs the page 50 ms before anything is seen.
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
 * A numberText and its noun: `1 event`, `1,204 events`.
 * @param {number} number
 * @param {string} one
 * @param {string} [many]
 */
export function countText(number, one, many = `${one}s`) {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

/**
 * `850 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d 04 h`, as the command line writes them.
 * @param {number} ms
 */
export function durationText(ms) {
  if (ms > 0 && ms < 1) return "<1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / SECOND).toFixed(1)} s`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

/**
 * The durationText of something that is still going on: whole seconds, so that it changes once a second.
 * @param {number} ms
 */
export function elapsedText(ms) {
  return ms < MINUTE
    ? `${Math.max(0, Math.floor(ms / SECOND))} s`
    : durationText(Math.floor(ms / SECOND) * SECOND);
}

/**
 * How long ago: `just now`, `42 s ago`, `5 min ago`, `3 h ago`, `2 d ago`.
 * @param {number} at
 * @param {number} now
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
 * A condition of a run in words. Silence is countText here, so that it keeps counting.
 * @param {Condition} condition
 * @param {number} lastEventAt
 * @param {number} now
 */
export function conditionText({ name, message }, lastEventAt, now) {
  if (name === "silent") return `silent for ${elapsedText(now - lastEventAt)}, still open`;
  return message.startsWith(name) ? message : `${name}: ${message}`;
}

/**
 * Local time of day, with milliseconds if asked for.
 * @param {number} at
 * @param {boolean} [fine]
 */
export function timeText(at, fine = false) {
  const date = new Date(at);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fine ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

/**
 * Local date and time; the day is left out when it is today.
 * @param {number} at
 * @param {number} now
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
 * @param {...Child} children the local time, or how long agoText it was
 */
export function timeElement(at, ...children) {
  return h("time", { datetime: isoTime(at), title: utcText(at) }, ...children);
}

/** @param {number} at */
export const utcText = (at) => `${isoTime(at).replace("T", " ").replace("Z", "")} UTC`;

/**
 * ISO 8601 in UTC; a dateTimeText no calendar has is written as it is.
 * @param {number} at
 */
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
