/** The filter of the log. The searchable text of an event is built once. */

import { isFailure } from "./event-text.js";
import { searchWords } from "./highlight.js";

/** @import { RunEvent } from "./types.js" */
/** @typedef {{agent: string, type: string, errors: boolean, text: string}} LogFilter */

/** Parts of a model's text: too many to list unless their type is chosen. */
const UNLISTED = ["node_stream", "block_delta"];

/** @type {WeakMap<RunEvent, string>} */
const texts = new WeakMap();

/** @param {LogFilter} filter @returns {(event: RunEvent) => boolean} */
export function eventMatcher({ agent, type, errors, text }) {
  const words = searchWords(text);
  return (event) => {
    if (type ? event.type !== type : UNLISTED.includes(event.type)) return false;
    if (agent && event.agent_name !== agent) return false;
    if (errors && !isFailure(event)) return false;
    return !words.length || hasAll(event, words);
  };
}

/** @param {RunEvent} event @param {string[]} words */
function hasAll(event, words) {
  let text = texts.get(event);
  if (text === undefined) {
    texts.set(event, (text = searchedText(event).toLowerCase()));
  }
  return words.every((word) => /** @type {string} */ (text).includes(word));
}

/** @param {RunEvent} event */
export function searchedText({ type, agent_name, event_id, call_id, payload }) {
  return [type, agent_name, event_id, call_id, JSON.stringify(payload ?? {})].join(" ");
}
