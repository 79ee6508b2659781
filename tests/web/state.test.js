import assert from "node:assert/strict";
import { test } from "node:test";

import { shareUnchanged } from "../../src/longwatch/server/page/viewer/core/response-cache.js";
import { NumberSet } from "../../src/longwatch/server/page/viewer/core/number-set.js";
import { compareText } from "../../src/longwatch/server/page/viewer/core/order.js";
import { RunFold } from "../../src/longwatch/server/page/viewer/core/run-fold.js";
import { TurnState } from "../../src/longwatch/server/page/viewer/core/turn-state.js";
import { isSame } from "../../web/react/src/polling/shared-poll.js";
import { readTurn } from "../../web/react/src/polling/turns.js";

const event = (id, type, values = {}) => ({
  run_id: "r",
  event_id: id,
  type,
  occurred_at: 1_000,
  payload: {},
  ...values,
});
const turnMessage = (id, number, last_updated, values = {}) => ({
  event: "turn",
  data: { topic: "session:p/s", turn: { id, number, status: "running", last_updated, ...values } },
});
const blockMessage = (turn_id, id, sequence) => ({
  event: "block",
  data: { topic: "t", turn_id, block: { id, sequence } },
});

test("a new response shares what equals the previous one", () => {
  const before = { a: [{ b: 1 }, { b: 2 }], c: { d: null } };

  const after = shareUnchanged(before, { a: [{ b: 1 }, { b: 3 }, { b: 4 }], c: { d: null } });

  assert.deepEqual(after, { a: [{ b: 1 }, { b: 3 }, { b: 4 }], c: { d: null } });
  assert.equal(after.a[0], before.a[0]);
  assert.equal(after.c, before.c);
  assert.equal(shareUnchanged(before, structuredClone(before)), before);
  assert.deepEqual(shareUnchanged({ a: 1, b: undefined }, { a: 1, c: undefined }), {
    a: 1,
    c: undefined,
  });
  assert.deepEqual(shareUnchanged([1, 2], [1]), [1]);
  assert.deepEqual(shareUnchanged([1], { 0: 1 }), { 0: 1 });
});

test("one block of a response is one object, however often its turn is read", () => {
  const wire = {
    id: "t",
    created_at: "2025-01-06T10:00:00Z",
    last_updated: "2025-01-06T10:00:00Z",
    blocks: [{ id: "b", created_at: "2025-01-06T10:00:00Z" }],
  };

  assert.equal(readTurn(wire).blocks[0], readTurn({ ...wire }).blocks[0]);
});

test("no events fold to nothing", () => {
  assert.equal(new RunFold("r").summary(0), null);
});

test("a run grows as its events come, and a tool call is paired by its call id", () => {
  const run = new RunFold("r").add([
    event("1", "workflow_start"),
    event("2", "tool_call", { call_id: "c" }),
  ]);
  assert.deepEqual(
    run.calls().map((call) => call.view().status),
    ["started"],
  );

  run.add([
    event("3", "tool_call", { call_id: "c", occurred_at: 1_500, payload: { status: "success" } }),
  ]);
  run.add([event("4", "workflow_complete", { occurred_at: 2_000 })]);

  assert.equal(run.status, "succeeded");
  assert.equal(run.calls()[0]?.durationMs, 500);
  assert.equal(run.summary(9_000)?.duration_ms, 1_000);
});

test("a producer's own ending beats one that was written for it", () => {
  const written = event("2", "workflow_error", { occurred_at: 900, payload: { written_for: "p" } });

  assert.equal(
    new RunFold("r").add([written, event("3", "workflow_complete")]).status,
    "succeeded",
  );
});

test("a hundred thousand events fold to their calls", () => {
  const events = Array.from({ length: 100_000 }, (_, at) =>
    event(`e${at}`, "tool_call", {
      occurred_at: at,
      call_id: `c${at >> 1}`,
      producer: "p",
      number: at + 1,
    }),
  );

  const run = new RunFold("r").add(events);

  assert.equal(run.calls().length, 50_000);
});

test("numbers in any order are stored as ranges, and gaps are named", () => {
  const numbers = new NumberSet();
  for (const number of [5, 1, 2, 9, 6, 5, 4]) numbers.add(number);

  assert.equal(numbers.size, 6);
  assert.deepEqual(numbers.gaps(11), [
    [3, 3],
    [7, 8],
    [10, 11],
  ]);
});

