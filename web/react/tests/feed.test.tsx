import { afterEach, describe, expect, test, vi } from "vitest";

import { Api } from "../core/api.js";
import { FeedClient } from "../core/feed.js";
import type { FeedState } from "../core/feed-topic.js";
import { RunFold } from "../core/run-fold.js";
import { address, record } from "./support/journal.js";
import { proxyTo, type Habit, type Proxy } from "./support/proxy.js";

const FASTER = 10; // waits of the feed are so many times shorter

const world = {
  now: () => performance.now() * FASTER,
  setTimeout: (run: () => void, ms: number) => setTimeout(run, ms / FASTER),
};

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function followed(runId: string) {
  const proxy: Proxy = await proxyTo(address);
  const feed = new FeedClient({ api: new Api({ baseUrl: proxy.address }), world });
  closing.push(() => feed.close(), () => proxy.close());
  const ids: string[] = [];
  const states: FeedState[] = [];
  const run = new RunFold(runId);
  feed.subscribe("runs", { onMessage: () => {} });
  feed.subscribe(`run:${runId}`, {
    onMessage: ({ event, data }) => {
      if (event !== "event") return;
      ids.push(data.event.event_id);
      run.add([data.event]);
    },
    onState: (state) => states.push(state),
  });
  return { proxy, feed, ids, states, run };
}

/** As many events as it takes for something to go wrong. */
async function recordSome(runId: string, count: number): Promise<string[]> {
  const stored: string[] = [];
  for (let at = 0; at < count; at += 1) {
    stored.push(...(await record(runId, { type: "tool_call", call_id: `c${at >> 1}`, payload: { operation: "look" } })));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return stored;
}

async function sameAsTheJournal(runId: string, { ids, run }: { ids: string[]; run: RunFold }, stored: string[]) {
  await vi.waitFor(() => expect(ids).toHaveLength(stored.length), { timeout: 30_000, interval: 50 });
  expect(new Set(ids)).toEqual(new Set(stored));
  const here = run.view(Date.now());
  const there = await (await fetch(`${address}/api/runs/${runId}`)).json();
  for (const name of ["status", "events", "counts", "calls", "agents", "failed_calls", "last_event_type"] as const) {
    expect(here?.[name]).toEqual(there[name]);
  }
}

describe("the feed on a real server", () => {
  test("a straight line brings everything live", async () => {
    const runId = "feed-honest";
    const page = await followed(runId);
    const stored = await recordSome(runId, 20);

    await sameAsTheJournal(runId, page, stored);

    expect(page.states).toEqual(["live"]);
  });

  test("a proxy that cuts every connection loses nothing and doubles nothing", async () => {
    const runId = "feed-cut";
    const page = await followed(runId);
    page.proxy.habit = "cuts";
    const stored = await recordSome(runId, 60);

    await sameAsTheJournal(runId, page, stored);
  });

  test("behind a proxy that buffers, long polls bring everything", async () => {
    const runId = "feed-buffers";
    const page = await followed(runId);
    page.proxy.habit = "buffers";
    const stored = await recordSome(runId, 30);

    await sameAsTheJournal(runId, page, stored);

    expect(page.feed.way).toBe("long poll");
    expect(page.feed.state).toBe("polling");
  });

  test("whatever the proxy does next, the page ends up with what the journal holds", async () => {
    const runId = "feed-anything";
    const page = await followed(runId);
    const stored: string[] = [];
    for (const habit of ["cuts", "away", "honest", "buffers", "cuts", "away", "buffers", "honest"] as Habit[]) {
      page.proxy.habit = habit;
      stored.push(...(await recordSome(runId, 15)));
    }
    stored.push(...(await record(runId, { type: "workflow_complete" })));

    await sameAsTheJournal(runId, page, stored);

    expect(page.run.status).toBe("succeeded");
  });
});
