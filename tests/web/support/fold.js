/** A folded run as `GET /api/runs/{run_id}` returns it, to compare it with Python's fold. */

/**
 * @param {import("../../../src/longwatch/server/page/viewer/core/run-fold.js").RunFold} run
 * @param {number} now Epoch milliseconds.
 */
export function viewOf(run, now) {
  const summary = run.summary(now);
  return (
    summary && {
      ...summary,
      conditions: run.conditions(now),
      counts: Object.fromEntries([...run.counts].sort(([one], [other]) => (one < other ? -1 : 1))),
      producers: Object.fromEntries(run.producers.map(({ name, ...view }) => [name, view])),
      calls: run.calls().map((call) => call.view(run.hasEnded)),
    }
  );
}
