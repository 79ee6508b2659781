/**
 * What an event says, in a few words, as the command line says it; and whether it tells of a failure.
 */

import { markOf } from "../core/calls.js";
import { ENDS, endingOf, warningCount } from "../core/endings.js";
import { callStatus, durationOf, errorTextOf, payloadOf, textOf } from "../core/payloads.js";
import { countText, durationText } from "./format.js";
import { betweenText } from "./run-times.js";

/** @import { RunEvent } from "./types.js" */

const TRANSITION = /^(?:job|server|action)_transition$/;
const VERDICT = /^execution_(?:ended|corrected)$/;
const LONGEST = 300;
const MOST_FIELDS = 8;
const SPOKEN = ["message", "text", "line", "data", "name", "status"];
const BAD_ENDINGS = ["failed", "died", "partial", "unknown"];
const SIGNS = /** @type {Record<string, string>} */ ({
  started: "…",
  completed: "✓",
  failed: "✗",
  skipped: "–",
});

/** @param {RunEvent} event @returns {boolean} */
export function isFailure(event) {
  const said = payloadOf(event);
  const word = textOf(said, "status");
  if (word !== null && callStatus(word) === "failed") return true;
  if (TRANSITION.test(event.type) && textOf(said, "to") === "failed") return true;
  const ending = endingOf(event);
  if (ending) return BAD_ENDINGS.includes(ending.status);
  return /(?:_failed|_error)$/i.test(event.type) || errorTextOf(said) !== null;
}

/** @param {RunEvent} event @returns {string} */
export function eventText(event) {
  const said = payloadOf(event);
  if (TRANSITION.test(event.type)) return oneLine(transition(said));
  if (event.type === "execution_started")
    return oneLine(
      `${textOf(said, "name") ?? ""} (${textOf(said, "source") ?? ""} ${textOf(said, "mode") ?? ""})`,
    );
  if (VERDICT.test(event.type)) return oneLine(verdict(said));
  const call = markOf(event)?.mark;
  if (call) {
    const parts = [
      call.name,
      SIGNS[call.status] ?? call.status,
      call.durationMs === null ? "" : durationText(call.durationMs),
      call.error ?? "",
    ];
    return oneLine(parts.filter(Boolean).join(" "));
  }
  const error = errorTextOf(said);
  const death = deathOf(event);
  if (death)
    return oneLine(
      [
        death.notBefore === null
          ? "died"
          : `died ${betweenText([death.notBefore, death.notAfter], Date.now())}`,
        error,
      ]
        .filter(Boolean)
        .join(" · "),
    );
  const spoken = textOf(said, ...SPOKEN);
  if (error || ENDS.has(event.type)) {
    const took = durationOf(said);
    return oneLine(
      [error ?? spoken ?? "", took === null ? "" : durationText(took)].filter(Boolean).join(" "),
    );
  }
  const names = Object.keys(said);
  return spoken && names.length === 1 ? oneLine(spoken) : oneLine(fields(said, names));
}

/**
 * The death that an observer recorded for a run; null for any other event. Its `occurred_at` is a place, not a time.
 * @param {RunEvent} event
 */
export function deathOf(event) {
  const ending = ENDS.has(event.type) ? endingOf(event) : null;
  return ending?.status === "died" ? ending : null;
}

/**
 * `failed (TIMED_OUT) s-1: no answer`: what it is now, which must fit, then what changed and why.
 * @param {Record<string, unknown>} said
 */
function transition(said) {
  const name = textOf(said, "action", "server_id", "job_id") ?? "";
  const [state, word, reason] = ["to", "word", "reason"].map((key) => textOf(said, key) ?? "");
  const to = state === "launched" && word?.toLowerCase() !== state ? "done" : state; // a build is not launched
  const own = word && word.toLowerCase() !== to && word !== reason ? ` (${word})` : "";
  return `${to}${own} ${name}${reason ? `: ${reason}` : ""}`;
}

/**
 * `succeeded; 2 warnings: s-1 was terminated afterwards; …`: the reasons or the status, then the rest.
 * @param {Record<string, unknown>} said
 */
function verdict(said) {
  const words = errorTextOf(said) ?? textOf(said, "message", "status") ?? "";
  const warnings = Array.isArray(said["warnings"]) ? said["warnings"] : [];
  return warnings.length
    ? `${words}; ${countText(warningCount(said), "warning")}: ${warnings.map(String).join("; ")}`
    : words;
}

/**
 * What went wrong, by the payload of an event.
 * @param {RunEvent} event
 */
export function errorOf(event) {
  return errorTextOf(payloadOf(event));
}

/** @param {Record<string, unknown>} said @param {string[]} names */
function fields(said, names) {
  const shown = names.slice(0, MOST_FIELDS).flatMap((name) => {
    const value = said[name];
    if (value === null || value === undefined) return [];
    if (name === "process") return [`process=${processText(value)}`];
    return [
      `${name}=${typeof value === "string" && value && !value.includes(" ") ? value.slice(0, LONGEST) : brief(value)}`,
    ];
  });
  return shown.join(" ");
}

/**
 * `123@host`: the rest of a process's identity is for observers, and in the details of the event.
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
  // A big value is not written out for the sake of its first characters.
  return size > 20
    ? Array.isArray(value)
      ? `[${size} items]`
      : `{${size} fields}`
    : JSON.stringify(value).slice(0, LONGEST);
}

/** @param {string} text */
function oneLine(text) {
  return text.slice(0, LONGEST).replace(/\s+/g, " ");
}
