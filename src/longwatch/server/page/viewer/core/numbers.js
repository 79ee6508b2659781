/** Arithmetic as in Python. */

/** Round as Python does: 0.5 and 2.5 down, 1.5 up. @param {number} value */
export function roundHalfEven(value) {
  const low = Math.floor(value);
  const rest = value - low;
  if (rest !== 0.5) return Math.round(value);
  return low % 2 === 0 ? low : low + 1;
}
