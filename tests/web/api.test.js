import assert from "node:assert/strict";
import { test } from "node:test";

import { interrupt, newTurn } from "../../web/react/src/polling/actions.js";
import { Api } from "../../src/longwatch/server/page/viewer/core/api.js";
import { ApiError } from "../../src/longwatch/server/page/viewer/core/errors.js";
import {
  documentPath,
  runPath,
  turnPath,
  turnsPath,
} from "../../src/longwatch/server/page/viewer/core/routes.js";

/** An api on answers that the test writes: `METHOD /path` → what to answer. */
function apiOn(answers, options = {}) {
  const requests = [];
  const fetch = async (address, { method, headers, body, signal }) => {
    requests.push({ method, address, headers, body });
    const answer = answers[`${method} ${address}`];
    if (answer === undefined) throw new TypeError("fetch failed");
    return typeof answer === "function" ? answer({ headers, body, signal }) : answer.clone();
  };
  return { api: new Api({ fetch, ...options }), requests };
}

const json = (body, init) => Response.json(body, init);
const ID = { projectId: "p", sessionId: "s", turnId: "t1" };
const TURN = turnPath("p", "s", "t1");
const TURNS = turnsPath("p", "s");
const turn = (values = {}) => ({
  id: "t1",
  number: 1,
  status: "running",
  error: null,
  blocks: [],
  ...values,
});

test("a body that has not changed costs a 304 and is the same object", async () => {
  const { api, requests } = apiOn({
    "GET /api/runs": ({ headers }) =>
      headers["If-None-Match"] === 'W/"1"'
        ? new Response(null, { status: 304 })
        : json({ runs: [] }, { headers: { ETag: 'W/"1"' } }),
  });

  const first = await api.get("/api/runs");
  const second = await api.get("/api/runs");

  assert.equal(second, first);
  assert.equal(requests[1].headers["If-None-Match"], 'W/"1"');
});

test("after an invalidation the whole body is requested", async () => {
  const { api, requests } = apiOn({ "GET /api/runs": json({}, { headers: { ETag: 'W/"1"' } }) });
  await api.get("/api/runs");

  api.cache.invalidate("/api/");
  await api.get("/api/runs");

  assert.equal(requests[1].headers["If-None-Match"], undefined);
});

test("a long poll waits on its own URL and keeps the tag of the plain one", async () => {
  const { api, requests } = apiOn({
    "GET /api/runs": json({}, { headers: { ETag: 'W/"1"' } }),
    "GET /api/runs?wait=25": new Response(null, { status: 304 }),
  });
  const before = await api.get("/api/runs");

  assert.equal(await api.get("/api/runs", { wait: 25 }), before);
  assert.equal(requests[1].headers["If-None-Match"], 'W/"1"');
});

test("an error of the server keeps its code, its message and its details", async () => {
  const reported = {
    code: "too_many",
    message: "Slow down.",
    details: [{ field: "limit", message: "at most 200" }],
  };
  const { api } = apiOn({
    "GET /api/runs": json({ error: reported }, { status: 429, headers: { "Retry-After": "3" } }),
  });

  const error = await api.get("/api/runs").catch((raised) => raised);

  assert.ok(error instanceof ApiError);
  assert.equal(error.message, "Slow down.");
  assert.deepEqual(
    [error.status, error.code, error.retryAfterMs, error.details],
    [429, "too_many", 3_000, reported.details],
  );
  assert.ok(error.isWorthAnotherTry);
});

test("a foreign response and a missing response are errors too", async () => {
  const { api } = apiOn({ "GET /api/runs": new Response("<h1>Bad gateway</h1>", { status: 502 }) });

  const proxy = await api.get("/api/runs").catch((raised) => raised);
  const unreachable = await api.get("/api/health").catch((raised) => raised);

  assert.equal(proxy.code, "http_502");
  assert.deepEqual([unreachable.status, unreachable.code], [0, "unreachable"]);
});

test("an aborted request stays an abort", async () => {
  const { api } = apiOn({
    "GET /api/runs": () => {
      throw new DOMException("aborted", "AbortError");
    },
  });

  await assert.rejects(api.get("/api/runs"), { name: "AbortError" });
});

