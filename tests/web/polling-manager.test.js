import assert from "node:assert/strict";
import { test } from "node:test";

import { PollingManager, pollingManager } from "../../web/react/src/polling/polling-manager.js";
import { FakeEnvironment, settled } from "./support/environment.js";

function started(options = {}) {
  const environment = new FakeEnvironment();
  return { environment, manager: new PollingManager({ environment, ...options }) };
}

/** A poll that counts its calls and resolves on demand. */
function held() {
  const calls = [];
  const poll = ({ signal }) =>
    new Promise((resolve, reject) => calls.push({ resolve, reject, signal }));
  return { calls, poll };
}

test("a key is polled at once and then at its interval, counted from the beginning of a poll", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  manager.register("a", () => polledAt.push(environment.time), 2_000);

  await environment.advance(5_000);

  assert.deepEqual(polledAt, [0, 2_000, 4_000]);
});

test("subscribers of one key share one poll and each gets its results", async () => {
  const { environment, manager } = started();
  const got = [];
  let calls = 0;
  for (const name of ["x", "y"]) {
    manager.register("a", () => (calls += 1), 2_000, {
      onResult: (value) => got.push(`${name}${value}`),
    });
  }

  await environment.advance(2_000);

  assert.equal(calls, 2);
  assert.deepEqual(got, ["x1", "y1", "x2", "y2"]);
});

test("a subscriber within 500 ms of a result gets it without a request, and later not", async () => {
  const { environment, manager } = started();
  let calls = 0;
  const got = [];
  const poll = () => (calls += 1);
  manager.register("a", poll, 10_000);
  await environment.advance(499);

  manager.register("a", poll, 10_000, { onResult: (value) => got.push(value) });
  await environment.advance(0);
  assert.deepEqual([calls, got], [1, [1]]);

  await environment.advance(2);
  manager.register("a", poll, 10_000);
  await environment.advance(0);
  assert.equal(calls, 2);
});

test("at most three requests are in flight, and the others come in the order in which they fell due", async () => {
  const { environment, manager } = started();
  const order = [];
  const polls = ["a", "b", "c", "d", "e"].map((key) => {
    const { calls, poll } = held();
    manager.register(key, (signal) => (order.push(key), poll(signal)), 1_000);
    return calls;
  });
  await settled();
  assert.deepEqual(order, ["a", "b", "c"]);
  assert.equal(manager.metrics.queued, 2);

  polls[1][0].resolve(1);
  await settled();

  assert.deepEqual(order, ["a", "b", "c", "d"]);
  await environment.advance(1_000); // b falls due again, behind e
  polls[0][0].resolve(1);
  polls[2][0].resolve(1);
  await settled();
  assert.deepEqual(order.slice(4), ["e", "b"]);
});

test("a failing poll waits 2, 4, 8, 16 and 16 s, then stops until it is touched", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  const errors = [];
  const registration = manager.register(
    "a",
    () => {
      polledAt.push(environment.time);
      throw new Error("gone");
    },
    1_000,
    { onError: (error) => errors.push(error.message) },
  );

  await environment.advance(300_000);

  assert.deepEqual(polledAt, [0, 2_000, 6_000, 14_000, 30_000, 46_000]);
  assert.equal(errors.length, 6);
  assert.ok(registration.state.stopped);
  assert.equal(environment.pending, 0);
  manager.touch();
  await environment.advance(0);
  assert.equal(polledAt.length, 7);
});

test("a success clears the failures at once", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  const registration = manager.register(
    "a",
    () => {
      polledAt.push(environment.time);
      if (polledAt.length < 3) throw new Error("gone");
    },
    1_000,
  );

  await environment.advance(7_000);

  assert.deepEqual(polledAt, [0, 2_000, 6_000, 7_000]);
  assert.equal(registration.state.failures, 0);
});

test("the result of an unregistered poll is dropped, also for the next registration of the key", async () => {
  const { manager } = started();
  const { calls, poll } = held();
  const got = [];
  const first = manager.register("a", poll, 1_000, {
    onResult: (value) => got.push(`first ${value}`),
  });
  await settled();
  first.dispose();
  manager.register("a", poll, 1_000, { onResult: (value) => got.push(`second ${value}`) });
  await settled();

  calls[0].resolve("old");
  calls[1].resolve("new");
  await settled();

  assert.ok(calls[0].signal.aborted);
  assert.deepEqual(got, ["second new"]);
});

test("an aborted request frees its slot for the next", async () => {
  const { manager } = started({ maxConcurrent: 1 });
  const { poll } = held();
  const first = manager.register("a", poll, 1_000);
  let called = false;
  manager.register("b", () => (called = true), 1_000);
  await settled();
  assert.equal(called, false);

  first.dispose();
  await settled();

  assert.ok(called);
});

test("a pause starts no polls, keeps everything, and its time does not count as time without news", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  const registration = manager.register("a", () => (polledAt.push(environment.time), "same"));
  await environment.advance(10_000);
  manager.pause();
  assert.equal(environment.pending, 0);

  await environment.advance(600_000);
  assert.equal(polledAt.length, 11);
  manager.resume();
  await environment.advance(0);

  assert.equal(polledAt.at(-1), 610_000);
  assert.ok(!registration.state.stopped);
});

