/**
 * The critical path: the calls that determine the duration of a run, each for the time that it contributes itself. The same
 * rules as in Python.
 */

import { ABANDONED } from "../core/calls.js";
import { childrenOf, endAt } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */

/**
 * Backwards from the end: the run waits for the call that ended last; that one waits for the call in it that ended last;
 * before that began, it waits for the last one that had ended by then, and so on. A call that outlasted its caller, or ended
 * beside a later one, delays nothing; neither does an abandoned call if another one ended after it began.
 * @param {CallTree} tree
 * @param {number} until the time until which calls without an end last
 * @returns {Map<number, number>} index → milliseconds
 */
export function criticalPath(tree, until) {
  /** @type {Map<number, number>} */
  const own = new Map();
  const roots = latestFirst(tree, -1, until);
  const last = roots[0] === undefined ? until : Math.max(until, endAt(tree, roots[0], until));
  const todo = [{ caller: -1, begin: 0, end: last }];
  for (let range = todo.pop(); range; range = todo.pop()) {
    const { caller, begin } = range;
    let at = range.end;
    let waited = 0; // for the caller itself
    for (const index of latestFirst(tree, caller, until)) {
      if (at <= begin) break;
      const started = Math.max(tree.starts[index] ?? 0, begin);
      const ended = endAt(tree, index, until);
      if (ended > at || ended <= started) continue;
      waited += at - ended;
      at = started;
      todo.push({ caller: index, begin: started, end: ended });
    }
    if (caller >= 0) own.set(caller, waited + at - begin);
  }
  return own;
}

/**
 * The calls of a caller, the one that ended last first; of those that ended together, the longest.
 * @param {CallTree} tree @param {number} caller @param {number} until
 */
function latestFirst(tree, caller, until) {
  const { calls, starts } = tree;
  const below = childrenOf(tree, caller);
  const isAbandoned = (/** @type {number} */ at) => calls[at]?.status === ABANDONED;
  const recorded = below.reduce(
    (last, at) => (isAbandoned(at) ? last : Math.max(last, endAt(tree, at, until))),
    0,
  );
  const mayDelay = below.filter((at) => !isAbandoned(at) || (starts[at] ?? 0) >= recorded);
  return mayDelay.sort(
    (one, other) =>
      endAt(tree, other, until) - endAt(tree, one, until) ||
      (starts[one] ?? 0) - (starts[other] ?? 0) ||
      one - other,
  );
}
