/** The order of events. */

import { compareEvents } from "../core/order.js";

/** @import { RunEvent } from "./types.js" */

/**
 * Events in their order, with new ones among them; the usual new ones are appended to the same list.
 * @param {RunEvent[]} events
 * @param {RunEvent[]} fresh
 * @returns {[RunEvent[], boolean]} the events, and whether those that were there have moved
 */
export function insertEvents(events, fresh) {
  const sorted = [...fresh].sort(compareEvents);
  const [last, first] = [events.at(-1), sorted[0]];
  if (last && first && compareEvents(last, first) > 0) return [merged(events, sorted), true];
  for (const event of sorted) events.push(event);
  return [events, false];
}

/** @param {RunEvent[]} one @param {RunEvent[]} other */
function merged(one, other) {
  /** @type {RunEvent[]} */
  const both = [];
  let at = 0;
  for (const item of other) {
    while (at < one.length && compareEvents(/** @type {RunEvent} */ (one[at]), item) <= 0) {
      both.push(/** @type {RunEvent} */ (one[at]));
      at += 1;
    }
    both.push(item);
  }
  for (; at < one.length; at += 1) both.push(/** @type {RunEvent} */ (one[at]));
  return both;
}
