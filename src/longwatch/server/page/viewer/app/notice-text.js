/** What the event `notified` reports: which rule sent a message about the run, and what became of it. */

import { isTruthy, numberOf, payloadOf, textOf } from "../core/payloads.js";
import { countText } from "./format.js";

/** @import { RunEvent } from "./types.js" */

export const NOTIFIED = "notified";

/** Whether a message was given up. @param {RunEvent} event */
export function isGivenUp(event) {
  return event.type === NOTIFIED && payloadOf(event)["delivered"] === false;
}

/** `failed · sent by failures through web_push: 2 of 2 browsers` @param {RunEvent} event */
export function noticeText(event) {
  const payload = payloadOf(event);
  const trigger = textOf(payload, "trigger") ?? "";
  const count = numberOf(payload, "count") ?? 1;
  const attempts = numberOf(payload, "attempts") ?? 1;
  const response = textOf(payload, "response");
  const happened = isTruthy(payload["is_resolved"]) ? `${trigger} resolved` : trigger;
  const fate = isGivenUp(event) ? `given up after ${countText(attempts, "attempt")}` : "sent";
  return [
    happened,
    count > 1 ? ` with ${countText(count - 1, "other notice", "other notices")}` : "",
    ` · ${fate} by ${textOf(payload, "rule") ?? "a rule"}`,
    ` through ${textOf(payload, "channel") ?? "a channel"}`,
    response ? `: ${response}` : "",
  ].join("");
}
