/** Repeated siblings, which a tree shows as one row: calls with the same caller, kind, name and agent. As in Python. */

import { ABANDONED } from "../core/calls.js";
import { addTo } from "../core/groups.js";

/** @import { CallTree } from "./call-tree.js" */

export const LEAST_REPEATS = 4;

/**
 * @typedef {object} Repeats
 * @property {string} key the same in later versions of the run
 * @property {number[]} members indexes in the tree, in the order they began
 * @property {number} failed
 * @property {number} abandoned
 * @property {number | null} medianMs of the calls with a known duration
 */

/**
 * The groups of at least four calls. Calls that still run are rows of their own, and so are those that lead to the failure.
 * @param {CallTree} tree @param {ReadonlySet<number>} apart indexes of calls that are in no group
 * @returns {Map<number, Repeats>} index of each member → its group
 */
export function repeatsOf(tree, apart = new Set()) {
  /** @type {Map<string, number[]>} */
  const alike = new Map();
  tree.calls.forEach((call, at) => {
    if (call.status !== "started" && !apart.has(at))
      addTo(alike, JSON.stringify([tree.parents[at], call.kind, call.name, call.agent_name]), at);
  });
  /** @type {Map<number, Repeats>} */
  const groups = new Map();
  for (const members of alike.values()) {
    if (members.length < LEAST_REPEATS) continue;
    const group = groupOf(tree, members);
    for (const member of members) groups.set(member, group);
  }
  return groups;
}

/**
 * The groups of the calls that are kept; fewer than four of them are none.
 * @param {CallTree} tree @param {Map<number, Repeats>} repeats @param {Uint8Array} kept 1 for each call to keep
 */
export function keptRepeats(tree, repeats, kept) {
  /** @type {Map<number, Repeats>} */
  const groups = new Map();
  for (const group of new Set(repeats.values())) {
    const members = group.members.filter((at) => kept[at]);
    if (members.length < LEAST_REPEATS) continue;
    const left = members.length < group.members.length ? groupOf(tree, members) : group;
    for (const member of members) groups.set(member, left);
  }
  return groups;
}

/** @param {CallTree} tree @param {number[]} members @returns {Repeats} */
function groupOf({ calls, parents }, members) {
  const first = members[0] ?? 0;
  const { kind, name, agent_name: agent } = /** @type {import("./types.js").Call} */ (calls[first]);
  const parent = calls[parents[first] ?? -1]?.call_id ?? null;
  const all = members.flatMap((member) => calls[member] ?? []);
  const count = (/** @type {string} */ word) => all.filter(({ status }) => status === word).length;
  return {
    key: `repeats ${JSON.stringify([parent, kind, name, agent])}`,
    members,
    failed: count("failed"),
    abandoned: count(ABANDONED),
    medianMs: median(all.flatMap(({ duration_ms: took }) => (took === null ? [] : [took]))),
  };
}

/** The median; of an even number, the lower one of the middle two. @param {number[]} numbers */
function median(numbers) {
  return Float64Array.from(numbers).sort()[(numbers.length - 1) >> 1] ?? null;
}
