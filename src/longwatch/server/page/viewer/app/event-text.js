/** The content of an event as one line, as on the command line, and whether it reports a failure. */

import { markOf } from "../core/calls.js";
import { ENDS, endingOf } from "../core/endings.js";
import { callStatus, durationOf, errorTextOf, payloadOf, textOf } from "../core/payloads.js";
import { eventPreview } from "../core/preview.js";
import { countText, durationText } from "./format.js";
import { NOTIFIED, isGivenUp, noticeText } from "./notice-text.js";
import { betweenText } from "./run-times.js";

/** @import { CallUsage } from "../core/model-calls.js" */
/** @import { RunEvent } from "./types.js" */

const TRANSITION = /^(?:job|server|action)_transition$/;
const LONGEST = 300;
const BAD_ENDINGS = ["failed", "died", "partial", "unknown"];
const SIGNS = /** @type {Record<string, string>} */ ({
  started: "…",
  completed: "✓",
  failed: "✗",
  skipped: "–",
});

/** @param {RunEvent} event @returns {boolean} */
export function isFailure(event) {
  if (event.type === NOTIFIED) return isGivenUp(event); // the status that it reports is the run's
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
  if (event.type === NOTIFIED) return noticeText(event);
  const payload = payloadOf(event);
  const preview = eventPreview(event, LONGEST);
  const call = markOf(event)?.mark;
  if (call) {
    const isStart = call.status === "started";
    return joinTexts([
      event.type === "block" && !isStart ? "" : call.name, // a result does not name its tool
      SIGNS[call.status] ?? call.status,
      call.durationMs === null ? "" : durationText(call.durationMs),
      preview,
      isStart ? "" : tokensText(call.model?.usage),
    ]);
  }
  const death = deathOf(event);
  if (death) {
    const { notBefore, notAfter } = death;
    const when = notBefore === null ? "" : betweenText([notBefore, notAfter], Date.now());
    return joinTexts([joinTexts(["died", when]), errorTextOf(payload) && preview], " · ");
  }
  const took = ENDS.has(event.type) ? durationOf(payload) : null;
  return joinTexts([preview, took === null ? "" : durationText(took)]);
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

/** @param {RunEvent} event */
export function errorOf(event) {
  return errorTextOf(payloadOf(event));
}

/** @param {(string | null | undefined)[]} texts @param {string} [separator] */
function joinTexts(texts, separator = " ") {
  return texts.filter(Boolean).join(separator);
}
