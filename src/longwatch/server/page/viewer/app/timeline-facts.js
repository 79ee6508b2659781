/** What a timeline shows of one version of a run. Each fact is computed once, when it is first needed. */

import { failingPath, failureCounts, failuresOf } from "./call-jumps.js";
import { callTree } from "./call-tree.js";
import { criticalPath } from "./critical-path.js";
import { quietTimes } from "./quiet-times.js";
import { repeatsOf } from "./repeats.js";
import { retriesOf } from "./retries.js";

/** @import { Call, Failure } from "./types.js" */
/** @import { Stretch } from "./time-scale.js" */

export class TimelineFacts {
  #repeats = once(() => repeatsOf(this.tree, failingPath(this.tree, this.failure)));
  #retries = once(() => retriesOf(this.tree));
  #failures = once(() => failuresOf(this.tree));
  #failureCounts = once(() => failureCounts(this.failures, this.tree.calls.length));
  #quiet = once(() => quietTimes(this.tree, this.run));
  #path = once(() => criticalPath(this.tree, Math.min(this.run.to, this.madeAt)));
  #agents = once(() => agentsOf(this.tree.calls));
  #levels = once(() => this.tree.depths.reduce((most, depth) => Math.max(most, depth + 1), 0));

  /**
   * @param {Call[]} calls in the order they began
   * @param {Stretch} run until Infinity while it is open
   * @param {number} madeAt
   * @param {Failure | null} [failure] why the run failed
   */
  constructor(calls, run, madeAt, failure = null) {
    this.tree = callTree(calls);
    this.run = run;
    this.madeAt = madeAt;
    this.failure = failure;
  }

  get repeats() {
    return this.#repeats();
  }

  get retries() {
    return this.#retries();
  }

  get failures() {
    return this.#failures();
  }

  get failureCounts() {
    return this.#failureCounts();
  }

  get quiet() {
    return this.#quiet();
  }

  get criticalPath() {
    return this.#path();
  }

  /** Names of the agents that have spans. */
  get agents() {
    return this.#agents();
  }

  /** Number of levels of the tree. */
  get levels() {
    return this.#levels();
  }
}

/** @param {Call[]} calls */
function agentsOf(calls) {
  const names = calls.flatMap(({ kind, name }) => (kind === "agent" ? [name] : []));
  return [...new Set(names)].sort();
}

/** @template T @param {() => T} compute @returns {() => T} */
function once(compute) {
  /** @type {{value: T} | undefined} */
  let found;
  return () => (found ??= { value: compute() }).value;
}
