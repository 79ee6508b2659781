import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../web/react/core/api.js";
import { DocumentPolling } from "../../web/react/src/polling/documents.js";
import { PollingManager } from "../../web/react/src/polling/polling-manager.js";
import { FakeWorld } from "./support/world.js";

const at = (version) => new Date(Date.UTC(2025, 0, 6, 10, 0, version)).toISOString();

/** A project whose every change is a version, with tombstones for those who ask since one. */
class Project {
  version = 0;
  files = new Map();
  requests = [];
  failure = null; // the status that every request gets

  put(path) {
    this.version += 1;
    const version = (this.files.get(path)?.version ?? 0) + 1;
    this.files.set(path, { path, version, at: this.version, last_modified: at(this.version), deleted: false });
  }

  remove(path) {
    this.put(path);
    this.files.get(path).deleted = true;
  }

  fetch = async (address, { headers }) => {
    const since = new URL(address, "http://server").searchParams.get("since");
    const tag = `W/"${this.version}"`;
    this.requests.push(since);
    if (this.failure !== null) return new Response(null, { status: this.failure });
    if (headers["If-None-Match"] === tag) return new Response(null, { status: 304 });
    const all = [...this.files.values()];
    const files = since === null ? all.filter((file) => !file.deleted) : all.filter((file) => file.at > since);
    return Response.json({ version: this.version, files }, { headers: { ETag: tag } });
  };
}

function polled(project, options = {}) {
  const world = new FakeWorld();
  const shared = { api: new Api({ fetch: project.fetch }), manager: new PollingManager({ world }), world };
  const heard = [];
  const make = (more) =>
    new DocumentPolling({
      ...shared,
      projectId: "p",
      onDocumentChange: (changes) => heard.push(...changes.map(({ changeType, filePath }) => `${changeType} ${filePath}`)),
      ...more,
    });
  return { world, heard, make, polling: make(options) };
}

test("it looks every 3 s and tells what was created, modified and deleted since", async () => {
  const project = new Project();
  project.put("a.md");
  project.put("b.md");
  const { world, heard } = polled(project);
  await world.advance(10);
  assert.deepEqual(heard, []);

  project.put("a.md");
  project.remove("b.md");
  project.put("c.md");
  await world.advance(3_000);

  assert.deepEqual(heard, ["modified a.md", "deleted b.md", "created c.md"]);
  assert.deepEqual(project.requests, [null, "2"]);
});

test("only the files that were asked for are told", async () => {
  const project = new Project();
  const { world, heard } = polled(project, { filePaths: ["a.md"] });
  await world.advance(10);

  project.put("a.md");
  project.put("b.md");
  await world.advance(3_000);

  assert.deepEqual(heard, ["created a.md"]);
});

test("a file that came and went between two looks is not told, and one that came back is created", async () => {
  const project = new Project();
  project.put("a.md");
  const { world, heard } = polled(project);
  await world.advance(10);
  project.put("short.md");
  project.remove("short.md");
  project.remove("a.md");
  await world.advance(3_000);

  project.put("a.md");
  await world.advance(3_000);

  assert.deepEqual(heard, ["deleted a.md", "created a.md"]);
});

test("a change says when and which version", async () => {
  const project = new Project();
  const changes = [];
  const { world } = polled(project, { onDocumentChange: (told) => changes.push(...told) });
  await world.advance(10);

  project.put("a.md");
  await world.advance(3_000);

  assert.deepEqual(changes, [{ filePath: "a.md", lastModified: new Date(at(1)), changeType: "created", version: 1 }]);
});

test("who joins later shares the requests and is compared with its own first look", async () => {
  const project = new Project();
  const { world, heard, make } = polled(project);
  await world.advance(10);
  project.put("a.md");
  await world.advance(3_000);
  heard.length = 0;
  make({});
  await world.advance(600);

  project.put("b.md");
  await world.advance(3_000);

  assert.deepEqual(heard, ["created b.md", "created b.md"]);
});

test("a store that was set back is listed anew", async () => {
  const project = new Project();
  project.put("a.md");
  project.put("a.md");
  const { world, heard } = polled(project);
  await world.advance(10);

  project.version = 0;
  project.files.clear();
  project.put("b.md");
  await world.advance(3_000);

  assert.deepEqual(heard, ["created b.md", "deleted a.md"]);
});

test("one who stops leaves no timer", async () => {
  const { world, polling } = polled(new Project());
  await world.advance(10);

  polling.stop();

  assert.equal(world.pending, 0);
  assert.equal(polling.isPolling, false);
});

for (const [failure, hasOpenDocuments, resumes] of [
  [503, true, true],
  [503, false, false],
  [403, true, false],
]) {
  const how = resumes ? "outlasts an outage of hours" : "gives up at the sixth failure";
  const documents = hasOpenDocuments ? "with open documents" : "without open documents";
  test(`after ${failure}, polling ${documents} ${how}`, async () => {
    const project = new Project();
    const { world, heard, polling } = polled(project, { hasOpenDocuments: () => hasOpenDocuments });
    await world.advance(10);
    project.failure = failure;
    await world.advance(5 * 3_600_000);
    assert.equal(polling.isPolling, resumes);

    project.failure = null;
    project.put("a.md");
    await world.advance(60_000);

    assert.deepEqual(heard, resumes ? ["created a.md"] : []);
    polling.stop();
    assert.equal(world.pending, 0);
  });
}

test("an application's pause holds back the polls that an outage had stopped", async () => {
  const project = new Project();
  const world = new FakeWorld();
  const manager = new PollingManager({ world });
  const { polling } = polled(project, { world, manager, hasOpenDocuments: () => true });
  await world.advance(10);
  project.failure = 503;
  await world.advance(60_000);
  manager.pause();
  const before = project.requests.length;

  await world.advance(3_600_000);
  assert.equal(project.requests.length, before);

  project.failure = null;
  manager.resume();
  await world.advance(0);
  assert.equal(project.requests.length, before + 1);
  polling.stop();
});
