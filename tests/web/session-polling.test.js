import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../web/react/core/api.js";
import { turnUpdate } from "../../web/react/core/turn-state.js";
import { PollingManager } from "../../web/react/src/polling/polling-manager.js";
import { SessionPolling, TurnFailed } from "../../web/react/src/polling/session.js";
import { FakeEnvironment } from "./support/environment.js";

const AT = "2025-01-06T10:00:00.000Z";
const block = (sequence) => ({
  id: `b${sequence}`,
  sequence,
  type: "content",
  created_at: AT,
  content: { text: "x" },
});

/** A server with one turn, whose tag is made from status and blocks as the real one's is. */
function serving() {
  const environment = new FakeEnvironment();
  const turn = {
    id: "t",
    status: "pending",
    blocks: [],
    error: null,
    created_at: AT,
    last_updated: AT,
  };
  const server = { turn, statuses: [], isAway: false };
  const fetch = async (_address, { headers }) => {
    if (server.isAway) throw new TypeError("fetch failed");
    const tag = `W/"${server.turn.status}-${server.turn.blocks.length}"`;
    const isKnown = headers["If-None-Match"] === tag;
    server.statuses.push(isKnown ? 304 : 200);
    return isKnown
      ? new Response(null, { status: 304 })
      : Response.json(server.turn, { headers: { ETag: tag } });
  };
  return {
    environment,
    server,
    api: new Api({ fetch }),
    manager: new PollingManager({ environment }),
  };
}

function polled({ api, manager }, options = {}) {
  const received = [];
  const polling = new SessionPolling({
    api,
    manager,
    projectId: "p",
    sessionId: "s",
    turnId: "t",
    onUpdate: ({ status, blocks }) => received.push(`update ${status} ${blocks.length}`),
    onComplete: ({ status }) => received.push(`complete ${status}`),
    onError: (error) => received.push(`error ${error.message}`),
    ...options,
  });
  return { received, polling };
}

test("it polls every 2 s, reports each change once, and stops when the turn is completed", async () => {
  const serve = serving();
  const { environment, server, manager } = serve;
  const { received, polling } = polled(serve);
  await environment.advance(4_000);
  server.turn = { ...server.turn, status: "running", blocks: [block(0)] };
  await environment.advance(2_000);
  server.turn = { ...server.turn, status: "completed", completed_at: AT };
  await environment.advance(60_000);

  assert.deepEqual(received, [
    "update pending 0",
    "update running 1",
    "update completed 1",
    "complete completed",
  ]);
  assert.deepEqual(server.statuses, [200, 304, 304, 200, 200]);
  assert.deepEqual(polling.turn.completed_at, new Date(AT));
  assert.equal(polling.turn.started_at, undefined);
  assert.equal(polling.isPolling, false);
  assert.equal(manager.metrics.keys, 0);
  assert.equal(environment.pending, 0);
});

test("of a turn that has changed, only the new blocks are transferred", async () => {
  const requested = [];
  const whole = (status, count) => ({
    id: "t",
    prompt: "go",
    status,
    blocks: Array.from({ length: count }, (_, at) => block(at)),
    blocks_cursor: `${count}-00`,
    created_at: AT,
    last_updated: AT,
  });
  const { prompt, ...rest } = whole("completed", 3);
  const responses = [whole("running", 2), { ...rest, blocks: [block(2)], blocks_from: 2 }];
  const environment = new FakeEnvironment();
  const fetch = async (address) => {
    requested.push(address);
    return Response.json(responses[requested.length - 1], {
      headers: { ETag: `"${requested.length}"` },
    });
  };
  const seen = [];
  const { polling } = polled(
    { api: new Api({ fetch }), manager: new PollingManager({ environment }) },
    { onUpdate: (turn) => seen.push(turn.blocks) },
  );

  await environment.advance(2_000);

  assert.deepEqual(
    requested.map((address) => new URLSearchParams(address.split("?")[1]).get("blocks_after")),
    [null, "2-00"],
  );
  assert.deepEqual(
    polling.turn.blocks.map(({ id }) => id),
    ["b0", "b1", "b2"],
  );
  assert.equal(seen[1][0], seen[0][0]); // a block that was there is the same object
  assert.equal(polling.turn.prompt, prompt);
  assert.equal("blocks_cursor" in polling.turn, false);
});

test("blocks that moved are transferred again, and replace those of the client", () => {
  const before = { prompt: "go", blocks: [block(0), block(1)] };

  const merged = turnUpdate.merge(before, {
    blocks_from: 0,
    blocks: [block(7)],
  });

  assert.deepEqual(merged, { prompt: "go", blocks: [block(7)] });
});

test("an end that adds no block is seen", async () => {
  const serve = serving();
  const { environment, server } = serve;
  server.turn.blocks = [block(0)];
  const { received } = polled(serve);
  await environment.advance(10);

  server.turn = { ...server.turn, status: "failed", error: "interrupted" };
  await environment.advance(2_000);

  assert.deepEqual(received.slice(1), ["update failed 1", "error interrupted"]);
});

test("a failed turn is an error that holds the turn", async () => {
  const serve = serving();
  serve.server.turn = {
    ...serve.server.turn,
    status: "failed",
    error: "out of memory",
  };
  const { polling } = polled(serve);

  await serve.environment.advance(10);

  assert.ok(polling.error instanceof TurnFailed);
  assert.equal(polling.error.turn.error, "out of memory");
});

test("two pollers of one turn cost one request, and each receives everything", async () => {
  const serve = serving();
  const [one, other] = [polled(serve), polled(serve)];

  await serve.environment.advance(2_000);

  assert.deepEqual(serve.server.statuses, [200, 304]);
  assert.deepEqual(one.received, other.received);
});

test("a poll that fails is reported, and the error is gone with the next response", async () => {
  const serve = serving();
  const { environment, server } = serve;
  server.isAway = true;
  const { received, polling } = polled(serve);
  await environment.advance(10);
  assert.match(received[0], /^error No response from/);
  assert.ok(polling.isPolling);

  server.isAway = false;
  await environment.advance(2_000);

  assert.equal(polling.error, null);
  assert.equal(polling.turn.status, "pending");
});

test("a subscriber that stops receives nothing more, also not from a poll under way", async () => {
  const serve = serving();
  const { received, polling } = polled(serve);

  polling.stop();
  await serve.environment.advance(10_000);

  assert.deepEqual(received, []);
  assert.equal(serve.environment.pending, 0);
});
