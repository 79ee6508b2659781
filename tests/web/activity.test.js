import assert from "node:assert/strict";
import { test } from "node:test";

import { Activity } from "../../src/longwatch/server/page/viewer/core/activity.js";
import { FeedClient } from "../../src/longwatch/server/page/viewer/core/feed.js";
import { PollingManager } from "../../web/react/src/polling/polling-manager.js";
import { FakeEnvironment } from "./support/environment.js";

class FakeDocument extends EventTarget {
  visibilityState = "visible";

  turn(state) {
    this.visibilityState = state;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

function attended(navigator = {}) {
  const environment = new FakeEnvironment();
  const document = new FakeDocument();
  const window = new EventTarget();
  const activity = new Activity({ document, window, navigator, environment });
  const modes = [];
  const stop = activity.attach({ setActivity: (mode) => modes.push(mode) });
  modes.length = 0; // the mode at the start
  const interact = () => window.dispatchEvent(new Event("pointerdown"));
  return { environment, document, window, activity, modes, stop, interact };
}

test("a tab is reported when it is hidden and when it is visible again", () => {
  const { document, modes } = attended();

  document.turn("hidden");
  document.turn("visible");

  assert.deepEqual(modes, ["hidden", "active"]);
});

test("after five minutes without interaction a page is idle, and any interaction ends that", async () => {
  const { environment, modes, interact } = attended();
  await environment.advance(200_000);
  interact();
  modes.length = 0;

  await environment.advance(299_000);
  assert.deepEqual(modes, []);
  await environment.advance(1_000);
  assert.deepEqual(modes, ["idle"]);
  interact();

  assert.deepEqual(modes, ["idle", "active"]);
});

test("interaction is reported at most once a second", async () => {
  const { environment, modes, interact } = attended();
  await environment.advance(1_000);

  for (let step = 0; step < 20; step += 1) {
    interact();
    await environment.advance(100);
  }

  assert.deepEqual(modes, ["active", "active"]);
});

test("a page that opens in the background begins hidden", () => {
  const document = new FakeDocument();
  document.visibilityState = "hidden";
  const modes = [];

  new Activity({ document, window: new EventTarget(), environment: new FakeEnvironment() }).attach({
    setActivity: (mode) => modes.push(mode),
  });

  assert.deepEqual(modes, ["hidden"]);
});

test("the last subscriber leaves no timer and no listener behind", async () => {
  const { environment, document, modes, stop, interact } = attended();

  stop();
  document.turn("hidden");
  interact();

  assert.deepEqual(modes, []);
  assert.equal(environment.pending, 0);
});

test("phones and people who save data get slower polls", () => {
  assert.equal(attended().activity.slowdown, 1);
  assert.equal(attended({ connection: { saveData: true } }).activity.slowdown, 2);
  assert.equal(attended({ userAgentData: { mobile: true } }).activity.slowdown, 2);
  assert.equal(attended({ userAgent: "Mozilla/5.0 (iPhone) Mobile/15E148" }).activity.slowdown, 2);
});

test("polling pauses while the tab is hidden and polls at once when it is back", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  const looks = [];
  activity.attach(manager);
  manager.register("a", () => looks.push(environment.time), 1_000);
  await environment.advance(1_500);

  document.turn("hidden");
  await environment.advance(60_000);
  document.turn("visible");
  await environment.advance(0);

  assert.deepEqual(looks, [0, 1_000, 61_500]);
});

test("a poll that had stopped for want of news resumes with the next interaction", async () => {
  const { environment, activity, interact } = attended();
  const manager = new PollingManager({ environment });
  let looks = 0;
  activity.attach(manager);
  manager.register("a", () => {
    looks += 1;
    return "same";
  });
  await environment.advance(200_000);
  const before = looks;

  interact();
  await environment.advance(0);

  assert.equal(looks, before + 1);
});

test("a manager that was released while hidden polls when it is guided again in a visible page", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  const stop = activity.attach(manager);
  document.turn("hidden");
  stop();
  document.visibilityState = "visible";
  document.dispatchEvent(new Event("visibilitychange"));

  activity.attach(manager);
  let polls = 0;
  manager.register("a", () => (polls += 1), 1_000);
  await environment.advance(2_500);

  assert.equal(manager.isPaused, false);
  assert.equal(polls, 3);
});

