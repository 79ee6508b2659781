/** What payloads say, read with the spellings that other producers use. The same rules as in Python. */

/** @import { WireEvent } from "./order.js" */
/** @typedef {Record<string, any>} Payload */

/** Words of other producers → ours. */
export const CALL_WORDS = new Map([
  ["start", "started"],
  ["running", "started"],
  ["pending", "started"],
  ["in_progress", "started"],
  ["complete", "completed"],
  ["success", "completed"],
  ["succeeded", "completed"],
  ["ok", "completed"],
  ["error", "failed"],
  ["failure", "failed"],
]);

/**
 * The payload of an event; one whose only key looks like a tag of the wire format is wrapped in `$map` there.
 * @param {WireEvent} event
 * @returns {Payload}
 */
export function payloadOf(event) {
  const payload = event.payload ?? {};
  return "$map" in payload && Object.keys(payload).length === 1 ? payload["$map"] : payload;
}

/**
 * The first of these fields that holds text.
 * @param {Payload} payload
 * @param {string[]} names
 * @returns {string | null}
 */
export function textOf(payload, ...names) {
  for (const name of names) {
    const value = payload[name];
    if (typeof value === "string" && value) return value;
  }
  return null;
}

/**
 * The first of these fields that holds a number one can count with.
 * @param {Payload} payload
 * @param {string[]} names
 * @returns {number | null}
 */
export function numberOf(payload, ...names) {
  for (const name of names) {
    const value = payload[name];
    const number = typeof value === "number" ? value : decimalOf(value);
    if (number !== null && Number.isFinite(number)) return number;
  }
  return null;
}

/**
 * What went wrong, if something did.
 * @param {Payload} payload
 */
export function errorTextOf(payload) {
  return textOf(payload, "error_message", "error");
}

/**
 * How long it took by the producer's own measure, in milliseconds.
 * @param {Payload} payload
 */
export function durationOf(payload) {
  return numberOf(payload, "duration_ms", "execution_time_ms");
}

/**
 * One spelling for how a call stands. A word nobody knows stays as it is, in lower case, and counts as an end.
 * @param {string} word
 */
export function callStatus(word) {
  const lowered = word.toLowerCase();
  return CALL_WORDS.get(lowered) ?? lowered;
}

/**
 * How a tool call stands. Without a status, an error or an output says that it is over.
 * @param {Payload} payload
 */
export function toolStatus(payload) {
  const word = textOf(payload, "status");
  if (word !== null) return callStatus(word);
  if (errorTextOf(payload) !== null) return "failed";
  return payload["output"] == null ? "started" : "completed";
}

/**
 * How the end of an agent span or a node went. Without a status, an error says that it failed.
 * @param {Payload} payload
 */
export function endStatus(payload) {
  const word = textOf(payload, "status");
  if (word !== null) return callStatus(word);
  return errorTextOf(payload) === null ? "completed" : "failed";
}

/**
 * Whether a value says anything, as Python sees it: empty lists, maps, sets and zero do not.
 * @param {any} value
 * @returns {boolean}
 */
export function saysSomething(value) {
  if (typeof value !== "object" || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  const keys = Object.keys(value);
  if (keys.length !== 1) return keys.length > 0;
  if (keys[0] === "$set" || keys[0] === "$map" || keys[0] === "$bytes")
    return sizeOf(value[keys[0]]) > 0;
  if (keys[0] === "$decimal") return /[1-9]/.test(String(value["$decimal"]).split(/e/i)[0] ?? "");
  return true;
}

/** @param {any} held */
function sizeOf(held) {
  return typeof held === "string" ? held.length : Object.keys(held).length;
}

/** @param {any} value */
function decimalOf(value) {
  const text = value?.["$decimal"];
  return typeof text === "string" && Object.keys(value).length === 1 ? Number(text) : null;
}
