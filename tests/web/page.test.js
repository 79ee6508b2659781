/** The parts of the page that decide and need no browser. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { callTree } from "../../src/longwatch/server/page/viewer/app/call-tree.js";
import { changedLines, treeOf } from "../../src/longwatch/server/page/viewer/app/file-tree.js";
import {
  BOX,
  graphOf,
  layOutGraph,
} from "../../src/longwatch/server/page/viewer/app/graph-layout.js";
import {
  panStretch,
  share,
  tickTimes,
  zoomStretch,
} from "../../src/longwatch/server/page/viewer/app/time-scale.js";
import {
  attemptsOf,
  valueChanges,
} from "../../src/longwatch/server/page/viewer/app/call-attempts.js";
import {
  excerpt,
  searchWords,
  wordPattern,
} from "../../src/longwatch/server/page/viewer/app/highlight.js";
import { eventText } from "../../src/longwatch/server/page/viewer/app/event-text.js";

/** @param {string} id @param {Partial<import("../../src/longwatch/server/page/viewer/core/calls.js").CallView>} [more] */
const call = (id, more = {}) => ({
  call_id: id,
  kind: "tool",
  name: id,
  agent_name: null,
  parent_call_id: null,
  status: "completed",
  started_at: 0,
  ended_at: 1,
  duration_ms: 1,
  error: null,
  ...more,
});

/** @param {[string, string][]} pairs */
const graph = (...pairs) => ({
  nodes: [...new Set(pairs.flat())].map((id) => ({ id, name: id, role: "" })),
  edges: pairs.map(([from, to]) => ({ from, to, condition: "" })),
});

/** @param {ReturnType<typeof call>[]} calls */
function rowsOf(calls) {
  const { calls: ordered, depths } = callTree(calls);
  return ordered.map(({ call_id: id }, at) => [id, depths[at]]);
}

test("children stand under what called them, in the order they began", () => {
  const rows = rowsOf([
    call("a"),
    call("b"),
    call("a1", { parent_call_id: "a" }),
    call("b1", { parent_call_id: "b" }),
  ]);

  assert.deepEqual(rows, [
    ["a", 0],
    ["a1", 1],
    ["b", 0],
    ["b1", 1],
  ]);
});

test("a tool without a parent belongs to the span of its agent that was open", () => {
  const spans = [
    call("s1", { kind: "agent", name: "x", started_at: 0, ended_at: 10 }),
    call("s2", { kind: "agent", name: "x", started_at: 20, ended_at: null }),
  ];
  const tools = [
    call("t", { agent_name: "x", started_at: 25 }),
    call("u", { agent_name: "x", started_at: 15 }),
  ];

  const rows = rowsOf([...spans, ...tools].sort((one, other) => one.started_at - other.started_at));

  assert.deepEqual(rows, [
    ["s1", 0],
    ["u", 0],
    ["s2", 0],
    ["t", 1],
  ]);
});

test("a tool belongs to a span of its agent that began in the same millisecond", () => {
  const tool = call("t", { agent_name: "x" });

  assert.deepEqual(rowsOf([call("s", { kind: "agent", name: "x" }), tool])[1], ["t", 1]);
});

test("calls that name each other as parents are all shown", () => {
  const rows = rowsOf([call("a", { parent_call_id: "b" }), call("b", { parent_call_id: "a" })]);

  assert.deepEqual(rows, [
    ["a", 0],
    ["b", 1],
  ]);
});

test("a chain of fifty thousand calls is a tree", () => {
  const calls = Array.from({ length: 50_000 }, (_, at) =>
    call(`c${at}`, { parent_call_id: at ? `c${at - 1}` : null }),
  );

  const { depths, afters } = callTree(calls);

  assert.equal(depths[49_999], 49_999);
  assert.equal(afters[0], 50_000);
});

test("a node stands to the right of all that lead to it", () => {
  const { nodes } = layOutGraph(graph(["a", "b"], ["b", "c"], ["a", "c"], ["c", "d"]));

  assert.deepEqual(
    ["a", "b", "c", "d"].map((id) => nodes.get(id)?.layer),
    [0, 1, 2, 3],
  );
});

test("no two boxes touch", () => {
  const pairs = /** @type {[string, string][]} */ (
    Array.from({ length: 40 }, (_, at) => [`n${at % 7}`, `n${(at * 5 + 3) % 23}`])
  );
  const boxes = [...layOutGraph(graph(...pairs)).nodes.values()];

  for (const one of boxes) {
    for (const other of boxes) {
      if (one === other) continue;
      assert.ok(
        Math.abs(one.x - other.x) >= BOX.width || Math.abs(one.y - other.y) >= BOX.height,
        `${one.id} ${other.id}`,
      );
    }
  }
});

test("circles, loops and edges to nowhere are laid out", () => {
  const wild = graph(["a", "b"], ["b", "c"], ["c", "a"], ["b", "b"]);
  wild.edges.push({ from: "a", to: "nobody", condition: "" });

  const { nodes, edges } = layOutGraph(wild);

  assert.equal(nodes.size, 3);
  assert.deepEqual(
    edges.map(({ from, to }) => from + to),
    ["ab", "bc", "ca"],
  );
});

