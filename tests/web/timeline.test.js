/** The decisions of the timeline: rows, repeats, critical path, retries, quiet times and overview. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { barParts } from "../../src/longwatch/server/page/viewer/app/bar-parts.js";
import {
  failingPath,
  failuresOf,
  jumpFrom,
  longestOf,
} from "../../src/longwatch/server/page/viewer/app/call-jumps.js";
import { callTree } from "../../src/longwatch/server/page/viewer/app/call-tree.js";
import { criticalPath } from "../../src/longwatch/server/page/viewer/app/critical-path.js";
import { OpenRows } from "../../src/longwatch/server/page/viewer/app/open-rows.js";
import { binCalls } from "../../src/longwatch/server/page/viewer/app/overview-bins.js";
import { quietInView, quietTimes } from "../../src/longwatch/server/page/viewer/app/quiet-times.js";
import { repeatsOf } from "../../src/longwatch/server/page/viewer/app/repeats.js";
import { retriesOf } from "../../src/longwatch/server/page/viewer/app/retries.js";
import { TimelineFacts } from "../../src/longwatch/server/page/viewer/app/timeline-facts.js";
import { repeatedStatus } from "../../src/longwatch/server/page/viewer/app/timeline-row.js";
import {
  TimelineLayout,
  positionOf,
} from "../../src/longwatch/server/page/viewer/app/timeline-layout.js";

/**
 * @param {string} id @param {number} from @param {number | null} to
 * @param {Partial<import("../../src/longwatch/server/page/viewer/core/calls.js").CallView>} [more]
 */
const call = (id, from, to, more = {}) => ({
  call_id: id,
  kind: "tool",
  name: id,
  agent_name: null,
  parent_call_id: null,
  status: to === null ? "started" : "completed",
  started_at: from,
  ended_at: to,
  duration_ms: to === null ? null : to - from,
  error: null,
  input_preview: `page ${id.slice(1)}`,
  output_preview: null,
  ...more,
});
const agent = (/** @type {string} */ id, from = 0, to = 100, more = {}) =>
  call(id, from, to, { kind: "agent", ...more });
const inside = (/** @type {string} */ parent, more = {}) => ({ parent_call_id: parent, ...more });
const failed = { status: "failed", error: "Timeout: no answer" };
const abandoned = { status: "abandoned" };
const NO_FILTER = { agent: "", errors: false, text: "" };
const RUN = { from: 0, to: 100 };

/** @param {ReturnType<typeof call>[]} calls @param {object} [choices] */
const layoutOf = (calls, choices = {}) =>
  new TimelineLayout(new TimelineFacts(calls, RUN, RUN.to), {
    filter: NO_FILTER,
    folds: true,
    open: new OpenRows(),
    ...choices,
  });
/** @param {TimelineLayout} layout @param {{from: number, to: number}} [view] */
const idsOf = (layout, view = RUN) =>
  [...layout.inView(view)].map((index) => layout.rows[index]?.id.replace(/^repeats .*/, "repeats"));
const names = (/** @type {Iterable<number>} */ indexes, /** @type {any} */ tree) =>
  [...indexes].map((at) => tree.calls[at].call_id).sort();

const searches = (count = 5, more = {}) =>
  Array.from({ length: count }, (_, at) =>
    call(`s${at}`, at * 10, at * 10 + 5 + at, inside("a", { name: "search", ...more })),
  );

test("zooming shows the rows of the visible time and what they are in", () => {
  const layout = layoutOf([
    agent("a", 0, 40),
    call("a1", 0, 10, inside("a")),
    call("a2", 30, 40, inside("a")),
    agent("b", 50, 90),
    call("b1", 50, 60, inside("b")),
    call("b2", 80, 95, inside("b")),
  ]);

  assert.deepEqual(idsOf(layout), ["a", "a1", "a2", "b", "b1", "b2"]);
  assert.deepEqual(idsOf(layout, { from: 55, to: 58 }), ["b", "b1"]);
  assert.deepEqual(idsOf(layout, { from: 92, to: 94 }), ["b", "b2"], "b had ended, b2 had not");
  assert.deepEqual(idsOf(layout, { from: 96, to: 99 }), []);
});

