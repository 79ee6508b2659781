/** Fields of payloads, with the spellings of third-party producers. The same rules as in Python. */

import { invert } from "./groups.js";

/** @import { WireEvent } from "./order.js" */
/** @typedef {Record<string, any>} Payload */

/** Call statuses of third-party producers → ours. */
export const CALL_WORDS = invert({
  started: ["start", "running", "pending", "in_progress"],
  completed: ["complete", "success", "succeeded", "ok"],
  failed: ["error", "failure"],
});

/**
 * The payload of an event. The wire format wraps a payload in `$map` if its only key looks like a tag.
 * @param {WireEvent} event @returns {Payload}
 */
export function payloadOf(event) {
  const payload = event.payload ?? {};
  return "$map" in payload && Object.keys(payload).length === 1 ? payload["$map"] : payload;
}

/**
 * The first of these fields that holds a non-empty string.
 * @param {Payload} payload @param {string[]} names @returns {string | null}
 */
export function textOf(payload, ...names) {
  for (const name of names) {
    const value = payload[name];
    if (typeof value === "string" && value) return value;
  }
  return null;
}

/**
 * The first of these fields that holds a finite number.
 * @param {Payload} payload @param {string[]} names @returns {number | null}
 */
export function numberOf(payload, ...names) {
  for (const name of names) {
    const value = payload[name];
    const number = typeof value === "number" ? value : decimalOf(value);
    if (number !== null && Number.isFinite(number)) return number;
  }
  return null;
}

/** @param {Payload} payload */
export function errorTextOf(payload) {
  return textOf(payload, "error_message", "error");
}

/** The duration that the producer measured, in milliseconds. @param {Payload} payload */
export function durationOf(payload) {
  return numberOf(payload, "duration_ms", "execution_time_ms");
}

/**
 * One spelling for the status of a call. An unknown status stays as it is, in lower case, and counts as an end.
 * @param {string} status
 */
export function callStatus(status) {
  const lowered = status.toLowerCase();
  return CALL_WORDS.get(lowered) ?? lowered;
}

/**
 * The status of a tool call. Without a status field, an error or an output means that the call has ended.
 * @param {Payload} payload
 */
export function toolStatus(payload) {
  const status = textOf(payload, "status");
  if (status !== null) return callStatus(status);
  if (errorTextOf(payload) !== null) return "failed";
  return payload["output"] == null ? "started" : "completed";
}

/**
 * The status of an agent span or a node that has ended. Without a status field, an error means that it failed.
 * @param {Payload} payload
 */
export function endStatus(payload) {
  const status = textOf(payload, "status");
  if (status !== null) return callStatus(status);
  return errorTextOf(payload) === null ? "completed" : "failed";
}

/**
 * Whether a value is true in Python: empty lists, maps, sets and zero are false.
 * @param {any} value @returns {boolean}
 */
export function isTruthy(value) {
  if (typeof value !== "object" || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  const keys = Object.keys(value);
  if (keys.length !== 1) return keys.length > 0;
  if (keys[0] === "$set" || keys[0] === "$map" || keys[0] === "$bytes")
    return sizeOf(value[keys[0]]) > 0;
  if (keys[0] === "$decimal") return /[1-9]/.test(String(value["$decimal"]).split(/e/i)[0] ?? "");
  return true;
}

/** @param {any} value */
function sizeOf(value) {
  return typeof value === "string" ? value.length : Object.keys(value).length;
}

/** @param {any} value */
function decimalOf(value) {
  const text = value?.["$decimal"];
  return typeof text === "string" && Object.keys(value).length === 1 ? Number(text) : null;
}
