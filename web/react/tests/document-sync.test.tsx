import { waitFor } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import * as Y from "yjs";

import { FakeEnvironment } from "../../../tests/web/support/environment.js";
import { Api } from "../core/api.js";
import { DocumentSync, nextStep } from "../src/yjs-sync.js";
import { address, deleteFile, fileText, newSession, putFile } from "./support/journal.js";
import { network } from "./support/page.js";

const SOON = { timeout: 15_000 };
const HOUR = 3_600_000;

class FakeDocument extends EventTarget {
  visibilityState = "visible";

  turn(state: string) {
    this.visibilityState = state;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

/** A document and its file, with a clock, a page and a network in the hands of the test. */
async function synced({ projectId = "", doc = new Y.Doc() } = {}) {
  const project = projectId || (await newSession()).projectId;
  const environment = new FakeEnvironment();
  const net = network();
  const posts: { bytes: number; keepalive: boolean }[] = [];
  const page = { window: new EventTarget(), document: new FakeDocument() };
  const state = { isPaused: false, refusal: 0, errors: [] as string[], unsaved: [] as boolean[] };
  const fetch: typeof net.fetch = async (asked, options) => {
    if (options?.method === "POST") {
      posts.push({
        bytes: (options.body as Uint8Array).length,
        keepalive: options.keepalive === true,
      });
      if (state.refusal)
        return Response.json(
          { error: { code: "no", message: "Refused." } },
          { status: state.refusal },
        );
    }
    return net.fetch(asked, options);
  };
  const sync = new DocumentSync({
    api: new Api({ baseUrl: address, fetch }),
    projectId: project,
    path: "a.md",
    doc,
    isPaused: () => state.isPaused,
    onError: (error) => state.errors.push(error.message),
    onUnsaved: (hasUnsaved) => state.unsaved.push(hasUnsaved),
    environment,
    ...page,
  });
  return {
    sync,
    doc,
    words: doc.getText("content"),
    environment,
    net,
    posts,
    state,
    ...page,
    projectId: project,
  };
}

const stored = (projectId: string, text: string) =>
  waitFor(async () => expect(await fileText(projectId, "a.md")).toBe(text), SOON);
const saved = (sync: DocumentSync) =>
  waitFor(() => expect(sync.hasUnsavedChanges).toBe(false), SOON);
const shown = (words: Y.Text, text: string) =>
  waitFor(() => expect(words.toString()).toBe(text), SOON);

describe("the next step of a sync", () => {
  const idle = {
    hasEdits: false,
    areRefused: false,
    needsPull: false,
    isPaused: false,
    isStopped: false,
  };

  test.each([
    ["nothing to do", {}, null],
    ["edits are sent", { hasEdits: true }, "push"],
    ["edits go before a pull", { hasEdits: true, needsPull: true }, "push"],
    ["edits are sent in a pause", { hasEdits: true, isPaused: true }, "push"],
    ["edits are sent after the end", { hasEdits: true, isStopped: true }, "push"],
    ["refused edits wait", { hasEdits: true, areRefused: true }, null],
    [
      "refused edits do not hold back a pull",
      { hasEdits: true, areRefused: true, needsPull: true },
      "pull",
    ],
    ["a pull waits for the end of a pause", { needsPull: true, isPaused: true }, null],
    ["nothing is pulled after the end", { needsPull: true, isStopped: true }, null],
  ])("%s", (_, state, step) => {
    expect(nextStep({ ...idle, ...state })).toBe(step);
  });
});

describe("an outage", () => {
  test("edits made in it are sent when it ends, however long it was, with retries at most 30 s apart", async () => {
    const { sync, words, environment, net, posts, state, projectId } = await synced();
    net.isCut = true;
    words.insert(0, "typed offline");
    await environment.advance(5 * HOUR);
    expect(posts.length).toBeGreaterThan(5 * 120 - 10);
    words.insert(13, ", hours later");
    expect(sync.hasUnsavedChanges).toBe(true);

    net.isCut = false;
    await environment.advance(30_000);

    await stored(projectId, "typed offline, hours later");
    await saved(sync);
    expect(state.unsaved).toEqual([true, false]);
    sync.stop();
  });

  test.each(["online", "visible"])(
    "a page that comes back (%s) does not wait for the backoff",
    async (how) => {
      const { sync, words, environment, net, window, document, projectId } = await synced();
      net.isCut = true;
      words.insert(0, "typed offline");
      await environment.advance(HOUR);
      net.isCut = false;

      if (how === "online") window.dispatchEvent(new Event("online"));
      else document.turn("visible");

      await stored(projectId, "typed offline");
      sync.stop();
    },
  );

  test("a pull that failed is retried", async () => {
    const { sync, words, environment, net, projectId } = await synced();
    await putFile(projectId, "a.md", "from the server");
    net.isCut = true;
    sync.pull();
    await environment.advance(HOUR);

    net.isCut = false;
    await environment.advance(30_000);

    await shown(words, "from the server");
    sync.stop();
  });

  test("a pull that failed is not retried in a pause, and is when that ends", async () => {
    const { sync, words, environment, net, state, window, document, projectId } = await synced();
    await putFile(projectId, "a.md", "from the server");
    net.isCut = true;
    sync.pull();
    await environment.advance(1_000);
    state.isPaused = true;
    net.isCut = false;
    const asked = net.requests.length;

    await environment.advance(HOUR);
    document.turn("hidden");
    document.turn("visible");
    window.dispatchEvent(new Event("online"));
    await environment.advance(HOUR);
    expect(net.requests).toHaveLength(asked);

    state.isPaused = false;
    sync.resume();
    await shown(words, "from the server");
    sync.stop();
  });

  test("a request without a response is given up after two minutes and sent again", async () => {
    const { sync, words, environment, net, state, projectId } = await synced();
    const fetched = net.fetch;
    net.fetch = (_, options) =>
      new Promise((_, reject) =>
        options?.signal?.addEventListener("abort", () => reject(options.signal?.reason)),
      );
    words.insert(0, "sent into the void");
    await environment.advance(119_000);
    expect(state.errors).toEqual([]);
    net.fetch = fetched;

    await environment.advance(5_000);

    await stored(projectId, "sent into the void");
    expect(state.errors).toEqual([
      "No response for document a.md within 120 s. The request is retried.",
    ]);
    sync.stop();
  });
});

describe("leaving", () => {
  test("a page that is left sends what no request under way holds, in a request that outlives it", async () => {
    for (const leave of ["pagehide", "hidden"]) {
      const { sync, words, environment, net, posts, window, document, projectId } = await synced();
      const release = net.hold();
      words.insert(0, "one");
      await environment.advance(0);
      words.insert(3, " two");
      expect(posts).toHaveLength(1);

      if (leave === "hidden") document.turn("hidden");
      else window.dispatchEvent(new Event("pagehide"));

      expect(posts).toHaveLength(2);
      expect(posts.every(({ keepalive }) => keepalive)).toBe(true);
      release();
      await stored(projectId, "one two");
      await saved(sync);
      sync.stop();
    }
  });

  test("an update too large to outlive a page is sent as usual, and counts as unsaved until it is confirmed", async () => {
    const { sync, words, posts, state, projectId } = await synced();

    words.insert(0, "x".repeat(100_000));
    expect(sync.hasUnsavedChanges).toBe(true);

    await stored(projectId, "x".repeat(100_000));
    await saved(sync);
    expect(posts.map(({ keepalive }) => keepalive)).toEqual([false]);
    expect(state.errors).toEqual([]);
    sync.stop();
  });

  test("a sync that is stopped in an outage sends its edits after it, then leaves no timer and no listener", async () => {
    const { sync, words, environment, net, posts, window, projectId } = await synced();
    net.isCut = true;
    words.insert(0, "typed offline");
    await environment.advance(1_000);
    sync.stop();
    words.insert(0, "not watched any more: ");
    await environment.advance(HOUR);

    net.isCut = false;
    await environment.advance(30_000);

    await stored(projectId, "typed offline");
    await saved(sync);
    const sent = posts.length;
    window.dispatchEvent(new Event("online"));
    await environment.advance(HOUR);
    expect(posts).toHaveLength(sent);
    expect(environment.pending).toBe(0);
  });
});

describe("a refusal", () => {
  test.each([400, 403, 404, 409, 413])(
    "with %i is reported once, and the edits stay",
    async (status) => {
      const { sync, words, environment, posts, state, projectId } = await synced();
      await putFile(projectId, "a.md", "of others");
      state.refusal = status;
      words.insert(0, "mine");

      await environment.advance(HOUR);
      sync.pull();

      await waitFor(() => expect(words.toString()).toContain("of others"), SOON);
      expect(words.toString()).toContain("mine");
      expect(posts).toHaveLength(1);
      expect(state.errors).toEqual(["Refused."]);
      expect(sync.hasUnsavedChanges).toBe(true);
      sync.stop();
    },
  );

  test("is tried again with the next edit, without the text that was removed since", async () => {
    const { sync, words, environment, posts, state, projectId } = await synced();
    state.refusal = 413;
    words.insert(0, "x".repeat(50_000));
    await environment.advance(0);
    await waitFor(() => expect(state.errors).toHaveLength(1), SOON);
    state.refusal = 0;

    words.delete(10, 49_990);

    await stored(projectId, "x".repeat(10));
    await saved(sync);
    expect(posts[1]?.bytes).toBeLessThan(200);
    sync.stop();
  });
});

describe("a file that is deleted", () => {
  test("empties the document, and what is typed then makes the file anew without the old text", async () => {
    const { sync, doc, words, projectId } = await synced();
    await putFile(projectId, "a.md", "old text");
    sync.pull();
    await shown(words, "old text");
    await deleteFile(projectId, "a.md");

    sync.pull();
    await shown(words, "");
    words.insert(0, "new text");

    await stored(projectId, "new text");
    await saved(sync);
    expect(doc.getText("content").toString()).toBe("new text");
    sync.stop();
  });

  test("keeps what was typed before this page knew, and only that", async () => {
    const { sync, words, environment, net, projectId } = await synced();
    await putFile(projectId, "a.md", "old text");
    sync.pull();
    await shown(words, "old text");
    net.isCut = true;
    words.insert(8, ", new words");
    await deleteFile(projectId, "a.md");
    await environment.advance(60_000);
    net.isCut = false;

    sync.pull();
    sync.retry();

    await stored(projectId, ", new words");
    await shown(words, ", new words");
    sync.stop();
  });

  test("empties a document that is opened again with its old text", async () => {
    const first = await synced();
    const { doc, projectId } = first;
    first.words.insert(0, "old text");
    await stored(projectId, "old text");
    first.sync.stop();
    await deleteFile(projectId, "a.md");

    const { sync, words } = await synced({ projectId, doc });
    sync.pull();

    await shown(words, "");
    await expect(fileText(projectId, "a.md")).rejects.toThrow("404");
    sync.stop();
  });

  test("and bytes: the document has none any more", async () => {
    const { sync, doc, projectId } = await synced();
    const file = doc.getMap("file");
    const put = {
      method: "PUT",
      body: new Uint8Array([1, 2]),
      headers: { "Content-Type": "application/octet-stream" },
    };
    await fetch(`${address}/api/projects/${projectId}/content/a.md`, put);
    sync.pull();
    await waitFor(() => expect(file.has("bytes")).toBe(true), SOON);
    await deleteFile(projectId, "a.md");

    sync.pull();

    await waitFor(() => expect(file.has("bytes")).toBe(false), SOON);
    sync.stop();
  });

  test("is not one that the server has never had: the document keeps its text", async () => {
    const { sync, words, environment, net, state } = await synced();
    const fetched = net.fetch;
    words.insert(0, "the last copy");
    await saved(sync);
    net.fetch = async (asked, options) => {
      if (asked.includes("/documents/")) return new Response(null, { status: 404 });
      return asked.includes("/files")
        ? Response.json({ version: 0, files: [] })
        : fetched(asked, options);
    };

    sync.pull();
    await environment.advance(HOUR);

    expect(words.toString()).toBe("the last copy");
    expect(state.errors).toEqual([]);
    sync.stop();
  });
});