test("a folded row stands for the calls that the filter keeps", () => {
  const steps = Array.from({ length: 5 }, (_, at) =>
    call(`s${at}`, at * 10, at * 10 + 9, { name: "step" }),
  );
  const inner = call("x", 21, 25, inside("s2", { agent_name: "reader" }));

  const layout = layoutOf([...steps.slice(0, 3), inner, ...steps.slice(3)], {
    filter: { ...NO_FILTER, agent: "reader" },
  });

  assert.deepEqual(idsOf(layout), ["s2", "x"]);
});

test("a row states in how many calls below it failures began", () => {
  const layout = layoutOf([
    ...[0, 1, 2, 3].map((at) => agent(`g${at}`, at, 90, { name: "reader" })),
    call("a", 10, 20, inside("g1", failed)),
    call("b", 12, 14, inside("a", failed)),
    call("c", 30, 40, inside("g3", failed)),
    agent("z", 50, 60),
  ]);

  const found = layout.rows.map(({ call: { call_id }, failedBelow }) => [call_id, failedBelow]);

  assert.deepEqual(found, [
    ["g0", 2],
    ["z", 0],
  ]);
});

test("a closed row is in view while something below it is", () => {
  const open = new OpenRows();
  open.show(1);
  const layout = layoutOf([agent("a", 0, 10), call("a1", 0, 90, inside("a"))], { open });

  assert.deepEqual(idsOf(layout, { from: 80, to: 85 }), ["a"]);
});

test("four siblings of the same kind, name and agent are one row with count, failures and median", () => {
  const calls = [agent("a"), ...searches(), call("other", 1, 2, inside("a"))];
  calls[2] = { ...calls[2], ...failed };
  const { tree, repeats } = new TimelineFacts(calls, RUN, 100);

  const group = repeats.get(tree.indexes.get("s0") ?? -1);

  assert.deepEqual(names(group?.members ?? [], tree), ["s0", "s1", "s2", "s3", "s4"]);
  assert.equal(group?.failed, 1);
  assert.equal(group?.medianMs, 7);
  assert.equal(repeats.has(tree.indexes.get("other") ?? -1), false);
});

test("a group states how many of its calls were abandoned", () => {
  const calls = [agent("a"), ...searches()];
  calls[2] = { ...calls[2], ...failed };
  calls[3] = { ...calls[3], status: "abandoned", ended_at: null, duration_ms: null };
  const { tree, repeats } = new TimelineFacts(calls, RUN, 100);

  const group = repeats.get(tree.indexes.get("s0") ?? -1);

  assert.deepEqual([group?.failed, group?.abandoned], [1, 1]);
  assert.equal(repeatedStatus(/** @type {any} */ (group)), "abandoned");
});

for (const [about, calls] of /** @type {[string, ReturnType<typeof call>[]][]} */ ([
  ["three are shown one by one", searches(3)],
  [
    "other agents are others",
    [...searches(3), call("x", 31, 32, inside("a", { name: "search", agent_name: "b" }))],
  ],
  [
    "other kinds are others",
    [...searches(3), call("x", 31, 32, inside("a", { name: "search", kind: "model" }))],
  ],
  ["another caller has its own", [...searches(3), call("x", 31, 32, { name: "search" })]],
  [
    "one that still runs is a row of its own",
    [...searches(3), call("x", 31, null, inside("a", { name: "search" }))],
  ],
])) {
  test(`repeats: ${about}`, () => {
    assert.equal(repeatsOf(callTree([agent("a"), ...calls])).size, 0);
  });
}

test("the call that failed the run, and what it is in, is in no group", () => {
  const calls = [
    ...Array.from({ length: 5 }, (_, at) => agent(`a${at}`, at, 50, { name: "reader" })),
    call("f", 10, 20, inside("a2", { name: "fetch", ...failed })),
    ...searches(4).map((each) => ({ ...each, parent_call_id: "a2", started_at: 30 })),
  ].sort((one, other) => one.started_at - other.started_at);
  const failure = { error: "Timeout", error_class: "Timeout", call: "fetch", call_kind: "tool" };
  const facts = new TimelineFacts(calls, RUN, 100, { ...failure, agent_name: null, group: "" });

  const inGroups = names(facts.repeats.keys(), facts.tree);

  assert.deepEqual(inGroups, ["a0", "a1", "a3", "a4", "s0", "s1", "s2", "s3"]);
});

