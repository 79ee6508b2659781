import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../web/react/core/api.js";
import { DocumentPolling } from "../../web/react/src/polling/documents.js";
import { PollingManager } from "../../web/react/src/polling/polling-manager.js";
import { FakeEnvironment } from "./support/environment.js";

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
    this.files.set(path, {
      path,
      version,
      at: this.version,
      last_modified: at(this.version),
      deleted: false,
    });
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
    const files =
      since === null ? all.filter((file) => !file.deleted) : all.filter((file) => file.at > since);
    return Response.json({ version: this.version, files }, { headers: { ETag: tag } });
  };
}

function polled(project, options = {}) {
  const environment = new FakeEnvironment();
  const shared = {
    api: new Api({ fetch: project.fetch }),
    manager: new PollingManager({ environment }),
    environment,
  };
  const received = [];
  const make = (more) =>
    new DocumentPolling({
      ...shared,
      projectId: "p",
      onDocumentChange: (changes) =>
        received.push(...changes.map(({ changeType, filePath }) => `${changeType} ${filePath}`)),
      ...more,
    });
  return { environment, received, make, polling: make(options) };
}

test("it polls every 3 s and reports files that were created, modified and deleted since", async () => {
  const project = new Project();
  project.put("a.md");
  project.put("b.md");
  const { environment, received } = polled(project);
  await environment.advance(10);
  assert.deepEqual(received, []);

  project.put("a.md");
  project.remove("b.md");
  project.put("c.md");
  await environment.advance(3_000);

  assert.deepEqual(received, ["modified a.md", "deleted b.md", "created c.md"]);
  assert.deepEqual(project.requests, [null, "2"]);
});

test("only the requested files are reported", async () => {
  const project = new Project();
  const { environment, received } = polled(project, { filePaths: ["a.md"] });
  await environment.advance(10);

  project.put("a.md");
  project.put("b.md");
  await environment.advance(3_000);

  assert.deepEqual(received, ["created a.md"]);
});

test("a file that came and went between two polls is not reported, and one that came back is created", async () => {
  const project = new Project();
  project.put("a.md");
  const { environment, received } = polled(project);
  await environment.advance(10);
  project.put("short.md");
  project.remove("short.md");
  project.remove("a.md");
  await environment.advance(3_000);

  project.put("a.md");
  await environment.advance(3_000);

  assert.deepEqual(received, ["deleted a.md", "created a.md"]);
});

test("a change has its time and version", async () => {
  const project = new Project();
  const changes = [];
  const { environment } = polled(project, {
    onDocumentChange: (reported) => changes.push(...reported),
  });
  await environment.advance(10);

  project.put("a.md");
  await environment.advance(3_000);

  assert.deepEqual(changes, [
    { filePath: "a.md", lastModified: new Date(at(1)), changeType: "created", version: 1 },
  ]);
});

test("a later subscriber shares the requests and is compared with its own first poll", async () => {
  const project = new Project();
  const { environment, received, make } = polled(project);
  await environment.advance(10);
  project.put("a.md");
  await environment.advance(3_000);
  received.length = 0;
  make({});
  await environment.advance(600);

  project.put("b.md");
  await environment.advance(3_000);

  assert.deepEqual(received, ["created b.md", "created b.md"]);
});

test("a store that was reset is listed anew", async () => {
  const project = new Project();
  project.put("a.md");
  project.put("a.md");
  const { environment, received } = polled(project);
  await environment.advance(10);

  project.version = 0;
  project.files.clear();
  project.put("b.md");
  await environment.advance(3_000);

  assert.deepEqual(received, ["created b.md", "deleted a.md"]);
});

test("a subscriber that stops leaves no timer", async () => {
  const { environment, polling } = polled(new Project());
  await environment.advance(10);

  polling.stop();

  assert.equal(environment.pending, 0);
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
    const { environment, received, polling } = polled(project, {
      hasOpenDocuments: () => hasOpenDocuments,
    });
    await environment.advance(10);
    project.failure = failure;
    await environment.advance(5 * 3_600_000);
    assert.equal(polling.isPolling, resumes);

    project.failure = null;
    project.put("a.md");
    await environment.advance(60_000);

    assert.deepEqual(received, resumes ? ["created a.md"] : []);
    polling.stop();
    assert.equal(environment.pending, 0);
  });
}

test("an application's pause holds back the polls that an outage had stopped", async () => {
  const project = new Project();
  const environment = new FakeEnvironment();
  const manager = new PollingManager({ environment });
  const { polling } = polled(project, { environment, manager, hasOpenDocuments: () => true });
  await environment.advance(10);
  project.failure = 503;
  await environment.advance(60_000);
  manager.pause();
  const before = project.requests.length;

  await environment.advance(3_600_000);
  assert.equal(project.requests.length, before);

  project.failure = null;
  manager.resume();
  await environment.advance(0);
  assert.equal(project.requests.length, before + 1);
  polling.stop();
});
