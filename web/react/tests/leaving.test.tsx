import { renderHook, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import * as Y from "yjs";

import { useDocumentPolling, useFeed, usePollingManager, useSessionPolling } from "../index.js";
import { newSession, newTurn, putFile, say, text } from "./support/journal.js";
import { network, pageOf } from "./support/page.js";

const SOON = { timeout: 15_000 };

/** The timers that this test has set and that have neither run nor been cleared. */
const timers = new Set<ReturnType<typeof setTimeout>>();
let native: { setTimeout: typeof setTimeout; clearTimeout: typeof clearTimeout };

beforeEach(() => {
  timers.clear();
  native = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  vi.stubGlobal("setTimeout", (run: () => void, ms?: number) => {
    const timer = native.setTimeout(() => {
      timers.delete(timer);
      run();
    }, ms);
    timers.add(timer);
    return timer;
  });
  vi.stubGlobal("clearTimeout", (timer: ReturnType<typeof setTimeout>) => {
    timers.delete(timer);
    native.clearTimeout(timer);
  });
});

afterEach(() => vi.unstubAllGlobals());

/** Those of ours: Node's own fetch lets go of the timers that keep its connections. */
const left = () => [...timers].filter((timer) => timer.hasRef());

describe("leaving", () => {
  test("an unmounted page leaves no timer, no stream and no request", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    await putFile(place.projectId, "a.md", "first");
    const net = network();
    const { Page, manager, queryClient } = pageOf(place.projectId, net);
    const messages: string[] = [];
    const doc = new Y.Doc();
    const { result, unmount } = renderHook(
      () => {
        const turn = useSessionPolling({ sessionId: place.sessionId, turnId, interval: 100 });
        const files = useDocumentPolling({ interval: 100, documents: { "a.md": doc } });
        const state = useFeed(`session:${place.projectId}/${place.sessionId}`, {
          onMessage: (message) => messages.push(message.event),
        });
        return { turn, files, state };
      },
      { wrapper: Page },
    );
    await waitFor(
      () => expect(result.current.turn.data && result.current.files.data).toBeDefined(),
      SOON,
    );
    await waitFor(() => expect(result.current.state).toBe("live"), SOON);
    await say(place, turnId, text("one"));
    await waitFor(() => expect(messages).toContain("block"), SOON);
    expect(net.streams.map((signal) => signal.aborted)).toEqual([false]); // one, though strict mode mounts twice

    unmount();
    const asked = net.requests.length;
    await new Promise((resolve) => native.setTimeout(resolve, 700)); // the query cache keeps answers for 500 ms

    expect(net.streams.map((signal) => signal.aborted)).toEqual([true]);
    expect(net.requests).toHaveLength(asked);
    expect(manager.metrics).toMatchObject({ keys: 0, inFlight: 0, queued: 0 });
    expect(queryClient.getQueryCache().getAll()).toEqual([]);
    expect(left()).toHaveLength(0);
  });

  test("a page that is left while it asks hears nothing of the answer", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const net = network();
    const { Page, manager } = pageOf(place.projectId, net);
    const release = net.hold();
    const onUpdate = vi.fn();
    const { unmount } = renderHook(
      () => useSessionPolling({ sessionId: place.sessionId, turnId, onUpdate }),
      {
        wrapper: Page,
      },
    );
    await waitFor(() => expect(net.requests.length).toBeGreaterThan(0), SOON);

    unmount();
    release();
    await new Promise((resolve) => native.setTimeout(resolve, 700));

    expect(onUpdate).not.toHaveBeenCalled();
    expect(manager.metrics.keys).toBe(0);
    expect(left()).toHaveLength(0);
  });

  test("the manager of the provider is the one that polls", async () => {
    const place = await newSession();
    const { Page, manager } = pageOf(place.projectId);
    const { result, unmount } = renderHook(() => usePollingManager(), { wrapper: Page });

    expect(result.current).toBe(manager);
    unmount();
  });

  test("hooks outside a provider say what is missing", () => {
    const quiet = vi.spyOn(console, "error").mockImplementation(() => {});

    expect(() => renderHook(() => usePollingManager())).toThrow(/LongwatchProvider/);
    quiet.mockRestore();
  });
});
