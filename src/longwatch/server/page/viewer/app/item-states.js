/**
 * How an item, a step or a job stands: the word for people, and which of the drawn statuses it looks like.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** @import { Terms } from "./execution-text.js" */

/** In the order in which they are drawn: what is done comes first. */
export const STATES = [
  "launched",
  "terminated",
  "failed",
  "cancelled",
  "ended",
  "in_progress",
  "unknown",
  "pending",
];

const LOOKS = /** @type {Record<string, string>} */ ({
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
export const statusOfState = (state) => LOOKS[state] ?? "unknown";

/** @param {string} state @param {Terms} terms */
export const stateText = (state, terms) =>
  state === "launched" ? terms.done : state.replace(/_/g, " ");

/**
 * A state as a shape and a word. The source's own word stands on hover.
 * @param {string} state
 * @param {Terms} terms
 * @param {string | null} [word]
 */
export function stateMark(state, terms, word = null) {
  const look = statusOfState(state);
  return h(
    "span",
    { class: `status is-${look}`, title: word ? `status in the source: ${word}` : null },
    icon(look),
    h("span", {}, stateText(state, terms)),
  );
}

/**
 * Whether no response has mentioned a job or an item yet: its state is only the one it was stored with.
 * @param {{state: string, since: number | null, word?: string | null}} of
 */
export const isUnreported = ({ state, since, word }) =>
  state === "pending" && since === null && !word;

/**
 * `3 launched, 1 failed` or `3 done, 1 failed`.
 * @param {Record<string, number>} states
 * @param {Terms} terms
 */
export function statesText(states, terms) {
  return (
    STATES.flatMap((state) =>
      states[state] ? [`${states[state]} ${stateText(state, terms)}`] : [],
    ).join(", ") || `no ${terms.item} yet`
  );
}