test("a chain of ten thousand nodes is laid out", () => {
  const pairs = /** @type {[string, string][]} */ (
    Array.from({ length: 10_000 }, (_, at) => [`n${at}`, `n${at + 1}`])
  );

  assert.equal(layOutGraph(graph(...pairs)).nodes.get("n10000")?.layer, 10_000);
});

test("zooming keeps the moment under the pointer and never leaves the run", () => {
  const whole = { from: 0, to: 1000 };

  const closer = zoomStretch(whole, whole, 0.5, 0.25);

  assert.equal(share(closer, 250), 0.25);
  assert.deepEqual(zoomStretch(closer, whole, 100, 0.5), whole);
  assert.deepEqual(panStretch(closer, whole, -100), { from: 0, to: 500 });
  assert.deepEqual(panStretch(closer, whole, 100), { from: 500, to: 1000 });
});

test("an axis has round marks, counted from the start of the run", () => {
  assert.deepEqual(
    tickTimes({ from: 1_003, to: 1_703 }, 1_003, 7),
    [1_003, 1_103, 1_203, 1_303, 1_403, 1_503, 1_603, 1_703],
  );
});

test("files stand in their folders", () => {
  const entries = ["b.md", "docs/a.md", "docs/deep/c.md"].map(
    (path) => /** @type {any} */ ({ path }),
  );

  const tree = treeOf(entries);

  assert.deepEqual(
    tree.files.map((file) => file.name),
    ["b.md"],
  );
  assert.deepEqual(
    tree.folders[0]?.files.map((file) => file.name),
    ["a.md"],
  );
  assert.equal(tree.folders[0]?.folders[0]?.path, "docs/deep");
});

test("changed lines are those between what both texts share", () => {
  assert.deepEqual(changedLines("a\nb\nc\n", "a\nx\ny\nc\n"), { from: 1, to: 3 });
  assert.deepEqual(changedLines("a\n", "a\n"), { from: 2, to: 2 });
  assert.deepEqual(changedLines("", "a\n"), { from: 0, to: 1 });
});

test("a row names a process by its pid and host, and leaves the rest of its identity to the details", () => {
  const event = {
    run_id: "r",
    event_id: "e",
    type: "process_joined",
    occurred_at: 1,
    payload: { process: { id: "x", boot: "b", pid: 123, host: "vm" } },
  };

  assert.equal(eventText(event), "123@vm");
});

test("edges of a graph are named from and to, or source and target", () => {
  const nodes = [{ id: "a" }, { id: "b" }, { id: "c" }];

  const graph = graphOf({
    nodes,
    edges: [{ source: "a", target: "b" }, { from: "b", to: "c" }, { source: "c" }],
  });

  assert.deepEqual(
    graph?.edges.map(({ from, to }) => [from, to]),
    [
      ["a", "b"],
      ["b", "c"],
    ],
  );
});

test("a search marks its words, and shows the text around a match that is not in the row", () => {
  const pattern = /** @type {RegExp} */ (wordPattern(searchWords("gas (EU)")));
  const text = `${"x".repeat(80)} prices of Gas in the (eu)`;

  assert.deepEqual(
    text.split(pattern).filter((_, at) => at % 2),
    ["Gas", "(eu)"],
  );
  assert.equal(excerpt(text, pattern), `…${"x".repeat(19)} prices of Gas in the (eu)`);
  assert.equal(excerpt("nothing", pattern), "");
  assert.equal(wordPattern([]), null);
});

test("attempts of a call follow a failure of the same call", () => {
  const call = (call_id, started_at, status, other = {}) => ({
    ...{ call_id, kind: "tool", name: "search", parent_call_id: "a", agent_name: null },
    ...{ started_at, ended_at: started_at + 5, status },
    ...other,
  });
  const calls = [
    call("s0", 0, "completed"),
    call("s1", 10, "failed"),
    call("elsewhere", 12, "failed", { parent_call_id: "b" }),
    call("s2", 20, "failed"),
    call("s3", 30, "completed"),
    call("s4", 40, "completed"),
  ];
  const ids = (at) => attemptsOf(calls[at], calls).map(({ call_id }) => call_id);

  assert.deepEqual(
    [ids(0), ids(1), ids(4), ids(5)],
    [["s0"], ["s1", "s2", "s3"], ["s1", "s2", "s3"], ["s4"]],
  );
});

test("the values of two attempts differ by paths", () => {
  const before = { query: "gas", page: { n: 1, size: 10 }, ids: [1, 2] };
  const after = { query: "oil", page: { n: 1, size: 20 }, ids: [1], extra: null };

  assert.deepEqual(valueChanges(before, after), [
    { path: "query", before: "gas", after: "oil" },
    { path: "page.size", before: 10, after: 20 },
    { path: "ids[1]", before: 2, after: undefined },
    { path: "extra", before: undefined, after: null },
  ]);
  assert.deepEqual(valueChanges(before, structuredClone(before)), []);
  assert.deepEqual(valueChanges("a", ["a"]), [{ path: "", before: "a", after: ["a"] }]);
});
