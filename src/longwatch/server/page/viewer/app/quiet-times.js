/**
 * The times in which no call ran: the run waited, or it was idle. An agent is idle between two of its calls; a tool that calls
 * others is not.
 */

import { ABANDONED } from "../core/calls.js";
import { endAt, isLeaf } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { Call } from "./types.js" */
/** @typedef {Stretch & {kind: "idle" | "waiting"}} Quiet */

const CALLERS = new Set(["agent", "node"]); // kinds that may be idle between two of their calls
const LEAST_SHARE = 0.02; // of the visible time: shorter ones are not worth a mark

/**
 * @param {CallTree} tree @param {Stretch} run
 * @returns {Quiet[]} in order; they do not overlap
 */
export function quietTimes(tree, run) {
  /** @type {Quiet[]} */
  const quiet = [];
  const waits = joined(tree, run.to, ({ kind }) => kind === "wait");
  let next = 0;
  let busyUntil = run.from;
  const busy = joined(
    tree,
    run.to,
    ({ kind }, at) => kind !== "wait" && (!CALLERS.has(kind) || isLeaf(tree, at)),
  );
  for (const { from, to } of [...busy, { from: run.to, to: run.to }]) {
    let at = busyUntil;
    while (at < from) {
      while (next < waits.length && (waits[next]?.to ?? 0) <= at) next += 1;
      const wait = waits[next];
      const isWaiting = wait !== undefined && wait.from <= at;
      const until = Math.min(from, (isWaiting ? wait.to : wait?.from) ?? from);
      quiet.push({ from: at, to: until, kind: isWaiting ? "waiting" : "idle" });
      at = until;
    }
    busyUntil = Math.max(busyUntil, to);
  }
  return quiet;
}

/** Those that are wide enough in this stretch to be seen. @param {Quiet[]} quiet @param {Stretch} view */
export function quietInView(quiet, view) {
  const least = (view.to - view.from) * LEAST_SHARE;
  return quiet.filter(
    ({ from, to }) => Math.min(to, view.to) - Math.max(from, view.from) >= Math.max(1, least),
  );
}

/**
 * The times in which these calls ran, as stretches that do not overlap. The end of an abandoned call is unknown: if another
 * call ended after it began, it counts only as long as its caller is known to have run.
 * @param {CallTree} tree @param {number} openEnd @param {(call: Call, at: number) => boolean} counts
 */
function joined(tree, openEnd, counts) {
  const recorded = tree.ends.reduce(
    (last, end) => (end === Infinity ? last : Math.max(last, end)),
    0,
  );
  /** @type {Stretch[]} */
  const found = [];
  for (const at of tree.byStart) {
    const call = /** @type {Call} */ (tree.calls[at]);
    if (!counts(call, at)) continue;
    const [from, to] = [tree.starts[at] ?? 0, endAt(tree, at, openEnd)];
    if (call.status === ABANDONED && tree.ends[at] === Infinity && from < recorded) continue;
    const last = found.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}
