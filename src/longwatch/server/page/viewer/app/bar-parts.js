/** The parts of a bar that stands for repeated calls, by column of the chart: at most as many as there are columns. */

import { endAt } from "./call-tree.js";
import { share } from "./time-scale.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @typedef {{from: number, to: number, hasFailed: boolean}} BarPart shares of the width */

const COLUMNS = 400;

/**
 * @param {CallTree} tree @param {number[]} members in the order they began @param {Stretch} view
 * @param {number} openEnd @returns {BarPart[]}
 */
export function barParts(tree, members, view, openEnd) {
  const all = new Int32Array(COLUMNS + 1); // changes of the number of calls, by column
  const failed = new Int32Array(COLUMNS + 1);
  for (const at of members) {
    const start = tree.starts[at] ?? 0;
    if (start > view.to) break;
    const end = endAt(tree, at, openEnd);
    if (end < view.from) continue;
    const from = Math.max(0, Math.min(COLUMNS - 1, Math.floor(share(view, start) * COLUMNS)));
    const to = Math.max(from, Math.min(COLUMNS - 1, Math.ceil(share(view, end) * COLUMNS) - 1));
    for (const counts of tree.calls[at]?.status === "failed" ? [all, failed] : [all]) {
      counts[from] = (counts[from] ?? 0) + 1;
      counts[to + 1] = (counts[to + 1] ?? 0) - 1;
    }
  }
  /** @type {BarPart[]} */
  const parts = [];
  let [running, failing] = [0, 0];
  /** @type {BarPart | null} */
  let part = null;
  for (let column = 0; column <= COLUMNS; column += 1) {
    running += all[column] ?? 0;
    failing += failed[column] ?? 0;
    const hasFailed = failing > 0;
    if (part && (!running || part.hasFailed !== hasFailed)) {
      part.to = column / COLUMNS;
      part = null;
    }
    if (running && !part) parts.push((part = { from: column / COLUMNS, to: 1, hasFailed }));
  }
  return parts;
}
