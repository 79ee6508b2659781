/**
 * Calls that were tried again: a sibling with the same kind, name and arguments begins after the last one has failed. As in
 * Python.
 */

/** @import { CallTree } from "./call-tree.js" */
/** @import { Call } from "./types.js" */

/**
 * @typedef {object} Retry
 * @property {number} number 2 for the second try
 * @property {number} before index of the try before
 * @property {number} first index of the first try
 */

/** @param {CallTree} tree @returns {Map<number, Retry>} index of each second and later try → which one it is */
export function retriesOf({ calls, parents, starts, ends }) {
  /** @type {Map<number, Retry>} */
  const retries = new Map();
  /** @type {Map<string, number>} */
  const last = new Map();
  calls.forEach((call, at) => {
    const key = `${parents[at]} ${subjectOf(call)}`;
    const before = last.get(key);
    last.set(key, at);
    if (before === undefined || calls[before]?.status !== "failed") return;
    if ((ends[before] ?? Infinity) > (starts[at] ?? 0)) return;
    const { number, first } = retries.get(before) ?? { number: 1, first: before };
    retries.set(at, { number: number + 1, before, first });
  });
  return retries;
}

/** Equal for a call and its retries. @param {Call} call */
export function subjectOf({ kind, name, input_preview: given }) {
  return `${kind} ${name} ${given ?? ""}`;
}
