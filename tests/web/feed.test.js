import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../src/longwatch/server/page/viewer/core/api.js";
import { FeedClient } from "../../src/longwatch/server/page/viewer/core/feed.js";
import { FeedServer } from "./support/feed-server.js";
import { FakeEnvironment } from "./support/environment.js";

/** @param {import("../../src/longwatch/server/page/viewer/core/stream-slots.js").Locks | null} locks */
function opened(locks = null, environment = new FakeEnvironment()) {
  const server = new FeedServer(environment);
  const states = [];
  const journals = [];
  const feed = new FeedClient({
    api: new Api({ fetch: server.fetch }),
    environment,
    draw: () => 0,
    onState: (state) => states.push(state),
    onJournal: (isAway) => journals.push(isAway),
    locks,
  });
  return { environment, server, feed, states, journals };
}

/** Collects the ids of the events of a topic. */
function followed(feed, topic, after) {
  const ids = [];
  const messages = [];
  const stop = feed.subscribe(topic, {
    after,
    onMessage: (message) => {
      messages.push(message.event);
      if (message.event === "event") ids.push(message.data.event.event_id);
    },
  });
  return { ids, messages, stop };
}

const isStream = (request) => request === "/api/stream";

test("history comes first, then caught up, then live events", async () => {
  const { environment, server, feed, states } = opened();
  server.record("run:a", "1");
  const { messages, ids } = followed(feed, "run:a");
  await environment.advance(10);

  server.record("run:a", "2");
  await environment.advance(10);

  assert.deepEqual(messages, ["event", "caught_up", "event"]);
  assert.deepEqual(ids, ["1", "2"]);
  assert.deepEqual(states, ["live"]);
});

test("all topics of a page share one stream, and a new topic reopens it without a gap or a duplicate", async () => {
  const { environment, server, feed } = opened();
  const a = followed(feed, "run:a");
  const b = followed(feed, "run:b");
  server.record("run:a", "1");
  await environment.advance(10);
  assert.equal(server.requests.length, 1);

  server.record("run:b", "2");
  const c = followed(feed, "run:c");
  server.record("run:a", "3");
  server.record("run:c", "4");
  await environment.advance(10);

  assert.equal(server.requests.length, 2);
  assert.equal(server.viewers.size, 1);
  assert.deepEqual([a.ids, b.ids, c.ids], [["1", "3"], ["2"], ["4"]]);
});

test("a second listener of a topic gets its history, and the first nothing twice", async () => {
  const { environment, server, feed } = opened();
  server.record("run:a", "1");
  const first = followed(feed, "run:a");
  await environment.advance(10);

  const second = followed(feed, "run:a");
  await environment.advance(10);
  server.record("run:a", "2");
  await environment.advance(10);

  assert.deepEqual(
    [first.ids, second.ids],
    [
      ["1", "2"],
      ["1", "2"],
    ],
  );
});

test("a listener with a cursor gets what came after it", async () => {
  const { environment, server, feed } = opened();
  for (const id of ["1", "2", "3"]) server.record("run:a", id);

  const { ids } = followed(feed, "run:a", "2");
  await environment.advance(10);

  assert.deepEqual(ids, ["3"]);
});

test("a stream that is cut resumes from its cursor", async () => {
  const { environment, server, feed, states } = opened();
  const { ids } = followed(feed, "run:a");
  server.record("run:a", "1");
  await environment.advance(20_000); // a heartbeat has come

  server.cut();
  server.record("run:a", "2");
  await environment.advance(1_000);

  assert.deepEqual(ids, ["1", "2"]);
  assert.deepEqual(states, ["live", "connecting", "live"]);
  assert.ok(server.requests.every(isStream));
});

test("each heartbeat states whether the journal behind the server is away", async () => {
  const { environment, server, feed, states, journals } = opened();
  followed(feed, "run:a");
  await environment.advance(16_000);
  server.isJournalAway = true;
  await environment.advance(15_000);
  server.isJournalAway = false;
  await environment.advance(15_000);

  assert.deepEqual(journals, [false, true, false]);
  assert.deepEqual(states, ["live"]);
});

test("a server that announces its close is contacted again after a second", async () => {
  const { environment, server, feed } = opened();
  const { ids } = followed(feed, "run:a");
  await environment.advance(10);

  server.announce("closing");
  await environment.advance(10);
  server.record("run:a", "1");
  await environment.advance(1_000);

  assert.deepEqual(ids, ["1"]);
  assert.ok(server.requests.every(isStream));
});

test("while the server is away the feed is offline, waits ever longer, and does not step down", async () => {
  const { environment, server, feed, states } = opened();
  server.line = "refuses";
  const { ids } = followed(feed, "run:a");

  await environment.advance(60_000);
  assert.equal(server.requests.length, 6); // after 0, 1, 3, 7, 15 and 31 s
  server.line = "ok";
  server.record("run:a", "1");
  await environment.advance(30_000);

  assert.deepEqual(ids, ["1"]);
  assert.ok(server.requests.every(isStream));
  assert.deepEqual([...new Set(states)], ["offline", "live"]);
});