test("after a pause, a failing key waits for the rest of its backoff", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  manager.register(
    "a",
    () => {
      polledAt.push(environment.time);
      throw new Error("gone");
    },
    1_000,
  );
  await environment.advance(100);
  manager.pause();
  await environment.advance(900);

  manager.resume();
  await environment.advance(2_000);

  assert.deepEqual(polledAt, [0, 2_000]);
});

test("a ramp stops after two minutes without news and leaves no timer", async () => {
  const { environment, manager } = started();
  const registration = manager.register("a", () => ({ same: [1, { deep: true }] }));

  await environment.advance(200_000);

  assert.equal(registration.state.reason, "no news for 120 s");
  assert.equal(environment.pending, 0);
});

test("on a phone delays are twice as long, but not the backoff", async () => {
  const { environment, manager } = started({ slowdown: () => 2 });
  const polledAt = [];
  manager.register(
    "a",
    () => {
      polledAt.push(environment.time);
      if (polledAt.length === 2) throw new Error("gone");
    },
    1_000,
  );

  await environment.advance(6_000);

  assert.deepEqual(polledAt, [0, 2_000, 4_000, 6_000]);
});

test("a poll that never responds fails after 30 s and is aborted", async () => {
  const { environment, manager } = started();
  const { calls, poll } = held();
  const errors = [];
  manager.register("a", poll, 1_000, { onError: (error) => errors.push(error.message) });

  await environment.advance(30_000);

  assert.deepEqual(errors, ["No response to the poll of a within 30 s."]);
  assert.ok(calls[0].signal.aborted);
});

test("fetch sends one request, shares the result, and forgets it after the cache's time", async () => {
  const { environment, manager } = started();
  const { calls, poll } = held();
  const both = Promise.all([manager.fetch("a", poll), manager.fetch("a", poll)]);
  await settled();
  calls[0].resolve("answer");

  assert.deepEqual(await both, ["answer", "answer"]);
  assert.equal(await manager.fetch("a", poll), "answer");
  assert.equal(calls.length, 1);
  await environment.advance(500);
  assert.equal(manager.metrics.keys, 0);
  assert.equal(environment.pending, 0);
});

test("an error of a fetched poll reaches every waiting caller", async () => {
  const { manager } = started();
  const poll = () => Promise.reject(new Error("gone"));

  const both = await Promise.allSettled([manager.fetch("a", poll), manager.fetch("a", poll)]);

  assert.deepEqual(
    both.map(({ reason }) => reason.message),
    ["gone", "gone"],
  );
});

test("a refresh drops the result that is under way, and waiting callers get the new one", async () => {
  const { manager } = started();
  const { calls, poll } = held();
  const waiting = manager.fetch("a", poll);
  await settled();

  manager.refresh("a");
  await settled();
  calls[0].resolve("old");
  calls[1].resolve("new");

  assert.equal(await waiting, "new");
});

test("a subscriber that throws affects no other and is notified", async () => {
  const { environment, manager } = started();
  const got = [];
  manager.register("a", () => 1, 1_000, {
    onResult: () => {
      throw new Error("mine");
    },
    onError: (error) => got.push(error.message),
  });
  manager.register("a", () => 1, 1_000, { onResult: (value) => got.push(value) });

  await environment.advance(0);

  assert.deepEqual(got, ["mine", 1]);
});

test("the shared poll continues for the remaining subscriber, at its interval", async () => {
  const { environment, manager } = started();
  const polledAt = [];
  const poll = () => polledAt.push(environment.time);
  const eager = manager.register("a", poll, 1_000);
  manager.register("a", poll, 4_000);
  await environment.advance(1_000);

  eager.dispose();
  await environment.advance(8_000);

  assert.deepEqual(polledAt, [0, 1_000, 5_000, 9_000]);
});

test("unregister removes the latest registration of a key, and again does nothing", async () => {
  const { environment, manager } = started();
  manager.register("a", () => 1, 1_000);
  manager.unregister("a");
  manager.unregister("a");

  await environment.advance(5_000);

  assert.equal(manager.metrics.keys, 0);
  assert.equal(manager.states().size, 0);
  assert.equal(environment.pending, 0);
});

test("a closed manager rejects waiting callers, leaves no timer and refuses registrations", async () => {
  const { environment, manager } = started();
  const { poll } = held();
  const waiting = manager.fetch("a", poll);
  manager.register("b", () => 1, 1_000);
  await settled();

  manager.close();

  await assert.rejects(waiting, /closed/);
  assert.equal(environment.pending, 0);
  assert.throws(() => manager.register("c", poll), /closed/);
});

test("there is one manager for the page", () => {
  assert.ok(pollingManager instanceof PollingManager);
});

test("a fetched request is aborted with its last waiting caller", async () => {
  const { environment, manager } = started();
  const { calls, poll } = held();
  const leaving = [new AbortController(), new AbortController()];
  const waiting = leaving.map(({ signal }) => manager.fetch("a", poll, { signal }));
  await settled();

  leaving[0].abort();
  assert.ok(!calls[0].signal.aborted);
  leaving[1].abort();

  assert.ok(calls[0].signal.aborted);
  for (const each of waiting) await assert.rejects(each, { name: "AbortError" });
  assert.equal(manager.metrics.keys, 0);
  assert.equal(environment.pending, 0);
});