test("of two providers that share a manager, one may leave and the manager is still guided", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  activity.attach(manager);
  const stop = activity.attach(manager);

  stop();
  stop();
  document.turn("hidden");

  assert.equal(manager.isPaused, true);
});

test("a registration is polling only while polls are sent, and reports when that changes", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  activity.attach(manager);
  const states = [];
  const registration = manager.register("a", () => "same", 1_000, {
    onActivity: () => states.push(registration.isPolling),
  });
  await environment.advance(100);
  assert.equal(registration.isPolling, true);

  document.turn("hidden");
  document.turn("visible");
  await environment.advance(300_000); // idle

  assert.deepEqual(states, [false, true, false]);
});

test("a poll that stopped for want of news reports that it polls again", async () => {
  const { environment, activity, interact } = attended();
  const manager = new PollingManager({ environment });
  activity.attach(manager);
  const states = [];
  const registration = manager.register("a", () => "same", null, {
    onActivity: () => states.push(registration.isPolling),
  });
  await environment.advance(200_000);
  assert.equal(registration.isPolling, false);

  interact();

  assert.deepEqual(states, [true]);
});

test("an application's pause outlasts visibility, idleness, the network and interaction", async () => {
  const { environment, document, window, activity, interact } = attended();
  const manager = new PollingManager({ environment });
  const polls = [];
  activity.attach(manager);
  manager.register("a", () => polls.push(environment.time), 1_000);
  await environment.advance(500);
  manager.pause();

  document.turn("hidden");
  document.turn("visible");
  window.dispatchEvent(new Event("online"));
  await environment.advance(400_000); // idle meanwhile
  interact();
  manager.touch();
  await environment.advance(60_000);
  assert.deepEqual(polls, [0]);
  assert.ok(manager.isPaused);

  manager.resume();
  await environment.advance(0);
  assert.deepEqual(polls, [0, 460_500]);
});

test("a failing poll that the application pauses is not retried until it resumes", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  let polls = 0;
  activity.attach(manager);
  manager.register(
    "a",
    () => {
      polls += 1;
      throw new Error("gone");
    },
    1_000,
  );
  await environment.advance(100);

  manager.pause();
  document.turn("hidden");
  document.turn("visible");
  await environment.advance(60_000);
  assert.equal(polls, 1);

  manager.resume();
  await environment.advance(0);
  assert.equal(polls, 2);
});

test("an application that resumes does not wake a hidden page", async () => {
  const { environment, document, activity } = attended();
  const manager = new PollingManager({ environment });
  let polls = 0;
  activity.attach(manager);
  manager.register("a", () => (polls += 1), 1_000);
  await environment.advance(100);
  manager.pause();
  document.turn("hidden");

  manager.resume();
  await environment.advance(10_000);
  assert.equal(polls, 1);

  document.turn("visible");
  await environment.advance(0);
  assert.equal(polls, 2);
});

test("a feed that the application paused stays closed in every mode", async () => {
  const { environment, document, window, activity, interact } = attended();
  const requests = [];
  const api = { request: async (address) => requests.push(address), address: (path) => path };
  const feed = new FeedClient({ api, environment });
  activity.attach(feed);
  feed.pause();
  feed.subscribe("runs", { onMessage: () => {} });

  document.turn("hidden");
  document.turn("visible");
  window.dispatchEvent(new Event("online"));
  await environment.advance(400_000);
  interact();
  await environment.advance(10_000);

  assert.ok(feed.isPaused);
  assert.deepEqual(requests, []);
});
