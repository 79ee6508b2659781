/** The rows of one version of a run for what the user chose, and those of them that are in view. */

import { keptRepeats } from "./repeats.js";
import { callMatcher } from "./timeline-filter.js";
import { keptCalls, timelineRows } from "./timeline-rows.js";

/** @import { OpenRows } from "./open-rows.js" */
/** @import { Repeats } from "./repeats.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { TimelineFacts } from "./timeline-facts.js" */
/** @import { TimelineFilter } from "./timeline-filter.js" */
/** @import { Row } from "./timeline-rows.js" */

/** @type {Map<number, Repeats>} */
const UNFOLDED = new Map();

/**
 * @typedef {object} Choices
 * @property {TimelineFilter} filter
 * @property {boolean} folds
 * @property {OpenRows} open
 */

export class TimelineLayout {
  #tree;
  #depths;
  #froms;
  #tos;
  /** @type {Map<string, number>} */
  #rowById;

  /** @param {TimelineFacts} facts @param {Choices} choices */
  constructor(facts, { filter, folds, open }) {
    const { tree, repeats } = facts;
    const matches = callMatcher(filter);
    const kept = matches && keptCalls(tree, matches);
    const finds = filter.errors || filter.text !== "";
    this.rows = timelineRows(tree, {
      // What a search has found is neither folded away nor below a closed row.
      repeats: !folds || finds ? UNFOLDED : kept ? keptRepeats(tree, repeats, kept) : repeats,
      kept,
      failureCounts: facts.failureCounts,
      isOpen: (row) => (finds ? open.isOpenForMatches(row) : open.isOpen(row)),
    });
    /** Indexes in the tree of the failed calls that the filter shows. */
    this.failures = kept ? facts.failures.filter((at) => kept[at]) : facts.failures;
    /** Number of calls that the filter shows. */
    this.calls = kept ? kept.reduce((sum, each) => sum + each, 0) : tree.calls.length;
    /** Agent → whether its spans are closed. */
    this.agents = new Map(facts.agents.map((agent) => [agent, open.isAgentClosed(agent)]));
    this.#tree = tree;
    this.#rowById = new Map(this.rows.map(({ id }, index) => [id, index]));
    // A drag or a zoom needs these for every frame.
    this.#depths = Int32Array.from(this.rows, ({ depth }) => depth);
    this.#froms = Float64Array.from(this.rows, ({ at }) => tree.starts[at] ?? 0);
    this.#tos = Float64Array.from(this.rows, (row) =>
      (row.repeats?.members ?? [row.at]).reduce(
        (last, each) => Math.max(last, this.#endsOf(row)[each] ?? 0),
        0,
      ),
    );
    /** Index of the row of the call that began last. */
    this.newest = this.#newest();
  }

  /** @param {string} id @returns {number | undefined} */
  indexOf(id) {
    return this.#rowById.get(id);
  }

  /** Indexes of the rows in view and of the rows above that lead to them. @param {Stretch} view */
  inView(view) {
    const { from, to } = view;
    const [depths, froms, tos] = [this.#depths, this.#froms, this.#tos];
    const found = new Int32Array(depths.length);
    let free = depths.length;
    let lowest = 0; // rows that are less deep lead to the row found last
    for (let index = depths.length - 1; index >= 0; index -= 1) {
      const depth = /** @type {number} */ (depths[index]);
      if (depth >= lowest) {
        const begins = /** @type {number} */ (froms[index]);
        const ends = /** @type {number} */ (tos[index]);
        if (begins > to || ends < from || !this.#hasCallInView(index, view)) continue;
      }
      lowest = depth;
      found[(free -= 1)] = index;
    }
    return found.subarray(free);
  }

  /** Between two of its calls, a folded row is not in view. @param {number} index @param {Stretch} view */
  #hasCallInView(index, { from, to }) {
    const row = /** @type {Row} */ (this.rows[index]);
    if (!row.repeats) return true;
    const { starts } = this.#tree;
    const ends = this.#endsOf(row);
    return row.repeats.members.some(
      (each) => (starts[each] ?? 0) <= to && (ends[each] ?? 0) >= from,
    );
  }

  /** A closed row stands for the calls below it, too. @param {Row} row */
  #endsOf({ isOpen }) {
    return isOpen ? this.#tree.ends : this.#tree.lasts;
  }

  #newest() {
    let newest = -1;
    let start = -Infinity;
    this.rows.forEach(({ at, repeats }, index) => {
      const began = this.#tree.starts[repeats?.members.at(-1) ?? at] ?? 0;
      if (began >= start) [newest, start] = [index, began];
    });
    return newest;
  }
}

/**
 * The position of a row among those in view; without it, of the next one.
 * @param {Int32Array} shown indexes of rows, in order @param {number} row
 */
export function positionOf(shown, row) {
  let [low, high] = [0, shown.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((shown[middle] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}
