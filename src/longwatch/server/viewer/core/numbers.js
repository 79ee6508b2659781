/** Which of a producer's numbers were seen: sorted ranges that neither touch nor overlap. */

/** @typedef {[low: number, high: number]} Range */

export class Numbers {
  /** @type {Range[]} */
  #ranges = [];

  /** @param {number} number */
  add(number) {
    const ranges = this.#ranges;
    const last = ranges.at(-1);
    if (last && number === last[1] + 1) last[1] = number; // the next in a row: the cheap and common case
    else if (!last || number > last[1]) ranges.push([number, number]);
    else this.#insert(number);
  }

  get size() {
    return this.#ranges.reduce((sum, [low, high]) => sum + high - low + 1, 0);
  }

  /**
   * The ranges that are missing between 1 and the highest number seen, or `upTo` if that is higher.
   *
   * @param {number | null} upTo
   * @returns {Range[]}
   */
  gaps(upTo) {
    /** @type {Range[]} */
    const gaps = [];
    let expected = 1;
    for (const [low, high] of this.#ranges) {
      if (low > expected) gaps.push([expected, low - 1]);
      expected = high + 1;
    }
    if (upTo !== null && upTo >= expected) gaps.push([expected, upTo]);
    return gaps;
  }

  /** @param {number} number */
  #insert(number) {
    /** @type {Range[]} */
    const joined = [];
    for (const [low, high] of [...this.#ranges, /** @type {Range} */ ([number, number])].sort((a, b) => a[0] - b[0])) {
      const current = joined.at(-1);
      if (current && low <= current[1] + 1) current[1] = Math.max(current[1], high);
      else joined.push([low, high]);
    }
    this.#ranges = joined;
  }
}