test("text is compared by code points", () => {
  assert.ok(compareText("\u{1F600}", "\uFF5E") > 0);
  assert.ok(compareText("a", "ab") < 0);
});

test("values are the same however deep, and a class of its own is only itself", () => {
  assert.ok(isSame({ a: [1, { b: NaN }] }, { a: [1, { b: NaN }] }));
  assert.ok(!isSame({ a: undefined }, { b: undefined }));
  assert.ok(!isSame(new Map(), new Map()));
  assert.ok(isSame(new Date(5), new Date(5)));
});

test("blocks join their turns in any order, once, and may move", () => {
  const state = new TurnState();
  state.apply(blockMessage("t1", "b", 0));
  state.apply(turnMessage("t2", 2, "2"));
  state.apply(turnMessage("t1", 1, "1"));
  assert.equal(state.apply(blockMessage("t1", "b", 0)), false);

  state.apply(blockMessage("t1", "a", 0));
  state.apply(blockMessage("t1", "b", 1));

  assert.deepEqual(
    state.turns().map(({ id, blocks }) => [id, blocks.map((block) => block.id)]),
    [
      ["t1", ["a", "b"]],
      ["t2", []],
    ],
  );
});

test("what has not changed is the same object after every message", () => {
  const state = new TurnState();
  state.apply(turnMessage("t1", 1, "1"));
  state.apply(blockMessage("t1", "a", 0));
  state.apply(turnMessage("t2", 2, "2"));
  const [one, two] = state.turns();
  assert.equal(state.apply(turnMessage("t1", 1, "1")), false); // repeated

  state.apply(blockMessage("t2", "b", 0));

  assert.equal(state.turns()[0], one);
  assert.equal(state.turn("t1"), one);
  assert.notEqual(state.turns()[1], two);
  state.apply(blockMessage("t1", "c", 1));
  assert.notEqual(state.turns()[0], one);
  assert.equal(state.turns()[0].blocks[0], one.blocks[0]);
});

test("a turn that is reported again after a newer one changes nothing", () => {
  const state = new TurnState();
  state.apply(turnMessage("t", 1, "2025-01-06T10:00:02.000Z", { status: "completed" }));

  assert.equal(state.apply(turnMessage("t", 1, "2025-01-06T10:00:01.000Z")), false);
  assert.equal(state.turn("t")?.status, "completed");
});

test("streamed text grows by its deltas, and the finished block replaces it once and for all", () => {
  const state = new TurnState();
  const delta = (part, parts, text, id = "d-1") => ({
    event: "block_delta",
    data: { topic: "t", turn_id: "t-1", delta: { id, type: "content", part, parts, text } },
  });
  const finished = (id, sequence, replaces) => {
    const message = blockMessage("t-1", id, sequence);
    return { ...message, data: { ...message.data, replaces } };
  };
  state.apply(turnMessage("t-1", 1, "2025-01-06T10:00:00Z"));
  const shown = () => state.turn("t-1")?.streaming?.text;

  assert.equal(state.apply(delta(0, 1, "I ")), true);
  assert.equal(state.apply(delta(1, 2, "read ")), true);
  assert.equal(state.apply(delta(1, 2, "read ")), false); // repeated
  assert.equal(state.apply(delta(3, 4, "later ")), false); // one is missing
  assert.equal(shown(), "I read ");
  assert.equal(state.apply(delta(0, 4, "I read it later ")), true);
  assert.equal(shown(), "I read it later ");
  state.apply(blockMessage("t-1", "b-0", 0)); // of a subagent
  assert.equal(shown(), "I read it later ");
  state.apply(finished("b-1", 1, "d-1"));
  assert.equal(shown(), undefined);
  assert.equal(state.apply(delta(0, 4, "I read it later ")), false); // a reopened feed repeats it
  assert.equal(state.apply(delta(0, 1, "Then ", "d-2")), true);
  assert.deepEqual(
    state.turn("t-1")?.blocks.map(({ id }) => id),
    ["b-0", "b-1"],
  );
  assert.equal(shown(), "Then ");
});
