/** What the page shows of a run: one attempt, when it ended, and what only the server can see. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { eventText, isFailure } from "../../src/longwatch/server/page/viewer/app/event-text.js";
import { Pace } from "../../src/longwatch/server/page/viewer/app/pace.js";
import { RunModel } from "../../src/longwatch/server/page/viewer/app/run-model.js";
import {
  betweenText,
  endText,
  isOpen,
  lengthText,
  ranText,
} from "../../src/longwatch/server/page/viewer/app/run-times.js";

const NOW_MS = 100_000;
const CASES = JSON.parse(
  readFileSync(new URL("../fixtures/endings.json", import.meta.url), "utf8"),
);

const eventsOf = (name) => CASES.find((each) => each.name === name).events;

/** @param {string} name @param {(event: any) => boolean} [wanted] */
function modelOf(name, wanted = () => true) {
  const model = new RunModel("wf-1", () => NOW_MS);
  model.add(eventsOf(name).filter(wanted));
  model.markCaughtUp();
  return model;
}

const types = (model) => model.events.map(({ type }) => type);

test("the last attempt is shown, and another when it is chosen", () => {
  const model = modelOf("a run id that was started again");

  assert.deepEqual(
    [model.attempt, model.summary.status, model.summary.duration_ms],
    [2, "succeeded", 10_000],
  );
  assert.deepEqual(types(model), ["workflow_start", "tool_call", "tool_call", "workflow_complete"]);
  model.choose(1);
  assert.deepEqual(
    [model.attempt, model.summary.status, model.summary.ended_between],
    [1, "died", [1100, 9000]],
  );
  assert.deepEqual(types(model), ["workflow_start", "tool_call", "workflow_error"]);
  assert.deepEqual(
    model.calls().map(({ call_id, status }) => [call_id, status]),
    [["c1", "abandoned"]],
  );
  assert.equal(model.summary.attempts.length, 2);
  model.choose(7);
  assert.equal(model.attempt, 2);
});

test("events of the first attempt leave the view when a second one begins", () => {
  const events = eventsOf("a run id that was started again");
  const model = new RunModel("wf-1", () => NOW_MS);
  const changes = [];
  model.watch(({ reordered }) => changes.push(reordered));

  model.add(events.slice(0, 3));
  model.add(events.slice(3, 4));
  model.add(events.slice(4, 5));

  assert.deepEqual(types(model), ["workflow_start", "tool_call"]);
  assert.deepEqual(
    [...model.types],
    [
      ["workflow_start", 1],
      ["tool_call", 1],
    ],
  );
  assert.deepEqual(changes, [false, true, false]);
  assert.equal(model.open, true);
});

test("one producer of two attempts misses nothing, and an attempt is silent by its own events", () => {
  const event = (type, at, number, payload = {}) => ({
    run_id: "wf-1",
    event_id: `${number}`,
    type,
    occurred_at: at,
    producer: "p",
    number,
    payload,
  });
  const model = new RunModel("wf-1", () => NOW_MS);
  model.add([
    event("workflow_start", 1000, 1, { attempt: "aaaaaaaa" }),
    event("workflow_start", 5000, 2, { attempt: "bbbbbbbb" }),
  ]);
  model.add([
    { ...event("workflow_start", 900, 1, { attempt: "aaaaaaaa" }), event_id: "q1", producer: "q" },
    { ...event("note", 99_000, 2), event_id: "q2", producer: "q" },
  ]);
  model.markCaughtUp();

  assert.deepEqual(
    model.conditions(NOW_MS).map(({ message }) => message),
    ["no event for 95 s; the run is still open"],
  );
  assert.equal(model.summary.events, 1);
});

test("any order of arrival divides events in the same way", () => {
  for (const { name, events } of CASES) {
    const model = new RunModel("wf-1", () => NOW_MS);
    for (const event of events.toReversed()) model.add([event]);

    assert.deepEqual(model.events, modelOf(name).events, name);
    assert.deepEqual(model.summary, modelOf(name).summary, name);
    assert.deepEqual(model.calls(), modelOf(name).calls(), name);
  }
});

