import { act, renderHook, waitFor } from "@testing-library/react";
import { afterEach, describe, expect, test, vi } from "vitest";

import {
  TurnFailed,
  useSessionActions,
  useSessionPolling,
  type Block,
  type Turn,
} from "../index.js";
import {
  end,
  failure,
  newSession,
  newTurn,
  say,
  streamStart,
  streamed,
  text,
} from "./support/journal.js";
import { network, pageOf } from "./support/page.js";

const SOON = { timeout: 15_000 };

const show = (state: "visible" | "hidden") => {
  vi.spyOn(document, "visibilityState", "get").mockReturnValue(state);
  document.dispatchEvent(new Event("visibilitychange"));
};

afterEach(() => vi.restoreAllMocks());

const textOf = (block: Block) => (block.type === "content" ? block.content.text : block.type);

describe("useSessionPolling", () => {
  test("shows blocks as they arrive and stops when the turn is completed", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page, manager } = pageOf(place.projectId);
    const heard: string[] = [];
    const { result } = renderHook(
      () =>
        useSessionPolling({
          sessionId: place.sessionId,
          turnId,
          interval: 50,
          onUpdate: (turn) => heard.push(`${turn.status} ${turn.blocks.length}`),
          onComplete: (turn) => heard.push(`complete ${turn.blocks.length}`),
        }),
      { wrapper: Page },
    );
    expect(result.current.isPolling).toBe(true);
    await waitFor(() => expect(result.current.data?.status).toBe("pending"), SOON);

    await say(place, turnId, text("one"));
    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(1), SOON);
    await say(place, turnId, text("two"), end);
    await waitFor(() => expect(result.current.isPolling).toBe(false), SOON);

    expect(result.current.data?.status).toBe("completed");
    expect(result.current.data?.blocks.map(textOf)).toEqual(["one", "two"]);
    expect(result.current.data?.completed_at).toBeInstanceOf(Date);
    expect(heard.at(-1)).toBe("complete 2");
    expect(heard.filter((each) => each.startsWith("complete "))).toHaveLength(1);
    expect(manager.metrics.keys).toBe(0);
  });

  test("text grows with each poll while its message streams", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page } = pageOf(place.projectId);
    const { result } = renderHook(
      () => useSessionPolling({ sessionId: place.sessionId, turnId, interval: 50 }),
      { wrapper: Page },
    );

    await say(place, turnId, streamStart, streamed("I read "));
    await waitFor(() => expect(result.current.data?.streaming?.text).toBe("I read "), SOON);
    expect(result.current.data?.blocks).toEqual([]);
    await say(place, turnId, streamed("it. "));
    await waitFor(() => expect(result.current.data?.streaming?.text).toBe("I read it. "), SOON);
    await say(place, turnId, text("I read it. Done."), end);
    await waitFor(() => expect(result.current.data?.status).toBe("completed"), SOON);

    expect(result.current.data?.streaming).toBeUndefined();
    expect(result.current.data?.blocks.map(textOf)).toEqual(["I read it. Done."]);
  });

  test("text grows between the polls if the turn is streamed, and its block replaces it", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    await say(place, turnId, text("before"), streamStart, streamed("I "));
    const net = network();
    const { Page } = pageOf(place.projectId, net);
    const shown: string[] = [];
    const { result } = renderHook(
      () => {
        const polled = useSessionPolling({
          sessionId: place.sessionId,
          turnId,
          interval: 600_000,
          stream: true,
        });
        const { blocks = [], streaming } = polled.data ?? {};
        const now = [...blocks.map(textOf), streaming?.text].join("|");
        if (shown.at(-1) !== now) shown.push(now);
        return polled;
      },
      { wrapper: Page },
    );
    await waitFor(() => expect(shown.at(-1)).toBe("before|I "), SOON);
    await waitFor(() => expect(net.streams).not.toHaveLength(0), SOON);

    await say(place, turnId, streamed("read "));
    await waitFor(() => expect(shown.at(-1)).toBe("before|I read "), SOON);
    await say(place, turnId, text("I read it."));
    await waitFor(() => expect(shown.at(-1)).toBe("before|I read it.|"), SOON);
    await say(place, turnId, streamStart, streamed("Then "));
    await waitFor(() => expect(shown.at(-1)).toBe("before|I read it.|Then "), SOON);

    expect(shown.filter((each) => each !== "")).toEqual([
      "before|I ",
      "before|I read ",
      "before|I read it.|",
      "before|I read it.|Then ",
    ]);
    act(() => result.current.refetch());
    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(2), SOON);
    expect(result.current.data?.streaming?.text).toBe("Then ");
  });

  test("reports a failed turn as an error", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    await say(place, turnId, failure);
    const onError = vi.fn();
    const onComplete = vi.fn();
    const { Page } = pageOf(place.projectId);
    const { result } = renderHook(
      () => useSessionPolling({ sessionId: place.sessionId, turnId, onError, onComplete }),
      { wrapper: Page },
    );

    await waitFor(() => expect(result.current.error).toBeInstanceOf(TurnFailed), SOON);

    expect(result.current.data?.status).toBe("failed");
    expect(onError).toHaveBeenCalledTimes(1);
    expect(onComplete).not.toHaveBeenCalled();
  });

  test("polls nothing without a turn, and begins when it has one", async () => {
    const place = await newSession();
    const net = network();
    const { Page } = pageOf(place.projectId, net);
    const { result, rerender } = renderHook(
      ({ turnId }: { turnId?: string }) =>
        useSessionPolling({ sessionId: place.sessionId, turnId }),
      { wrapper: Page, initialProps: {} as { turnId?: string } },
    );
    expect(result.current).toMatchObject({ data: undefined, isPolling: false });
    expect(net.requests).toEqual([]);

    rerender({ turnId: await newTurn(place) });

    expect(result.current.isPolling).toBe(true);
    await waitFor(() => expect(result.current.data?.status).toBe("pending"), SOON);
  });

  test("two components that show one turn cost one poll, and nothing changed costs no render", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const net = network();
    const { Page } = pageOf(place.projectId, net, { strict: false });
    const release = net.hold();
    let renders = 0;
    const { result } = renderHook(
      () => {
        renders += 1;
        const one = useSessionPolling({ sessionId: place.sessionId, turnId, interval: 100 });
        const other = useSessionPolling({ sessionId: place.sessionId, turnId, interval: 100 });
        return { one, other };
      },
      { wrapper: Page },
    );
    await waitFor(() => expect(net.requests.length).toBeGreaterThanOrEqual(1), SOON);
    expect(net.requests).toHaveLength(1); // both wait for its response
    release();
    await waitFor(() => expect(result.current.other.data).toBeDefined(), SOON);
    await waitFor(() => expect(net.requests.length).toBeGreaterThanOrEqual(3), SOON);
    const [before, rendered] = [result.current.one.data, renders];

    await waitFor(() => expect(net.requests.length).toBeGreaterThanOrEqual(7), SOON);

    expect(result.current.one.data).toBe(before);
    expect(renders).toBe(rendered);
  });

  test("an interruption shows before the server has confirmed it", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const net = network();
    const { Page } = pageOf(place.projectId, net);
    const seen: Turn["status"][] = [];
    const { result } = renderHook(
      () => {
        const polled = useSessionPolling({ sessionId: place.sessionId, turnId });
        if (polled.data && seen.at(-1) !== polled.data.status) seen.push(polled.data.status);
        return { ...polled, actions: useSessionActions({ sessionId: place.sessionId }) };
      },
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);

    const release = net.hold();
    const done = result.current.actions.interrupt(turnId, "enough");
    await waitFor(() => expect(result.current.data?.status).toBe("failed"), SOON);
    expect(result.current.isPolling).toBe(true);
    release();
    await act(async () => void (await done));
    await waitFor(() => expect(result.current.isPolling).toBe(false), SOON);

    expect(result.current.error?.message).toContain("enough");
    expect(seen).toEqual(["pending", "failed"]);
  });

  test("an action that cannot be sent is taken back", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const net = network();
    const { Page } = pageOf(place.projectId, net);
    const { result } = renderHook(
      () => ({
        ...useSessionPolling({ sessionId: place.sessionId, turnId }),
        actions: useSessionActions({ sessionId: place.sessionId }),
      }),
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);

    net.isCut = true;
    await act(async () => {
      await expect(result.current.actions.interrupt(turnId)).rejects.toThrow(/No response/);
    });

    expect(result.current.data?.status).toBe("pending");
  });

  test("while the server is away it reports that, and resumes when it is back", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const net = network();
    net.isCut = true;
    const { Page } = pageOf(place.projectId, net);
    const { result } = renderHook(() => useSessionPolling({ sessionId: place.sessionId, turnId }), {
      wrapper: Page,
    });
    await waitFor(() => expect(result.current.error).not.toBeNull(), SOON);
    expect(result.current.isPolling).toBe(true);

    net.isCut = false;
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);

    expect(result.current.error).toBeNull();
  });

  test("is polling only while the page is visible", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page } = pageOf(place.projectId);
    const { result } = renderHook(() => useSessionPolling({ sessionId: place.sessionId, turnId }), {
      wrapper: Page,
    });
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);
    expect(result.current.isPolling).toBe(true);

    act(() => show("hidden"));
    expect(result.current.isPolling).toBe(false);

    act(() => show("visible"));
    expect(result.current.isPolling).toBe(true);
  });

  test("a page unmounted while hidden and mounted again while visible polls", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page } = pageOf(place.projectId);
    const hook = () => useSessionPolling({ sessionId: place.sessionId, turnId, interval: 50 });
    const first = renderHook(hook, { wrapper: Page });
    await waitFor(() => expect(first.result.current.data).toBeDefined(), SOON);
    act(() => show("hidden"));
    first.unmount();
    show("visible");

    const { result } = renderHook(hook, { wrapper: Page });
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);
    await say(place, turnId, text("one"));

    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(1), SOON);
  });

  test("a block that has not changed is the same object after an update", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    await say(place, turnId, text("one"));
    const { Page } = pageOf(place.projectId);
    const updates: Turn[] = [];
    const { result } = renderHook(
      () =>
        useSessionPolling({
          sessionId: place.sessionId,
          turnId,
          interval: 50,
          onUpdate: (turn) => updates.push(turn),
        }),
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(1), SOON);
    const [before] = result.current.data?.blocks ?? [];

    await say(place, turnId, text("two"));
    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(2), SOON);

    expect(result.current.data?.blocks[0]).toBe(before);
    expect(updates.at(-1)?.blocks[0]).toBe(before);
  });

  test("a new turn shows the end of the one that it cancels at once", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page } = pageOf(place.projectId);
    const { result } = renderHook(
      () => ({
        ...useSessionPolling({ sessionId: place.sessionId, turnId, interval: 600_000 }),
        actions: useSessionActions({ sessionId: place.sessionId }),
      }),
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current.data?.status).toBe("pending"), SOON);

    await act(async () => void (await result.current.actions.newTurn("something else")));

    await waitFor(() => expect(result.current.data?.status).toBe("failed"), SOON);
    expect(result.current.isPolling).toBe(false);
  });

  test("an invalidated query is polled at once", async () => {
    const place = await newSession();
    const turnId = await newTurn(place);
    const { Page, queryClient } = pageOf(place.projectId);
    const { result } = renderHook(
      () => useSessionPolling({ sessionId: place.sessionId, turnId, interval: 600_000 }),
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current.data).toBeDefined(), SOON);
    await say(place, turnId, text("one"));

    await act(() => queryClient.invalidateQueries({ queryKey: ["longwatch"] }));

    await waitFor(() => expect(result.current.data?.blocks).toHaveLength(1), SOON);
  });
});