test("headers and the base URL go with every request", async () => {
  const { api, requests } = apiOn(
    { "POST http://host/api/projects?x=1&x=2": json({}) },
    { baseUrl: "http://host/", headers: { Authorization: "Bearer token" } },
  );

  await api.send("POST", "/api/projects", { id: "p" }, { query: { x: ["1", "2"], y: null } });

  assert.equal(requests[0].headers.Authorization, "Bearer token");
  assert.equal(requests[0].headers["Content-Type"], "application/json");
  assert.equal(requests[0].body, '{"id":"p"}');
});

test("names in URLs are encoded, and slashes of file paths are preserved", () => {
  assert.equal(runPath("a/b?c"), "/api/runs/a%2Fb%3Fc");
  assert.equal(documentPath("p", "docs/a b#.md"), "/api/projects/p/documents/docs/a%20b%23.md");
});

test("an interruption shows at once, and the server's response replaces it", async () => {
  let answer = () => {};
  const { api } = apiOn({
    [`GET ${TURN}`]: json(turn({ blocks: [1] })),
    [`POST ${TURN}/interrupt`]: () => new Promise((resolve) => (answer = resolve)),
  });
  await api.get(TURN);
  const seen = [];
  api.cache.watch(TURN, ({ status, error }) => seen.push([status, error]));

  const done = interrupt(api, ID, "enough");
  await Promise.resolve();
  assert.deepEqual(api.cache.view(TURN).status, "failed");
  assert.deepEqual(api.cache.confirmed(TURN).status, "running");
  answer(json(turn({ status: "failed", error: "interrupted: enough", blocks: undefined })));
  await done;

  assert.deepEqual(seen, [
    ["failed", "enough"],
    ["failed", "interrupted: enough"],
  ]);
  assert.deepEqual(api.cache.view(TURN).blocks, [1]);
});

test("a refused action is rolled back, over whatever arrived meanwhile", async () => {
  let refuse = () => {};
  let blocks = 0;
  const { api } = apiOn({
    [`GET ${TURN}`]: () => json(turn({ block_count: (blocks += 1) })),
    [`POST ${TURN}/interrupt`]: () => new Promise((resolve) => (refuse = resolve)),
  });
  await api.get(TURN);

  const done = interrupt(api, ID);
  const during = await api.get(TURN);
  const confirmed = await api.get(TURN, { confirmed: true });
  refuse(json({ error: { code: "turn_ended", message: "It is over." } }, { status: 409 }));
  await assert.rejects(done, { code: "turn_ended" });

  assert.deepEqual([during.status, during.block_count], ["failed", 2]);
  assert.equal(confirmed.status, "running");
  assert.deepEqual([api.cache.view(TURN).status, api.cache.view(TURN).block_count], ["running", 3]);
});

test("a response requested before an action is not used after it", async () => {
  const answers = [];
  const { api, requests } = apiOn({
    [`GET ${TURN}`]: () => new Promise((resolve) => answers.push(resolve)),
    [`POST ${TURN}/interrupt`]: json(turn({ status: "failed" })),
  });
  const looking = api.get(TURN);
  await interrupt(api, ID);

  answers[0](json(turn({ status: "running" })));
  await new Promise((resolve) => setImmediate(resolve));
  answers[1](json(turn({ status: "failed" })));

  assert.equal((await looking).status, "failed");
  assert.equal(requests.length, 3);
});

const STARTED = "2025-01-06T10:00:01.000Z";

test("a new turn is listed at once, ends the running one, and keeps its id", async () => {
  let answer = () => {};
  const { api } = apiOn({
    [`GET ${TURNS}`]: json({ turns: [turn()] }),
    [`POST ${TURNS}`]: () => new Promise((resolve) => (answer = resolve)),
  });
  await api.get(TURNS);

  const done = newTurn(api, ID, "go on", "t2");
  await Promise.resolve();
  const shown = api.cache.view(TURNS).turns;
  answer(json(turn({ id: "t2", number: 2, started_at: STARTED }), { status: 201 }));
  await done;

  assert.deepEqual(
    shown.map(({ id, status }) => [id, status]),
    [
      ["t1", "failed"],
      ["t2", "pending"],
    ],
  );
  assert.deepEqual(
    api.cache.view(TURNS).turns.map(({ id, started_at }) => [id, started_at]),
    [
      ["t1", undefined],
      ["t2", STARTED],
    ],
  );
});
