import { afterEach, describe, expect, test, vi } from "vitest";

import { Api } from "../core/api.js";
import { FeedClient } from "../core/feed.js";
import type { FeedState } from "../core/feed-topic.js";
import { RunFold } from "../core/run-fold.js";
import { address, record } from "./support/journal.js";
import { proxyTo, type Habit, type Proxy } from "./support/proxy.js";

/** Waits of the feed are so many times shorter. */
const worldOf = (faster: number) => ({
  now: () => performance.now() * faster,
  setTimeout: (run: () => void, ms: number) => setTimeout(run, ms / faster),
});

const WAIT = { timeout: 110_000, interval: 50 }; // what has not come by then never comes

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function followed(runId: string, faster = 10) {
  const proxy: Proxy = await proxyTo(address);
  const feed = new FeedClient({
    api: new Api({ baseUrl: proxy.address }),
    environment: worldOf(faster),
  });
  closing.push(
    () => feed.close(),
    () => proxy.close(),
  );
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
    stored.push(
      ...(await record(runId, {
        type: "tool_call",
        call_id: `c${at >> 1}`,
        payload: { operation: "look" },
      })),
    );
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return stored;
}

async function sameAsTheJournal(
  runId: string,
  { ids, run }: { ids: string[]; run: RunFold },
  stored: string[],
) {
  await vi.waitFor(() => expect(ids).toHaveLength(stored.length), WAIT);
  expect(new Set(ids)).toEqual(new Set(stored));
  const here = {
    ...run.summary(Date.now()),
    counts: Object.fromEntries(run.counts),
    calls: run.calls().map((call) => call.view(run.hasEnded)),
  };
  const there = await (await fetch(`${address}/api/runs/${runId}`)).json();
  for (const name of [
    "status",
    "events",
    "counts",
    "calls",
    "agents",
    "failed_calls",
    "last_event_type",
  ] as const) {
    expect(here?.[name]).toEqual(there[name]);
  }
}

describe("the feed on a real server", () => {
  test("a straight line brings everything live", async () => {
    const runId = "feed-honest";
    const page = await followed(runId, 1); // on a busy machine a shorter wait gives up on a sound line
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

    await vi.waitFor(
      () => expect([page.feed.way, page.feed.state]).toEqual(["long poll", "polling"]),
      WAIT,
    );
  });

  test("whatever the proxy does next, the page ends up with what the journal holds", async () => {
    const runId = "feed-anything";
    const page = await followed(runId);
    const stored: string[] = [];
    for (const habit of [
      "cuts",
      "away",
      "honest",
      "buffers",
      "cuts",
      "away",
      "buffers",
      "honest",
    ] as Habit[]) {
      page.proxy.habit = habit;
      stored.push(...(await recordSome(runId, 15)));
    }
    stored.push(...(await record(runId, { type: "workflow_complete" })));

    await sameAsTheJournal(runId, page, stored);

    expect(page.run.status).toBe("succeeded");
  });
});