test("an attempt without an ending is unknown once another has begun", () => {
  const model = modelOf("a run id that was started again while its first attempt was open");

  model.choose(1);

  assert.deepEqual(
    model.calls().map(({ call_id, status }) => [call_id, status]),
    [
      ["c1", "abandoned"],
      ["c2", "abandoned"],
    ],
  );
  assert.deepEqual([model.summary.status, model.open], ["unknown", false]);
  assert.equal(endText(model.summary, NOW_MS), `ended ${betweenText([31_000, null], NOW_MS)}`);
});

test("a run died once the server has observed it, until its events state otherwise", () => {
  const isDeath = ({ payload }) => payload.status === "died";
  const model = modelOf("a process killed with SIGKILL", (event) => !isDeath(event));
  const observed = modelOf("a process killed with SIGKILL").summary;
  assert.deepEqual([model.summary.status, model.calls()[0].status], ["running", "started"]);

  model.setSummary({ ...observed, events: 3 });

  assert.deepEqual([model.summary.status, model.summary.ended_between], ["died", [1207, 25_000]]);
  assert.deepEqual([model.open, model.lastAt, model.calls()[0].status], [false, 1207, "abandoned"]);
  model.add([{ run_id: "wf-1", event_id: "late", type: "note", occurred_at: 30_000, payload: {} }]);
  assert.deepEqual([model.summary.status, model.calls()[0].status], ["running", "started"]);
});

test("conditions that the server observes are shown while the run is open", () => {
  const unattended = { name: "unattended", message: "process 101 is gone" };
  const open = modelOf("several processes, one of them not known to be gone");
  const ended = modelOf("an outcome that was reported after all");

  for (const model of [open, ended])
    model.setSummary({
      ...model.summary,
      conditions: [unattended, { name: "silent", message: "old" }],
    });

  assert.deepEqual(open.conditions(2000), [unattended]);
  assert.deepEqual(ended.conditions(2000), []);
});

test("the bars of a run that died stop where it was last known to live", () => {
  assert.equal(modelOf("a process killed with SIGKILL").lastAt, 1207);
  assert.equal(modelOf("an outcome that was reported after all").lastAt, 8000);
});

/** A local time, since the page shows local times. */
const at = (hour, minute, second) => new Date(2026, 10, 16, hour, minute, second).getTime();

test("an interval reads as a phrase", () => {
  const now = at(15, 0, 0);
  const day = 86_400_000;

  assert.equal(betweenText([at(14, 17, 6), at(14, 17, 30)], now), "between 14:17:06 and 14:17:30");
  assert.equal(betweenText([at(14, 17, 6), null], now), "after 14:17:06");
  assert.equal(betweenText([at(14, 17, 6), at(14, 17, 6) + 900], now), "at 14:17:06");
  assert.equal(
    betweenText([at(14, 17, 6), at(14, 17, 30)], now + day),
    "between 16 Nov, 14:17:06 and 14:17:30",
  );
  assert.equal(
    betweenText([at(14, 17, 6), at(14, 17, 30) + day], now + 2 * day),
    "between 16 Nov, 14:17:06 and 17 Nov, 14:17:30",
  );
  assert.equal(ranText([207, 24_000]), "ran between 207 ms and 24.0 s");
  assert.equal(ranText([500, null]), "ran at least 500 ms");
  assert.equal(ranText([500, 500]), "ran 500 ms");
});

test("a length is of the last attempt, and counts only while the run is open", () => {
  const open = modelOf("a death that a later join voids").summary;
  const died = modelOf("a process killed with SIGKILL").summary;
  const again = modelOf("a run id that was started again").summary;

  assert.deepEqual([isOpen(open), isOpen(died), isOpen(again)], [true, false, false]);
  assert.deepEqual([lengthText(open, 21_000), lengthText(open, 31_000)], ["20 s", "30 s"]);
  assert.deepEqual(
    [lengthText(died, 21_000), lengthText(died, 31_000)],
    ["207 ms–24.0 s", "207 ms–24.0 s"],
  );
  assert.equal(lengthText(again, 99_000), "10.0 s");
});