test("where a proxy holds the stream back, long polls take over within seconds", async () => {
  const { environment, server, feed } = opened();
  server.line = "buffers";
  server.record("run:a", "1");
  const { ids } = followed(feed, "run:a");

  await environment.advance(8_200);
  assert.deepEqual(ids, ["1"]);
  assert.deepEqual([feed.state, feed.way], ["polling", "long poll"]);

  server.record("run:a", "2");
  await environment.advance(200);
  assert.deepEqual(ids, ["1", "2"]);
});

test("a topic followed while long polls are used has caught up at once", async () => {
  const { environment, server, feed } = opened();
  server.line = "buffers";
  followed(feed, "run:a");
  await environment.advance(9_000);
  assert.equal(feed.way, "long poll");
  server.record("run:b", "1");

  const { messages } = followed(feed, "run:b", "1");
  await environment.advance(100);

  assert.deepEqual(messages, ["caught_up"]);
});

test("a stream that stalls after it was live is opened again, and given up when it stays silent", async () => {
  const { environment, server, feed } = opened();
  const { ids } = followed(feed, "run:a");
  await environment.advance(16_000);

  server.line = "buffers";
  server.record("run:a", "1");
  await environment.advance(56_000);

  assert.equal(feed.way, "long poll");
  assert.deepEqual(ids, ["1"]);
});

test("where long polls are cut as well, plain polls take over", async () => {
  const { environment, server, feed } = opened();
  server.line = "buffers";
  const { ids } = followed(feed, "run:a");
  await environment.advance(9_000);

  server.line = "cuts polls";
  feed.pause();
  feed.resume();
  await environment.advance(20_000);
  assert.equal(feed.way, "poll");

  server.record("run:a", "1");
  await environment.advance(5_000);
  assert.deepEqual(ids, ["1"]);
  assert.equal(server.requests.at(-1), "/api/feed at once");
});

test("a feed climbs back to the stream as soon as it comes through", async () => {
  const { environment, server, feed } = opened();
  server.line = "buffers";
  const { ids } = followed(feed, "run:a");
  await environment.advance(10_000);
  server.line = "ok";

  server.record("run:a", "1");
  await environment.advance(60_000);
  server.record("run:a", "2");
  await environment.advance(10);

  assert.equal(feed.way, "stream");
  assert.equal(feed.state, "live");
  assert.equal(server.viewers.size, 1);
  assert.deepEqual(ids, ["1", "2"]);
});

test("a climb in vain leaves the polls alone and is tried less and less often", async () => {
  const { environment, server, feed } = opened();
  server.line = "buffers";
  followed(feed, "run:a");

  await environment.advance(3_600_000);

  const streams = server.requests.filter(isStream).length;
  assert.ok(streams >= 5 && streams <= 14, `${streams} tries`);
  assert.equal(feed.way, "long poll");
});

test("an idle hour on the stream costs one request", async () => {
  const { environment, server, feed } = opened();
  followed(feed, "session:p/s");

  await environment.advance(3_600_000);

  assert.equal(server.requests.length, 1);
});

test("a hidden page has no connection, and resumes where it was", async () => {
  const { environment, server, feed } = opened();
  const { ids } = followed(feed, "run:a");
  server.record("run:a", "1");
  await environment.advance(10);

  feed.setActivity("hidden");
  await environment.advance(10);
  assert.equal(server.viewers.size, 0);
  server.record("run:a", "2");
  await environment.advance(60_000);
  feed.setActivity("active");
  await environment.advance(10);

  assert.deepEqual(ids, ["1", "2"]);
});

/** The locks that the windows of a browser share: each is granted at once or not at all. */
function sharedLocks() {
  const held = new Set();
  /** @type {any} */
  const request = async (name, options, granted) => {
    if (held.has(name)) return granted(null);
    held.add(name);
    await granted({ name });
    held.delete(name);
  };
  return { held, request };
}

test("of seven windows four hold a stream, the others poll and miss nothing", async () => {
  const [locks, environment] = [sharedLocks(), new FakeEnvironment()];
  const windows = Array.from({ length: 7 }, () => opened(locks, environment));
  const followers = windows.map(({ feed }) => followed(feed, "run:a"));
  await environment.advance(2_000);

  for (const { server } of windows) server.record("run:a", "1");
  await environment.advance(40_000);

  assert.deepEqual(
    windows.map(({ feed }) => feed.way),
    [...Array(4).fill("stream"), ...Array(3).fill("poll")],
  );
  assert.deepEqual(
    followers.map(({ ids }) => ids),
    Array(7).fill(["1"]),
  );
});

test("a window that is hidden or closed passes its stream on, and polls when it is back", async () => {
  const [locks, environment] = [sharedLocks(), new FakeEnvironment()];
  const windows = Array.from({ length: 5 }, () => opened(locks, environment));
  const [first, second, , , last] = windows;
  for (const { feed } of windows) followed(feed, "run:a");
  await environment.advance(2_000);
  assert.equal(last.feed.way, "poll");

  first.feed.setActivity("hidden");
  await environment.advance(60_000);
  assert.equal(last.feed.way, "stream");
  first.feed.setActivity("active");
  await environment.advance(2_000);
  assert.equal(first.feed.way, "poll");
  second.feed.close();
  await environment.advance(60_000);

  assert.equal(first.feed.way, "stream");
  assert.equal(locks.held.size, 4);
});