test("an opened group shows its members below it, once", () => {
  const calls = [agent("a"), ...searches(4), call("z", 99, 100, inside("a"))];
  const open = new OpenRows();
  assert.deepEqual(idsOf(layoutOf(calls, { open })), ["a", "repeats", "z"]);

  open.toggle(/** @type {any} */ (layoutOf(calls, { open }).rows[1]));

  const layout = layoutOf(calls, { open });
  assert.deepEqual(idsOf(layout), ["a", "repeats", "s0", "s1", "s2", "s3", "z"]);
  assert.deepEqual(
    layout.rows.map(({ depth }) => depth),
    [0, 1, 2, 2, 2, 2, 1],
  );
  assert.deepEqual(idsOf(layout, { from: 18, to: 19 }), ["a"], "between two members");
});

test("a search and errors only show the matches, unfolded, with what they are in", () => {
  const calls = [agent("a"), ...searches(6), agent("b")];
  calls[3] = { ...calls[3], ...failed };

  for (const [filter, expected] of /** @type {[object, string[]][]} */ ([
    [{ errors: true }, ["a", "s2"]],
    [{ text: "TIMEOUT search" }, ["a", "s2"]],
    [{ text: "nothing" }, []],
    [{ agent: "b" }, ["b"]],
    [{ text: "page 3" }, ["a", "s3"]],
  ])) {
    const layout = layoutOf(calls, { filter: { ...NO_FILTER, ...filter } });
    assert.deepEqual(idsOf(layout), expected, JSON.stringify(filter));
  }
});

test("levels close what is deeper, an agent closes its spans, and a choice by hand counts more", () => {
  const calls = [
    agent("a"),
    call("a1", 0, 1, inside("a")),
    call("a2", 0, 1, inside("a1")),
    agent("b"),
    call("b1", 0, 1, inside("b")),
  ].sort((one, other) => one.started_at - other.started_at);
  const open = new OpenRows();
  const ids = () => idsOf(layoutOf(calls, { open }));

  open.show(1);
  assert.deepEqual(ids(), ["a", "b"]);
  open.show(2);
  assert.deepEqual(ids(), ["a", "a1", "b", "b1"]);
  open.open("a1");
  assert.deepEqual(ids(), ["a", "a1", "a2", "b", "b1"]);
  open.show(Infinity);
  open.toggleAgent("a");
  assert.deepEqual(ids(), ["a", "b", "b1"]);
});

test("the row of the newest call is known, also in a group", () => {
  const calls = [agent("a"), ...searches(4), agent("b", 5, 6)].sort(
    (one, other) => one.started_at - other.started_at,
  );

  const layout = layoutOf(calls);

  assert.equal(layout.newest, 1);
  assert.match(layout.rows[1]?.id ?? "", /^repeats/);
});

for (const [
  about,
  calls,
  expected,
] of /** @type {[string, ReturnType<typeof call>[], string[]][]} */ ([
  ["nothing", [], []],
  ["calls one after the other", [call("a", 0, 10), call("b", 10, 30)], ["a", "b"]],
  ["of parallel calls the one that ended last", [call("a", 0, 10), call("b", 0, 30)], ["b"]],
  [
    "then the one that ended last before it began",
    [call("a", 0, 10), call("b", 0, 15), call("c", 20, 30)],
    ["b", "c"],
  ],
  [
    "the same inside each of them",
    [
      agent("a", 0, 50),
      call("a1", 0, 20, inside("a")),
      call("a2", 5, 45, inside("a")),
      call("z", 0, 9),
    ],
    ["a", "a2"],
  ],
  [
    "a child that outlives its parent delays nothing",
    [agent("a", 0, 50), call("a1", 10, 90, inside("a")), call("b", 60, 100)],
    ["a", "b"],
  ],
  ["a call without an end counts until now", [call("a", 0, 80), call("b", 10, null)], ["b"]],
  ["a call without a duration decides nothing", [call("a", 0, 10), call("b", 10, 10)], ["a"]],
  [
    "an abandoned call delays nothing if others ended after it began",
    [call("lost", 0, null, abandoned), call("a", 0, 10), call("b", 10, 30)],
    ["a", "b"],
  ],
  [
    "an abandoned call was the last one",
    [call("a", 0, 10), call("lost", 10, null, abandoned)],
    ["a", "lost"],
  ],
])) {
  test(`critical path: ${about}`, () => {
    const tree = callTree(calls);

    assert.deepEqual(names(criticalPath(tree, 100).keys(), tree), expected);
  });
}

