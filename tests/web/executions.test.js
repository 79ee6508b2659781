/** What the board decides without a browser: spans of time, conditions, and words. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Spans,
  spanKey,
  stretchOf,
} from "../../src/longwatch/server/page/viewer/app/execution-spans.js";
import {
  conditionsOf,
  endingText,
  etaText,
  leaseText,
  nextPollText,
  termsOf,
} from "../../src/longwatch/server/page/viewer/app/execution-text.js";
import {
  isUnreported,
  statesText,
  statusOfState,
} from "../../src/longwatch/server/page/viewer/app/item-states.js";
import { progressText } from "../../src/longwatch/server/page/viewer/app/stage-strip.js";
import { eventText, isFailure } from "../../src/longwatch/server/page/viewer/app/event-text.js";

const DRS = termsOf("drs");
const MINUTE = 60_000;
const START = 1_794_736_800_000;

/** @param {string} id @param {number} at @param {string} to @param {Record<string, unknown>} [more] */
const moved = (id, at, to, more = {}) => ({
  run_id: "x",
  event_id: id,
  type: "server_transition",
  occurred_at: START + at,
  payload: { wave: "one", server_id: "s", to, ...more },
});

/** @param {object} [more] @returns {any} */
const line = (more = {}) => ({
  execution_id: "x",
  plan_id: "p",
  name: null,
  source: "drs",
  mode: "DRILL",
  status: "running",
  phase: "started",
  started_at: START,
  ended_at: null,
  late: false,
  warning_count: 0,
  total_waves: 1,
  stored_waves: 1,
  servers: 2,
  servers_ended: 0,
  servers_done: 0,
  servers_failed: 0,
  progress_text: "0 of 2 done",
  conditions: [],
  waiting_for: "s-1 (pending)",
  eta: null,
  silent_at: START + 30 * MINUTE,
  deadline_at: START + 30 * MINUTE,
  last_polled_at: START,
  last_answer_at: START,
  last_change_at: START,
  last_error: null,
  failures: 0,
  next_poll_at: START + 15_000,
  lease_holder: null,
  lease_until: null,
  version: 1,
  closed: false,
  message: null,
  progress: [{ name: "one", status: "running", servers: 2, states: { pending: 2 } }],
  ...more,
});

test("the states of an item follow each other, in whichever order their events come", () => {
  const spans = new Spans();
  spans.add([
    moved("c", 30, "launched"),
    moved("a", 0, "pending"),
    moved("b", 10, "in_progress"),
    moved("b", 10, "in_progress"),
  ]);

  assert.deepEqual(spans.of(spanKey("one", "s"), { state: "launched", since: START + 30 }), [
    { state: "pending", from: START, to: START + 10 },
    { state: "in_progress", from: START + 10, to: START + 30 },
    { state: "launched", from: START + 30, to: null },
  ]);
});

test("a state without an event comes from the record", () => {
  const spans = new Spans();
  spans.add([moved("a", 0, "pending")]);

  assert.deepEqual(spans.of(spanKey("one", "s"), { state: "failed", since: START + 5 }), [
    { state: "pending", from: START, to: START + 5 },
    { state: "failed", from: START + 5, to: null },
  ]);
  assert.deepEqual(spans.of(spanKey("one", "other"), { state: "pending", since: START }), [
    { state: "pending", from: START, to: null },
  ]);
  assert.deepEqual(spans.of(spanKey("one", "planned"), { state: "pending", since: null }), []);
});

test("a step has bars of its own, and unrelated events are left out", () => {
  const spans = new Spans();
  spans.add([
    { ...moved("a", 0, "in_progress", { action: "join" }), type: "action_transition" },
    { ...moved("b", 1, "x"), type: "job_transition" },
    moved("c", 2, "x", { server_id: 7 }),
  ]);

  assert.equal(
    spans.of(spanKey("one", "s", "join"), { state: "in_progress", since: START }).length,
    1,
  );
  assert.equal(spans.of(spanKey("one", "s"), { state: "pending", since: null }).length, 0);
});

test("the time in view grows in steps while an execution runs, and ends with it", () => {
  const early = stretchOf(line(), START + 61_000);
  const later = stretchOf(line(), START + 63_000);
  const ended = stretchOf(line({ ended_at: START + 50_000 }), START + 10 * MINUTE);

  assert.deepEqual(early, later);
  assert.equal(early.to - early.from, 90_000);
  assert.equal(ended.to - ended.from, 51_000);
  assert.equal(stretchOf(line(), START - 5).to - START, 10_000);
});

test("conditions that depend on time alone appear without a write", () => {
  const names = (/** @type {any} */ execution, /** @type {number} */ minutes) =>
    conditionsOf(execution, START + minutes * MINUTE).map(({ name }) => name);

  assert.deepEqual(names(line(), 1), []);
  assert.deepEqual(names(line(), 4), ["unwatched"]);
  assert.deepEqual(names(line({ next_poll_at: START + 40 * MINUTE }), 31), ["overdue", "silent"]);
  assert.deepEqual(
    names(
      line({
        next_poll_at: START + 40 * MINUTE,
        deadline_at: null,
        failures: 3,
        conditions: [
          { name: "unreachable", message: "m" },
          { name: "silent", message: "old" },
        ],
      }),
      31,
    ),
    ["unreachable"],
  );
  assert.deepEqual(names(line({ ended_at: START + 1 }), 99), []);
  assert.deepEqual(names(line({ closed: true }), 99), []);
});

