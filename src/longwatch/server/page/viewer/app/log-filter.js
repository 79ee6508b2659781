/**
 * Which events a filter lets through. The text of an event is put together once and kept.
 */

import { isFailure } from "./event-text.js";

/** @import { RunEvent } from "./types.js" */
/** @typedef {{agent: string, type: string, errors: boolean, text: string}} LogFilter */

/** Many events of a token stream are kept in the journal, and are no rows unless asked for by their type. */
const UNLISTED = "node_stream";

/** @type {WeakMap<RunEvent, string>} */
const texts = new WeakMap();

/** @param {LogFilter} filter @returns {(event: RunEvent) => boolean} */
export function eventMatcher({ agent, type, errors, text }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (event) => {
    if (type ? event.type !== type : event.type === UNLISTED) return false;
    if (agent && event.agent_name !== agent) return false;
    if (errors && !isFailure(event)) return false;
    return !words.length || hasAll(event, words);
  };
}

/** @param {RunEvent} event @param {string[]} words */
function hasAll(event, words) {
  let text = texts.get(event);
  if (text === undefined) {
    text =
      `${event.type} ${event.agent_name ?? ""} ${event.event_id} ${event.call_id ?? ""} ${JSON.stringify(event.payload ?? {})}`.toLowerCase();
    texts.set(event, text);
  }
  return words.every((word) => /** @type {string} */ (text).includes(word));
}
