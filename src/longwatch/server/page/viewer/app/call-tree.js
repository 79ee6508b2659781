/** The calls of a run as a tree: depth first, siblings in the order they began. Built once per version of the run. */

import { ABANDONED } from "../core/calls.js";
import { addTo } from "../core/groups.js";

/** @import { Call } from "./types.js" */

/**
 * Entries with the same index belong to the same call. The children of `at` are at + 1 and then `afters` of each child, up
 * to `afters[at]`.
 *
 * @typedef {object} CallTree
 * @property {Call[]} calls depth first
 * @property {Int32Array} parents index of the caller; -1 for a root
 * @property {Int32Array} depths
 * @property {Int32Array} afters index after the last descendant
 * @property {Float64Array} starts epoch milliseconds
 * @property {Float64Array} ends Infinity without an end; of an abandoned call that of its caller, if that has one
 * @property {Float64Array} lasts the latest end of the call and its descendants
 * @property {Int32Array} byStart the indexes in the order the calls began
 * @property {Map<string, number>} indexes call id → index
 */

/** @param {Call[]} calls in the order they began @returns {CallTree} */
export function callTree(calls) {
  const { roots, children } = familyOf(calls);
  const size = calls.length;
  const tree = {
    calls: /** @type {Call[]} */ ([]),
    parents: new Int32Array(size),
    depths: new Int32Array(size),
    afters: new Int32Array(size),
    starts: new Float64Array(size),
    ends: new Float64Array(size),
    lasts: new Float64Array(size),
    byStart: new Int32Array(size),
    indexes: /** @type {Map<string, number>} */ (new Map()),
  };
  // A stack of its own rather than recursion: a chain of calls can be deeper than the engine's stack.
  const stack = roots.map((call) => ({ call, parent: -1 })).reverse();
  while (stack.length) {
    const { call, parent } = /** @type {{call: Call, parent: number}} */ (stack.pop());
    const at = tree.calls.push(call) - 1;
    tree.parents[at] = parent;
    tree.depths[at] = parent < 0 ? 0 : depthOf(tree, parent) + 1;
    tree.starts[at] = call.started_at;
    tree.ends[at] = tree.lasts[at] = endOf(call, tree.ends[parent] ?? Infinity);
    tree.indexes.set(call.call_id, at);
    const below = children.get(call) ?? [];
    for (let each = below.length - 1; each >= 0; each -= 1)
      stack.push({ call: /** @type {Call} */ (below[each]), parent: at });
  }
  for (let at = size - 1; at >= 0; at -= 1) {
    tree.afters[at] = Math.max(tree.afters[at] ?? 0, at + 1);
    const parent = tree.parents[at] ?? -1;
    if (parent < 0) continue;
    tree.afters[parent] = Math.max(tree.afters[parent] ?? 0, tree.afters[at] ?? 0);
    tree.lasts[parent] = Math.max(tree.lasts[parent] ?? 0, tree.lasts[at] ?? 0);
  }
  calls.forEach((call, rank) => {
    tree.byStart[rank] = tree.indexes.get(call.call_id) ?? 0;
  });
  return tree;
}

/** The indexes of the calls of a caller; -1: those of the roots. @param {CallTree} tree @param {number} caller */
export function childrenOf({ afters, calls }, caller) {
  const to = caller < 0 ? calls.length : (afters[caller] ?? 0);
  const found = [];
  for (let at = caller + 1; at < to; at = afters[at] ?? to) found.push(at);
  return found;
}

/** @param {CallTree} tree @param {number} at */
export function isLeaf({ afters }, at) {
  return afters[at] === at + 1;
}

/** The time a call ended; `openEnd` for one without an end. @param {CallTree} tree @param {number} at @param {number} openEnd */
export function endAt({ ends }, at, openEnd) {
  const end = ends[at] ?? Infinity;
  return end === Infinity ? openEnd : end;
}

/** @param {CallTree} tree @param {number} at */
function depthOf({ depths }, at) {
  return depths[at] ?? 0;
}

/** @param {Call} call @param {number} callerEnd */
function endOf({ started_at, ended_at, duration_ms, status }, callerEnd) {
  if (ended_at !== null) return ended_at;
  if (duration_ms !== null) return started_at + duration_ms;
  return status === ABANDONED && callerEnd >= started_at ? callerEnd : Infinity;
}

/**
 * The roots, and the children of each call. Only an earlier call can be a parent, so there is no cycle whatever the
 * events state.
 * @param {Call[]} calls in the order they began
 */
function familyOf(calls) {
  /** @type {Map<string, Call>} */
  const earlier = new Map();
  /** @type {Map<string, Call>} the span of each agent that began last */
  const spans = new Map();
  /** @type {Map<Call, Call[]>} */
  const children = new Map();
  /** @type {Call[]} */
  const roots = [];
  let begun = 0;
  for (const call of calls) {
    for (; begun < calls.length; begun += 1) {
      const span = /** @type {Call} */ (calls[begun]);
      if (span.started_at > call.started_at) break;
      if (span.kind === "agent") spans.set(span.name, span);
    }
    const parent = earlier.get(call.parent_call_id ?? "") ?? spanAround(call, spans);
    earlier.set(call.call_id, call);
    if (parent) addTo(children, parent, call);
    else roots.push(call);
  }
  return { roots, children };
}

/**
 * A call without a parent id belongs to the span of its agent that was open when it began.
 * @param {Call} call @param {Map<string, Call>} spans
 */
function spanAround(call, spans) {
  if (call.kind === "agent" || call.kind === "node" || !call.agent_name) return null;
  const span = spans.get(call.agent_name);
  return span && (span.ended_at === null || span.ended_at >= call.started_at) ? span : null;
}
