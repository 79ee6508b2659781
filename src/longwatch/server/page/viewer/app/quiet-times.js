/** The times in which no call ran: the run waited, or it was idle. An agent is idle between two of its calls. */

import { endAt, isLeaf } from "./call-tree.js";

/** @import { CallTree } from "./call-tree.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @typedef {Stretch & {kind: "idle" | "waiting"}} Quiet */

const LEAST_SHARE = 0.02; // of the visible time: shorter ones are not worth a mark

/**
 * @param {CallTree} tree @param {Stretch} run
 * @returns {Quiet[]} in order; they do not overlap
 */
export function quietTimes(tree, run) {
  /** @type {Quiet[]} */
  const quiet = [];
  const waits = joined(tree, run.to, (kind) => kind === "wait");
  let next = 0;
  let busyUntil = run.from;
  const busy = joined(tree, run.to, (kind) => kind !== "wait");
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
 * The times in which a call without children ran, as stretches that do not overlap.
 * @param {CallTree} tree @param {number} openEnd @param {(kind: string) => boolean} counts
 */
function joined(tree, openEnd, counts) {
  /** @type {Stretch[]} */
  const found = [];
  for (const at of tree.byStart) {
    if (!isLeaf(tree, at) || !counts(tree.calls[at]?.kind ?? "")) continue;
    const [from, to] = [tree.starts[at] ?? 0, endAt(tree, at, openEnd)];
    const last = found.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}
