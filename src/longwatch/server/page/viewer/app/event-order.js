/** The order of events. */

import { compareOrders, orderOf } from "../core/order.js";

/** @import { RunEvent } from "./types.js" */

/**
 * Events in their order, with new ones among them; the usual new ones are appended to the same list.
 * @param {RunEvent[]} events
 * @param {RunEvent[]} fresh
 * @returns {[RunEvent[], boolean]} the events, and whether those that were there have moved
 */
export function placed(events, fresh) {
  const sorted = fresh.every((event, at) => at === 0 || inOrder(/** @type {RunEvent} */ (fresh[at - 1]), event) <= 0) ? fresh : [...fresh].sort(inOrder);
  const [last, first] = [events[events.length - 1], sorted[0]];
  if (last && first && inOrder(last, first) > 0) return [merged(events, sorted), true];
  for (const event of sorted) events.push(event);
  return [events, false];
}

/**
 * @param {RunEvent} one
 * @param {RunEvent} other
 */
function inOrder(one, other) {
  return compareOrders(orderOf(one), orderOf(other));
}

/**
 * @param {RunEvent[]} one
 * @param {RunEvent[]} other
 */
function merged(one, other) {
  /** @type {RunEvent[]} */
  const both = [];
  let at = 0;
  for (const item of other) {
    while (at < one.length && inOrder(/** @type {RunEvent} */ (one[at]), item) <= 0) {
      both.push(/** @type {RunEvent} */ (one[at]));
      at += 1;
    }
    both.push(item);
  }
  for (; at < one.length; at += 1) both.push(/** @type {RunEvent} */ (one[at]));
  return both;
}