test("an ETA counts down, and shows when its time is up", () => {
  const eta = (/** @type {number | null} */ low, /** @type {number | null} */ high) =>
    /** @type {any} */ ({ text: "usually 5 min", earliest_at: low, latest_at: high });

  assert.equal(etaText(null, START), "");
  assert.equal(etaText(eta(null, null), START), "usually 5 min");
  assert.equal(etaText(eta(START + 2 * MINUTE, START + 5 * MINUTE), START), "2 min – 5 min to go");
  assert.equal(etaText(eta(START + 5000, START + 5100), START), "about 5 s to go");
  assert.equal(etaText(eta(START - 1, START + 30_000), START), "at most 30 s to go");
  assert.equal(etaText(eta(START - 2, START - 1), START), "should have ended by now");
});

test("the next poll and the lease show the time that is really left", () => {
  const leased = line({ lease_holder: "poller-1", lease_until: START + 40_000 });

  assert.equal(nextPollText(line({ next_poll_at: START + 12_000 }), START), "next poll in 12 s");
  assert.equal(nextPollText(line({ next_poll_at: START - 12_000 }), START), "poll overdue by 12 s");
  assert.equal(nextPollText(line({ next_poll_at: START - 1000 }), START), "next poll now");
  assert.equal(nextPollText(leased, START), "poll in progress");
  assert.equal(leaseText(line(), START), "none");
  assert.equal(leaseText(leased, START), "poller-1, expires in 40 s");
  assert.equal(leaseText(leased, START + 50_000), "expired 10 s ago: poller-1 did not release it");
  assert.match(leaseText(leased, START - 60 * MINUTE), /^poller-1, ignored/);
});

test("an item that no response has mentioned has no state", () => {
  assert.equal(isUnreported({ state: "pending", since: null, word: null }), true);
  assert.equal(isUnreported({ state: "pending", since: START, word: null }), false);
  assert.equal(isUnreported({ state: "launched", since: null, word: null }), false);
});

test("every state has a style, also an unknown one", () => {
  assert.equal(statusOfState("launched"), "succeeded");
  assert.equal(statusOfState("<b>"), "unknown");
  assert.equal(statesText({ pending: 1, launched: 2 }, DRS), "2 launched, 1 pending");
  assert.equal(statesText({}, DRS), "no server yet");
  assert.equal(
    progressText(line({ progress_text: "1 of 2 done, 1 failed" })),
    "0 of 1 wave · 1 of 2 done, 1 failed",
  );
  assert.equal(
    progressText(line({ total_waves: null, servers: 0 })),
    "0 of 1+ waves · no server yet",
  );
});

test("only DRS has waves of servers that are launched", () => {
  const watched = line({ source: "http", progress_text: "1 of 1 done" });
  const empty = line({ source: "http", total_waves: null, servers: 0 });
  const ended = moved("a", 0, "launched", { word: "success", server_id: "the build" });

  assert.equal(progressText(watched), "0 of 1 stage · 1 of 1 done");
  assert.equal(progressText(empty), "0 of 1+ stages · no item yet");
  assert.equal(statesText({ pending: 1, launched: 2 }, termsOf("http")), "2 done, 1 pending");
  assert.equal(statesText({}, termsOf("__proto__")), "no item yet");
  assert.equal(eventText(ended), "done (success) the build");
});

test("a transition shows the new state, as the command line does, and a failed server is a failure", () => {
  const lost = moved("a", 0, "failed", {
    from: "in_progress",
    word: "FAILED",
    reason: "no capacity",
  });
  const started = {
    run_id: "x",
    event_id: "s",
    type: "execution_started",
    occurred_at: START,
    payload: { name: "east", source: "drs", mode: "DRILL" },
  };

  assert.equal(eventText(lost), "failed s: no capacity");
  assert.equal(eventText(moved("b", 0, "launched", { word: "LAUNCHED" })), "launched s");
  assert.equal(eventText(started), "east (drs DRILL)");
  assert.deepEqual([isFailure(lost), isFailure(moved("b", 0, "launched"))], [true, false]);
});

test("an end shows its number of warnings, in the list and in the log", () => {
  const warnings = ["s-1 was terminated afterwards", "s-2: launch action join failed"];
  const ended = {
    run_id: "x",
    event_id: "e",
    type: "execution_ended",
    occurred_at: START,
    payload: { status: "succeeded", warnings },
  };

  assert.equal(endingText(line({ status: "succeeded" })), "succeeded");
  assert.equal(
    endingText(line({ status: "succeeded", warning_count: 2, late: true })),
    "succeeded with 2 warnings, late",
  );
  assert.equal(
    eventText(ended),
    "succeeded; 2 warnings: s-1 was terminated afterwards; s-2: launch action join failed",
  );
  assert.equal(
    eventText({
      ...ended,
      payload: { status: "failed", error_message: "s-1: no disk", warnings: [] },
    }),
    "s-1: no disk",
  );
});
