/** Calls worth a jump: where failures began, and the longest call. */

import { childrenOf, endAt, isLeaf } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Failure } from "./types.js" */

/** The failed calls in which no other call failed, in the order of the tree. @param {CallTree} tree @returns {number[]} */
export function failuresOf({ calls, parents }) {
  const passedOn = new Uint8Array(calls.length);
  calls.forEach(({ status }, at) => {
    const parent = parents[at] ?? -1;
    if (status === "failed" && parent >= 0) passedOn[parent] = 1;
  });
  return calls.flatMap(({ status }, at) => (status === "failed" && !passedOn[at] ? [at] : []));
}

/**
 * The number of these calls before each index of the tree: that below a call is the one before `afters` of it, less the one
 * before its first child.
 * @param {readonly number[]} failures in order @param {number} size of the tree
 */
export function failureCounts(failures, size) {
  const counts = new Int32Array(size + 1);
  for (const at of failures) counts[at + 1] = 1;
  for (let at = 1; at <= size; at += 1) counts[at] = (counts[at] ?? 0) + (counts[at - 1] ?? 0);
  return counts;
}

/**
 * The call whose failure is that of the run, of several the last one, the calls above it, and those in it whose failures
 * it passed on.
 * @param {CallTree} tree @param {Failure | null} failure
 */
export function failingPath(tree, failure) {
  const { calls, parents } = tree;
  /** @type {Set<number>} */
  const path = new Set();
  if (!failure?.call) return path;
  const { call: name, call_kind: kind, agent_name: agent } = failure;
  let at = calls.findLastIndex(
    (call) =>
      call.status === "failed" &&
      call.name === name &&
      call.kind === kind &&
      call.agent_name === agent,
  );
  for (let cause = at; cause >= 0; cause = causeOf(tree, cause)) path.add(cause);
  for (; at >= 0; at = parents[at] ?? -1) path.add(at);
  return path;
}

/**
 * The call in this one that failed last, if no other began after it: then its failure has not been handled.
 * @param {CallTree} tree @param {number} caller @returns {number} -1 without one
 */
function causeOf(tree, caller) {
  const { calls, starts } = tree;
  const below = childrenOf(tree, caller);
  const ended = (/** @type {number} */ at) => endAt(tree, at, Infinity);
  let cause = -1;
  for (const at of below)
    if (calls[at]?.status === "failed" && (cause < 0 || ended(at) >= ended(cause))) cause = at;
  const isHandled = below.some((at) => at !== cause && (starts[at] ?? 0) >= ended(cause));
  return isHandled ? -1 : cause;
}

/**
 * The next or the previous one of these indexes, from `current`; after the last follows the first.
 * @param {number[]} indexes in order @param {number} current -1: none @param {1 | -1} step
 * @returns {number | undefined}
 */
export function jumpFrom(indexes, current, step) {
  if (step > 0) return indexes.find((each) => each > current) ?? indexes[0];
  return indexes.findLast((each) => each < current) ?? indexes.at(-1);
}

/**
 * The call that took longest, among those that called nothing. Waits do not count.
 * @param {CallTree} tree @param {number} openEnd @returns {number | undefined}
 */
export function longestOf(tree, openEnd) {
  let longest;
  let most = -1;
  tree.calls.forEach(({ kind, duration_ms: took }, at) => {
    if (kind === "wait" || !isLeaf(tree, at)) return;
    const ms = took ?? endAt(tree, at, openEnd) - (tree.starts[at] ?? 0);
    if (ms <= most) return;
    [longest, most] = [at, ms];
  });
  return longest;
}
