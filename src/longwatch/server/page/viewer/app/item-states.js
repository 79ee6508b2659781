/** The states of items, steps and jobs: their text, and the status whose shape and colour they have. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** @import { Terms } from "./execution-text.js" */

/** In drawing order: done items first. */
export const STATES = [
  ...["launched", "terminated", "failed", "cancelled", "ended"],
  ...["in_progress", "unknown", "pending"],
];

const STATUSES = /** @type {Record<string, string>} */ ({
  pending: "pending",
  in_progress: "running",
  started: "running",
  launched: "succeeded",
  succeeded: "succeeded",
  failed: "failed",
  terminated: "cancelled",
  cancelled: "cancelled",
});

/** @param {string} state */
export const statusOfState = (state) => STATUSES[state] ?? "unknown";

/** @param {string} state @param {Terms} terms */
export const stateText = (state, terms) =>
  state === "launched" ? terms.done : state.replace(/_/g, " ");

/**
 * A state as a shape and text. The source's own status is the tooltip.
 * @param {string} state @param {Terms} terms @param {string | null} [sourceStatus]
 */
export function stateMark(state, terms, sourceStatus = null) {
  const status = statusOfState(state);
  const title = sourceStatus ? `status in the source: ${sourceStatus}` : null;
  return h(
    "span",
    { class: `status is-${status}`, title },
    icon(status),
    h("span", {}, stateText(state, terms)),
  );
}

/**
 * Whether no response has reported a job or an item yet: its state is the initial one.
 * @param {{state: string, since: number | null, word?: string | null}} of
 */
export const isUnreported = ({ state, since, word }) =>
  state === "pending" && since === null && !word;

/**
 * `3 launched, 1 failed` or `3 done, 1 failed`.
 * @param {Record<string, number>} states @param {Terms} terms
 */
export function statesText(states, terms) {
  return (
    STATES.flatMap((state) =>
      states[state] ? [`${states[state]} ${stateText(state, terms)}`] : [],
    ).join(", ") || `no ${terms.item} yet`
  );
}