test("a call is a retry if the same sibling had failed before it began", () => {
  const publish = (/** @type {string} */ id, /** @type {number} */ at, more = {}) =>
    call(id, at, at + 5, inside("a", { name: "publish", input_preview: "desk", ...more }));
  const tree = callTree([
    agent("a"),
    publish("p1", 0, failed),
    publish("p2", 10, failed),
    publish("p3", 20),
    publish("p4", 30),
    call("other", 40, 41, { name: "publish" }),
  ]);

  const found = [...retriesOf(tree)].map(([at, { number, before, first }]) => [
    ...[at, before, first].map((each) => tree.calls[each]?.call_id),
    number,
  ]);

  assert.deepEqual(found, [
    ["p2", "p1", "p1", 2],
    ["p3", "p2", "p1", 3],
  ]);
});

test("a call that began before the other failed is no retry", () => {
  const tree = callTree([
    call("p1", 0, 20, { name: "publish", ...failed }),
    call("p2", 10, 30, { name: "publish" }),
  ]);

  assert.equal(retriesOf(tree).size, 0);
});

test("the failing path includes the calls whose failures were passed on", () => {
  const tree = callTree([
    agent("a", 0, 90, failed),
    call("a1", 5, 10, inside("a", failed)),
    agent("b", 20, 80, inside("a", failed)),
    call("b1", 30, 40, inside("b", failed)),
    call("b2", 40, 50, inside("b")),
    call("b3", 60, 70, inside("b", failed)),
  ]);
  const failure = { error: "lost", error_class: null, call: "a", call_kind: "agent" };

  const path = failingPath(tree, { ...failure, agent_name: null, group: "" });

  assert.deepEqual(names(path, tree), ["a", "b", "b3"]);
});

test("failures are those in which none began, and jumps go round", () => {
  const tree = callTree([
    agent("a", 0, 50, failed),
    call("a1", 0, 1, inside("a")),
    call("a2", 2, 3, inside("a", failed)),
    call("b", 60, 70, failed),
  ]);

  const failures = failuresOf(tree);

  assert.deepEqual(names(failures, tree), ["a2", "b"]);
  assert.equal(jumpFrom(failures, -1, 1), failures[0]);
  assert.equal(jumpFrom(failures, failures[0] ?? 0, 1), failures[1]);
  assert.equal(jumpFrom(failures, failures[1] ?? 0, 1), failures[0]);
  assert.equal(jumpFrom(failures, failures[0] ?? 0, -1), failures[1]);
  assert.equal(jumpFrom([], 3, 1), undefined);
});

test("the longest call is one that called nothing, and no wait", () => {
  const tree = callTree([
    agent("a", 0, 90),
    call("a1", 0, 30, inside("a")),
    call("w", 30, 90, inside("a", { kind: "wait" })),
    call("open", 60, null),
  ]);

  assert.equal(tree.calls[longestOf(tree, 80) ?? -1]?.call_id, "a1");
  assert.equal(tree.calls[longestOf(tree, 100) ?? -1]?.call_id, "open");
});

