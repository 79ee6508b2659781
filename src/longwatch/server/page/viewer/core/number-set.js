/** The numbers of the events or lines seen: sorted ranges that neither touch nor overlap. */

/** @typedef {[low: number, high: number]} Range */

export class NumberSet {
  /** @type {Range[]} */
  #ranges = [];

  /** @param {number} low @param {number} [high] for a whole range */
  add(low, high = low) {
    const ranges = this.#ranges;
    const last = ranges.at(-1);
    if (last && low === last[1] + 1)
      last[1] = high; // the next number: the common case
    else if (!last || low > last[1]) ranges.push([low, high]);
    else if (low < last[0] || high > last[1]) this.#insert([low, high]);
  }

  get size() {
    return this.#ranges.reduce((sum, [low, high]) => sum + high - low + 1, 0);
  }

  /**
   * The ranges missing between 1 and the highest number seen, or `upTo` if that is higher.
   * @param {number | null} upTo @returns {Range[]}
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

  /** @param {Range} range */
  #insert(range) {
    /** @type {Range[]} */
    const joined = [];
    for (const [low, high] of [...this.#ranges, range].sort((a, b) => a[0] - b[0])) {
      const current = joined.at(-1);
      if (current && low <= current[1] + 1) current[1] = Math.max(current[1], high);
      else joined.push([low, high]);
    }
    this.#ranges = joined;
  }
}
