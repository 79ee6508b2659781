/** Whether two values say the same, however deep. */

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
