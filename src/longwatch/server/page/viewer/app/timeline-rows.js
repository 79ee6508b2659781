/** The rows of a timeline: which calls are shown, and at which depth. */

import { childrenOf } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Repeats } from "./repeats.js" */
/** @import { Call } from "./types.js" */

/**
 * @typedef {object} Row
 * @property {string} id of the call, or the key of the repeats
 * @property {Call} call of repeats the first one
 * @property {number} at index of the call in the tree
 * @property {number} depth
 * @property {boolean} hasMore whether the row can be opened
 * @property {boolean} isOpen
 * @property {Repeats | null} repeats if the row stands for all of them
 * @property {number} failedBelow number of calls below it in which failures began
 *
 * @typedef {object} Shown What the user wants to see.
 * @property {Map<number, Repeats>} repeats empty: none are folded
 * @property {Int32Array} failureCounts number of calls in which failures began before each index
 * @property {Uint8Array | null} kept 1 for each call to show; null: all of them
 * @property {(row: Row) => boolean} isOpen
 */

/** @param {CallTree} tree @param {Shown} shown @returns {Row[]} */
export function timelineRows(tree, shown) {
  const { isOpen } = shown;
  /** @type {Row[]} */
  const rows = [];
  // A stack of its own rather than recursion: a chain of calls can be deeper than the engine's stack.
  const stack = siblingRows(tree, childrenOf(tree, -1), 0, shown).reverse();
  for (let row = stack.pop(); row; row = stack.pop()) {
    row.isOpen = row.hasMore && isOpen(row);
    rows.push(row);
    if (!row.isOpen) continue;
    const below = row.repeats
      ? siblingRows(tree, row.repeats.members, row.depth + 1, { ...shown, repeats: NONE })
      : siblingRows(tree, childrenOf(tree, row.at), row.depth + 1, shown);
    for (let at = below.length - 1; at >= 0; at -= 1) stack.push(/** @type {Row} */ (below[at]));
  }
  return rows;
}

/** @type {Map<number, Repeats>} */
const NONE = new Map();

/**
 * @param {CallTree} tree @param {Iterable<number>} siblings @param {number} depth @param {Shown} shown
 */
function siblingRows(tree, siblings, depth, { repeats, kept, failureCounts }) {
  const failedBelow = (/** @type {number} */ at) =>
    (failureCounts[tree.afters[at] ?? 0] ?? 0) - (failureCounts[at + 1] ?? 0);
  /** @type {Row[]} */
  const rows = [];
  for (const at of siblings) {
    if (kept && !kept[at]) continue;
    const group = repeats.get(at) ?? null;
    if (group && group.members[0] !== at) continue; // the row of the first stands for all
    const call = /** @type {Call} */ (tree.calls[at]);
    rows.push({
      id: group?.key ?? call.call_id,
      call,
      at,
      depth,
      hasMore: group !== null || (tree.afters[at] ?? 0) > at + 1,
      isOpen: false,
      repeats: group,
      failedBelow: (group?.members ?? [at]).reduce((sum, each) => sum + failedBelow(each), 0),
    });
  }
  return rows;
}

/**
 * The calls that match, with all calls around them.
 * @param {CallTree} tree @param {(call: Call) => boolean} matches
 */
export function keptCalls({ calls, parents }, matches) {
  const kept = new Uint8Array(calls.length);
  calls.forEach((call, index) => {
    if (!matches(call)) return;
    for (let at = index; at >= 0 && !kept[at]; at = parents[at] ?? -1) kept[at] = 1;
  });
  return kept;
}
