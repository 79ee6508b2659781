/** The overview of a timeline: calls counted by pixel column, so that its cost to draw does not depend on their number. */

import { endAt } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Stretch } from "./time-scale.js" */

/**
 * @typedef {{lane: number, look: string, from: number, to: number}} Block columns `from` to `to`
 * @typedef {object} Bins
 * @property {Block[]} blocks
 * @property {{column: number, count: number}[]} failures columns in which calls failed
 */

/**
 * @param {CallTree} tree @param {Stretch} whole @param {number} openEnd
 * @param {{columns: number, lanes: number}} size calls that are deeper than the lanes share the last one
 * @returns {Bins}
 */
export function binCalls(tree, whole, openEnd, { columns, lanes }) {
  /** @type {Map<string, Int32Array>} lane and look → changes of the number of calls, by column */
  const changes = new Map();
  const failed = new Int32Array(columns);
  const scale = columns / Math.max(1, whole.to - whole.from);
  const column = (/** @type {number} */ time) =>
    Math.max(0, Math.min(columns - 1, Math.floor((time - whole.from) * scale)));
  tree.calls.forEach((call, at) => {
    const from = column(tree.starts[at] ?? 0);
    const to = column(endAt(tree, at, openEnd));
    const lane = Math.min(lanes - 1, tree.depths[at] ?? 0);
    const key = `${lane} ${lookOf(call)}`;
    let counts = changes.get(key);
    if (!counts) changes.set(key, (counts = new Int32Array(columns + 1)));
    counts[from] = (counts[from] ?? 0) + 1;
    counts[to + 1] = (counts[to + 1] ?? 0) - 1;
    if (call.status === "failed") failed[to] = (failed[to] ?? 0) + 1;
  });
  return {
    blocks: [...changes].flatMap(([key, counts]) => blocksOf(key, counts)),
    failures: [...failed].flatMap((count, column) => (count ? { column, count } : [])),
  };
}

/** @param {import("./types.js").Call} call */
function lookOf({ status, kind }) {
  if (kind === "wait" || status === "abandoned") return status === "abandoned" ? status : kind;
  if (status !== "completed") return status;
  return kind === "model" ? kind : "completed";
}

/** @param {string} key @param {Int32Array} changes @returns {Block[]} */
function blocksOf(key, changes) {
  const [lane = "0", look = ""] = key.split(" ");
  /** @type {Block[]} */
  const blocks = [];
  let count = 0;
  let from = 0;
  changes.forEach((change, column) => {
    const before = count;
    count += change;
    if (!before && count) from = column;
    if (before && !count) blocks.push({ lane: Number(lane), look, from, to: column });
  });
  return blocks;
}
