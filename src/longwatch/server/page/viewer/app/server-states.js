/**
 * How a server, a launch action or a job stands: the word for people, and which of the drawn statuses it looks like.
 */

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** In the order in which they are drawn: what is done comes first. */
export const STATES = ["launched", "terminated", "failed", "cancelled", "ended", "in_progress", "unknown", "pending"];

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
export const lookOf = (state) => LOOKS[state] ?? "unknown";

/** @param {string} state */
export const wordOf = (state) => state.replace(/_/g, " ");

/**
 * A state as a shape and a word. The source's own word stands on hover.
 * @param {string} state
 * @param {string | null} [word]
 */
export function stateMark(state, word = null) {
  const look = lookOf(state);
  return h("span", { class: `status is-${look}`, title: word ? `the source says ${word}` : null }, icon(look), h("span", {}, wordOf(state)));
}

/**
 * Whether no response has mentioned a job or a server yet: its state is only the one it was stored with.
 * @param {{state: string, since: number | null, word?: string | null}} of
 */
export const isUnseen = ({ state, since, word }) => state === "pending" && since === null && !word;

/**
 * `3 launched, 1 failed`.
 * @param {Record<string, number>} states
 */
export function statesText(states) {
  return STATES.flatMap((state) => (states[state] ? [`${states[state]} ${wordOf(state)}`] : [])).join(", ") || "no server yet";
}