test("a run is quiet while it waits, and idle while nothing runs", () => {
  const tree = callTree([
    agent("a", 0, 100),
    call("a1", 0, 20, inside("a")),
    call("w", 15, 50, inside("a", { kind: "wait" })),
    call("a2", 60, 70, inside("a")),
    call("a3", 65, 90, inside("a")),
  ]);

  const quiet = quietTimes(tree, RUN);

  assert.deepEqual(quiet, [
    { from: 20, to: 50, kind: "waiting" },
    { from: 50, to: 60, kind: "idle" },
    { from: 90, to: 100, kind: "idle" },
  ]);
  assert.deepEqual(
    quietInView(quiet, { from: 0, to: 1000 }).map(({ from }) => from),
    [20],
  );
});

test("a tool is not idle between the calls in it", () => {
  const tree = callTree([
    call("a", 0, 100),
    call("a1", 10, 20, inside("a")),
    call("a2", 60, 70, inside("a")),
  ]);

  assert.deepEqual(quietTimes(tree, RUN), []);
});

test("an abandoned call lasts until its caller ended", () => {
  const tree = callTree([
    agent("a", 0, 40),
    call("lost", 10, null, inside("a", abandoned)),
    call("below", 20, null, inside("lost", abandoned)),
    call("late", 50, null, inside("a", abandoned)),
  ]);

  assert.deepEqual([...tree.ends], [40, 40, 40, Infinity]);
  assert.deepEqual(idsOf(layoutOf([...tree.calls]), { from: 45, to: 48 }), []);
});

test("an abandoned call hides no idle time after it unless it was the last one", () => {
  const calls = [call("lost", 0, null, abandoned), call("a", 0, 20), call("b", 60, 80)];
  const last = call("last", 85, null, abandoned);

  assert.deepEqual(quietTimes(callTree(calls), RUN), [
    { from: 20, to: 60, kind: "idle" },
    { from: 80, to: 100, kind: "idle" },
  ]);
  assert.deepEqual(quietTimes(callTree([...calls, last]), RUN), [
    { from: 20, to: 60, kind: "idle" },
    { from: 80, to: 85, kind: "idle" },
  ]);
});

test("a live run without a call is idle until now", () => {
  const tree = callTree([agent("a", 0, 100, { ended_at: null }), call("a1", 0, 20, inside("a"))]);

  assert.deepEqual(quietTimes(tree, { from: 0, to: Infinity }), [
    { from: 20, to: Infinity, kind: "idle" },
  ]);
});

test("the overview has one block for calls that touch, and a mark for each failure", () => {
  const tree = callTree([
    call("a", 0, 20),
    call("b", 20, 40),
    call("c", 60, 80, failed),
    call("d", 70, 80, failed),
    call("m", 90, 95, { kind: "model" }),
  ]);

  const { blocks, failures } = binCalls(tree, RUN, 100, { columns: 100, lanes: 2 });

  assert.deepEqual(blocks, [
    { lane: 0, look: "completed", from: 0, to: 41 },
    { lane: 0, look: "failed", from: 60, to: 81 },
    { lane: 0, look: "model", from: 90, to: 96 },
  ]);
  assert.deepEqual(failures, [{ column: 80, count: 2 }]);
});

test("the bar of repeats has a part for each run of calls, and shows failures between others", () => {
  const tree = callTree([call("a", 0, 10), call("b", 20, 30, failed), call("c", 30, 50)]);

  assert.deepEqual(barParts(tree, [0, 1, 2], RUN, 100), [
    { from: 0, to: 0.1, hasFailed: false },
    { from: 0.2, to: 0.3, hasFailed: true },
    { from: 0.3, to: 0.5, hasFailed: false },
  ]);
  assert.deepEqual(barParts(tree, [0, 1, 2], { from: 60, to: 90 }, 100), []);
});

test("a bar of a hundred thousand repeats has at most as many parts as it has columns", () => {
  const calls = Array.from({ length: 100_000 }, (_, at) =>
    call(`c${at}`, at, at + 50, at % 2 ? failed : {}),
  );
  const tree = callTree(calls);
  const members = calls.map((_, at) => at);

  assert.ok(barParts(tree, members, { from: 0, to: 100_000 }, 0).length <= 400);
});

test("a row is found among those in view, or the next one", () => {
  const shown = Int32Array.of(2, 5, 9);

  assert.deepEqual(
    [2, 3, 9, 10].map((row) => positionOf(shown, row)),
    [0, 1, 2, 3],
  );
});