test("windows without a stream share the four slots for long polls too", async () => {
  const [locks, environment] = [sharedLocks(), new FakeEnvironment()];
  const windows = Array.from({ length: 6 }, () => opened(locks, environment));
  for (const { feed, server } of windows) {
    server.line = "buffers";
    followed(feed, "run:a");
  }

  await environment.advance(20_000);

  const ways = windows.map(({ feed }) => feed.way).sort();
  assert.deepEqual(ways, [...Array(4).fill("long poll"), ...Array(2).fill("poll")]);
});

test("an idle page keeps the stream but not the polls", async () => {
  const { environment, server, feed } = opened();
  followed(feed, "run:a");
  await environment.advance(10);
  feed.setActivity("idle");
  assert.ok(!feed.isPaused);

  server.line = "buffers";
  feed.pause();
  feed.resume();
  await environment.advance(10_000);
  assert.equal(feed.way, "long poll");
  feed.setActivity("idle");

  assert.ok(feed.isPaused);
});

test("the last listener closes the stream, and no timer is left", async () => {
  const { environment, server, feed } = opened();
  const a = followed(feed, "run:a");
  const b = followed(feed, "run:b");
  await environment.advance(10);

  a.stop();
  b.stop();
  b.stop();
  await environment.advance(20_000);

  assert.equal(server.viewers.size, 0);
  assert.equal(environment.pending, 0);
});

test("a closed feed reports nothing more", async () => {
  const { environment, server, feed } = opened();
  const { ids } = followed(feed, "run:a");
  await environment.advance(10);

  feed.close();
  server.record("run:a", "1");
  await environment.advance(20_000);

  assert.deepEqual(ids, []);
  assert.equal(environment.pending, 0);
});

test("a run that has ended is requested again after a while, because it may get late events", async () => {
  const { environment, server, feed } = opened();
  const { ids } = followed(feed, "run:a");
  await environment.advance(10);
  for (const viewer of server.viewers)
    viewer.send('event: ended\ndata: {"topic":"run:a","reason":"drained"}\n\n');
  await environment.advance(10);

  await environment.advance(300_000);
  server.record("run:a", "late");
  await environment.advance(10);

  assert.equal(server.requests.length, 2);
  assert.deepEqual(ids, ["late"]);
});

test("a topic that the server refuses is reported and left out, and the others continue", async () => {
  const { environment, server, feed } = opened();
  const bad = followed(feed, "turn:p/s/none");
  const good = followed(feed, "run:a");
  await environment.advance(10);
  for (const viewer of server.viewers) {
    viewer.send(
      'event: error\ndata: {"topic":"turn:p/s/none","code":"turn_not_found","message":"no"}\n\n',
    );
  }
  await environment.advance(16_000);

  server.cut();
  await environment.advance(2_000);
  server.record("run:a", "1");
  await environment.advance(10);

  assert.ok(bad.messages.includes("error"));
  assert.deepEqual(good.ids, ["1"]);
  assert.equal([...server.viewers][0]?.topics.length, 1);
});

test("a cursor that the journal does not know any more begins at the start, without duplicates", async () => {
  const { environment, server, feed } = opened();
  const { ids, messages } = followed(feed, "run:a");
  server.record("run:a", "1");
  await environment.advance(10);

  for (const viewer of server.viewers) {
    viewer.send(
      'event: error\ndata: {"topic":"run:a","code":"invalid_cursor","message":"other journal"}\n\n',
    );
  }
  await environment.advance(10);
  server.record("run:a", "2");
  await environment.advance(10);

  assert.deepEqual(ids, ["1", "2"]);
  assert.ok(!messages.includes("error"));
});

test("whatever happens on the way, every listener ends up with what the journal holds, once", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const { environment, server, feed } = opened();
    const random = randomFrom(seed);
    const listeners = { "run:a": followed(feed, "run:a"), "run:b": followed(feed, "run:b") };
    for (let step = 0; step < 60; step += 1) {
      const chance = random();
      if (chance < 0.5) server.record(random() < 0.5 ? "run:a" : "run:b", `${seed}-${step}`);
      else if (chance < 0.6) server.cut();
      else if (chance < 0.7)
        server.line = ["ok", "buffers", "refuses", "cuts polls"][Math.floor(random() * 4)];
      else if (chance < 0.75) feed.setActivity(random() < 0.5 ? "hidden" : "active");
      else if (chance < 0.8) followed(feed, "run:c").stop();
      else await environment.advance(random() * 30_000);
    }
    server.line = "ok";
    feed.setActivity("active");
    server.cut();
    await environment.advance(120_000);

    for (const [topic, { ids }] of Object.entries(listeners)) {
      const stored = (server.topics.get(topic) ?? []).map((event) => event.event_id);
      assert.deepEqual(ids, stored, `seed ${seed}, ${topic}`);
    }
    feed.close();
  }
});

/** The same numbers for the same seed. */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
