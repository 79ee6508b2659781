/** The order of a run's events: by time, then producer, then number, then event id. */

/**
 * An event as the server writes it.
 *
 * @typedef {object} WireEvent
 * @property {string} run_id
 * @property {string} event_id
 * @property {string} type
 * @property {number} occurred_at Epoch milliseconds.
 * @property {string | null} [agent_name]
 * @property {string | null} [call_id]
 * @property {string | null} [parent_call_id]
 * @property {string | null} [producer]
 * @property {number | null} [number]
 * @property {string | null} [previous_digest]
 * @property {string | null} [trace_id]
 * @property {number | null} [ttl]
 * @property {Record<string, any>} [payload]
 *
 * @typedef {readonly [at: number, producer: string, number: number, eventId: string]} Order
 */

/** @param {WireEvent} event @returns {Order} */
export function orderOf(event) {
  return [event.occurred_at, event.producer || "", event.number || 0, event.event_id];
}

/** @param {Order} one @param {Order} other @returns {number} below 0 if `one` comes first */
export function compareOrders(one, other) {
  return (
    one[0] - other[0] ||
    compareText(one[1], other[1]) ||
    one[2] - other[2] ||
    compareText(one[3], other[3])
  );
}

/** @param {WireEvent} one @param {WireEvent} other */
export function compareEvents(one, other) {
  return compareOrders(orderOf(one), orderOf(other));
}

/**
 * Compare by code points, as Python and the journals do. `<` compares UTF-16 units and puts an emoji before U+FF5E.
 * @param {string} one @param {string} other
 */
export function compareText(one, other) {
  if (one === other) return 0;
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const unit = one.charCodeAt(at);
    const otherUnit = other.charCodeAt(at);
    if (unit === otherUnit) continue;
    if (isSurrogate(unit) !== isSurrogate(otherUnit)) return isSurrogate(unit) ? 1 : -1;
    return unit - otherUnit;
  }
  return one.length - other.length;
}

/** @param {number} unit */
function isSurrogate(unit) {
  return unit >= 0xd800 && unit <= 0xdfff;
}
