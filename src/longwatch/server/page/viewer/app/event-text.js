/** The content of an event as one line, as on the command line, and whether it reports a failure. */

import { markOf } from "../core/calls.js";
import { ENDS, endingOf, warningCount } from "../core/endings.js";
import { callStatus, durationOf, errorTextOf, payloadOf, textOf } from "../core/payloads.js";
import { countText, durationText } from "./format.js";
import { betweenText } from "./run-times.js";

/** @import { CallUsage } from "../core/model-calls.js" */
/** @import { RunEvent } from "./types.js" */

const TRANSITION = /^(?:job|server|action)_transition$/;
const VERDICT = /^execution_(?:ended|corrected)$/;
const LONGEST = 300;
const MOST_FIELDS = 8;
const MESSAGE_FIELDS = ["message", "text", "line", "data", "name", "status"];
const BAD_ENDINGS = ["failed", "died", "partial", "unknown"];
const SIGNS = /** @type {Record<string, string>} */ ({
  started: "…",
  completed: "✓",
  failed: "✗",
  skipped: "–",
});

/** @param {RunEvent} event @returns {boolean} */
export function isFailure(event) {
  const payload = payloadOf(event);
  const status = textOf(payload, "status");
  if (status !== null && callStatus(status) === "failed") return true;
  if (TRANSITION.test(event.type) && textOf(payload, "to") === "failed") return true;
  const ending = endingOf(event);
  if (ending) return BAD_ENDINGS.includes(ending.status);
  return /(?:_failed|_error)$/i.test(event.type) || errorTextOf(payload) !== null;
}

/** @param {RunEvent} event @returns {string} */
export function eventText(event) {
  const payload = payloadOf(event);
  if (TRANSITION.test(event.type)) return oneLine(transitionText(payload));
  if (event.type === "execution_started")
    return oneLine(
      `${textOf(payload, "name") ?? ""} (${textOf(payload, "source") ?? ""} ${textOf(payload, "mode") ?? ""})`,
    );
  if (VERDICT.test(event.type)) return oneLine(verdictText(payload));
  const call = markOf(event)?.mark;
  if (call) {
    const parts = [
      call.name,
      SIGNS[call.status] ?? call.status,
      call.durationMs === null ? "" : durationText(call.durationMs),
      call.error ?? "",
      call.status === "started" ? "" : tokensText(call.model?.usage),
    ];
    return oneLine(joinTexts(parts));
  }
  const error = errorTextOf(payload);
  const death = deathOf(event);
  if (death) {
    const { notBefore, notAfter } = death;
    const when = notBefore === null ? "" : betweenText([notBefore, notAfter], Date.now());
    return oneLine(joinTexts([joinTexts(["died", when]), error], " · "));
  }
  const message = textOf(payload, ...MESSAGE_FIELDS);
  if (error || ENDS.has(event.type)) {
    const took = durationOf(payload);
    return oneLine(joinTexts([error ?? message, took === null ? "" : durationText(took)]));
  }
  const names = Object.keys(payload);
  return oneLine(message && names.length === 1 ? message : fieldsText(payload, names));
}

/** @param {CallUsage | null | undefined} usage */
function tokensText(usage) {
  const { input_tokens: input = null, output_tokens: output = null } = usage ?? {};
  if (input === null && output === null) return "";
  return countText((input ?? 0) + (output ?? 0), "token");
}

/**
 * The death that an observer recorded for a run; null for any other event. Its `occurred_at` only gives its order.
 * @param {RunEvent} event
 */
export function deathOf(event) {
  const ending = ENDS.has(event.type) ? endingOf(event) : null;
  return ending?.status === "died" ? ending : null;
}

/**
 * `failed (TIMED_OUT) s-1: no response`: the new state, which must fit, then what changed and why.
 * @param {Record<string, unknown>} payload
 */
function transitionText(payload) {
  const name = textOf(payload, "action", "server_id", "job_id") ?? "";
  const [state, source, reason] = ["to", "word", "reason"].map((key) => textOf(payload, key) ?? "");
  const to = state === "launched" && source?.toLowerCase() !== state ? "done" : state; // a build is not launched
  const own = source && source.toLowerCase() !== to && source !== reason ? ` (${source})` : "";
  return `${to}${own} ${name}${reason ? `: ${reason}` : ""}`;
}

/**
 * `succeeded; 2 warnings: s-1 was terminated afterwards; …`: the reasons or the status, then the rest.
 * @param {Record<string, unknown>} payload
 */
function verdictText(payload) {
  const reasons = errorTextOf(payload) ?? textOf(payload, "message", "status") ?? "";
  const warnings = Array.isArray(payload["warnings"]) ? payload["warnings"] : [];
  return warnings.length
    ? `${reasons}; ${countText(warningCount(payload), "warning")}: ${warnings.map(String).join("; ")}`
    : reasons;
}

/** @param {RunEvent} event */
export function errorOf(event) {
  return errorTextOf(payloadOf(event));
}

/** @param {Record<string, unknown>} payload @param {string[]} names */
function fieldsText(payload, names) {
  const shown = names.slice(0, MOST_FIELDS).flatMap((name) => {
    const value = payload[name];
    if (value === null || value === undefined) return [];
    if (name === "process") return [`process=${processText(value)}`];
    const isWord = typeof value === "string" && value && !value.includes(" ");
    return [`${name}=${isWord ? value.slice(0, LONGEST) : brief(value)}`];
  });
  return shown.join(" ");
}

/**
 * `123@host`: the rest of a process's identity is in the details of the event.
 * @param {unknown} value
 */
function processText(value) {
  const { pid, host } = /** @type {{pid?: unknown, host?: unknown}} */ (Object(value));
  return typeof pid === "number" && typeof host === "string"
    ? `${pid}@${host.slice(0, LONGEST)}`
    : brief(value);
}

/** @param {unknown} value */
function brief(value) {
  if (typeof value === "string") return JSON.stringify(value.slice(0, LONGEST));
  if (typeof value !== "object" || value === null) return String(value);
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  // Serializing a large value for its first characters would be slow.
  if (size > 20) return Array.isArray(value) ? `[${size} items]` : `{${size} fields}`;
  return JSON.stringify(value).slice(0, LONGEST);
}

/** @param {(string | null | undefined)[]} texts @param {string} [separator] */
function joinTexts(texts, separator = " ") {
  return texts.filter(Boolean).join(separator);
}

/** @param {string} text */
function oneLine(text) {
  return text.slice(0, LONGEST).replace(/\s+/g, " ");
}
