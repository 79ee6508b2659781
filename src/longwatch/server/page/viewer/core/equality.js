/** Whether two values say the same, however deep, and a new value that shares what is the same with the old one. */

/**
 * @param {unknown} one
 * @param {unknown} other
 * @returns {boolean}
 */
export function isSame(one, other) {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
  if (Array.isArray(one)) return Array.isArray(other) && one.length === other.length && sameEntries(one, other);
  if (one instanceof Date) return one.getTime() === /** @type {Date} */ (other).getTime();
  if (Object.getPrototypeOf(one) !== Object.prototype) return false; // a class of its own: only itself
  return Object.keys(one).length === Object.keys(other).length && sameEntries(one, other);
}

/**
 * @param {Record<string, any>} one
 * @param {Record<string, any>} other
 */
function sameEntries(one, other) {
  return Object.keys(one).every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]));
}

/**
 * The new JSON value with every part that equals the old one's replaced by that part, so that `===` finds what changed.
 *
 * @template T
 * @param {unknown} before
 * @param {T} after
 * @returns {T}
 */
export function sharing(before, after) {
  if (Object.is(before, after)) return after;
  if (Array.isArray(before) && Array.isArray(after)) {
    const shared = after.map((value, at) => sharing(before[at], value));
    const isEqual = before.length === after.length && shared.every((value, at) => value === before[at]);
    return /** @type {T} */ (isEqual ? before : shared);
  }
  if (!isPlain(before) || !isPlain(after)) return after;
  const entries = Object.entries(after).map(([key, value]) => [key, sharing(before[key], value)]);
  const isEqual =
    entries.length === Object.keys(before).length &&
    entries.every(([key, value]) => Object.hasOwn(before, key) && value === before[key]);
  return isEqual ? /** @type {T} */ (before) : Object.fromEntries(entries);
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
function isPlain(value) {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