/** @param {number} number @param {string} status */
const toolEvent = (number, status) => ({
  run_id: "wf-1",
  event_id: `${number}-${status}`,
  type: "tool_call",
  occurred_at: number,
  payload: { status, operation: "fetch" },
  call_id: `c${number}`,
});

/** A running run of so many calls, whose calls take ten milliseconds to determine. @param {number} calls */
function runOf(calls) {
  const clock = { now: 0 };
  const pace = new Pace(() => (clock.now += 5));
  const model = new RunModel("wf-1", () => calls, pace);
  const start = { run_id: "wf-1", event_id: "0", type: "workflow_start", occurred_at: 0 };
  const events = Array.from({ length: calls }, (_, number) => toolEvent(number, "completed"));
  model.add([{ ...start, payload: {} }, ...events]);
  model.markCaughtUp();
  assert.equal(model.calls().length, calls);
  return { model, clock };
}

test("the calls of a large live run are determined again at a pace", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { model, clock } = runOf(3000);
  const known = model.calls();
  let changes = 0;
  model.watch(() => (changes += 1));

  model.add([toolEvent(3001, "started")]);
  assert.equal(model.calls(), known);
  assert.equal(model.toolCalls.length, 3000);

  const { version } = model;
  clock.now += 1000;
  context.mock.timers.tick(1000);
  assert.deepEqual([changes, model.version], [2, version + 1]);
  assert.equal(model.calls().length, 3001);
  assert.equal(model.toolCalls.length, 3001);
});

test("a call that the page names, the end of a run and a small run do not wait", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { model } = runOf(3000);
  const { model: small } = runOf(20);

  model.add([toolEvent(3001, "started")]);
  small.add([toolEvent(21, "started")]);
  assert.equal(model.calls().length, 3000);
  assert.equal(model.call("c3001")?.status, "started");
  assert.equal(small.calls().length, 21);
  model.add([toolEvent(3002, "started")]);
  assert.equal(model.callOf(toolEvent(3002, "started"))?.status, "started");
  const end = { run_id: "wf-1", event_id: "end", type: "workflow_complete", occurred_at: 4000 };
  model.add([{ ...end, payload: { status: "completed" } }]);
  assert.deepEqual([model.call("c3001")?.status, model.calls().length], ["abandoned", 3002]);
});

test("work is due when eight times as long has passed as it took", () => {
  let now = 100;
  const pace = new Pace(() => now);
  const due = [pace.isDue];

  pace.run(() => (now += 10));
  for (now of [110, 189, 190]) due.push(pace.isDue);

  assert.deepEqual(due, [true, false, false, true]);
});

/** @param {string} id @param {number} at @param {Record<string, unknown>} [payload] */
const notified = (id, at, payload = {}) => ({
  run_id: "wf-1",
  event_id: id,
  type: "notified",
  occurred_at: at,
  producer: "notifier",
  sequence: 0,
  payload: {
    rule: "failures",
    channel: "web_push",
    trigger: "failed",
    delivered: true,
    response: "2 of 2 browsers",
    attempts: 1,
    ...payload,
  },
});

test("the last notification is known, whatever order they arrive in", () => {
  const model = new RunModel("wf-1", () => NOW_MS);
  assert.equal(model.notices, null);

  model.add([notified("n-2", 2000)]);
  model.add([notified("n-1", 1000)]);

  assert.deepEqual([model.notices.last.event_id, model.notices.count], ["n-2", 2]);
});

test("a notification is one line, and a failure only if it was given up", () => {
  const cases = [
    [{}, "failed · sent by failures through web_push: 2 of 2 browsers", false],
    [
      { count: 3 },
      "failed with 2 other notices · sent by failures through web_push: 2 of 2 browsers",
      false,
    ],
    [
      { trigger: "silent", is_resolved: true, response: null },
      "silent resolved · sent by failures through web_push",
      false,
    ],
    [
      { delivered: false, attempts: 12, response: "HTTP 500" },
      "failed · given up after 12 attempts by failures through web_push: HTTP 500",
      true,
    ],
  ];
  for (const [payload, text, failed] of cases) {
    const event = notified("n-1", 1000, payload);
    assert.equal(eventText(event), text);
    assert.equal(isFailure(event), failed);
  }
});
