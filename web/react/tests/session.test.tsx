import { act, render, renderHook, waitFor } from "@testing-library/react";
import { StrictMode } from "react";
import { afterEach, describe, expect, test, vi } from "vitest";

import {
  ApiError,
  LongwatchProvider,
  useProjectActions,
  useSession,
  type SessionTurn,
} from "../index.js";
import {
  address,
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

afterEach(() => vi.restoreAllMocks());

const words = ({ blocks, streaming }: SessionTurn) => [
  ...blocks.map((block) => (block.type === "content" ? block.content.text : block.type)),
  ...(streaming ? [`${streaming.text}…`] : []),
];
const said = (turns: SessionTurn[]) =>
  turns.map((turn) => `${turn.prompt} ${turn.status} ${words(turn).join("|")}`.trim());

/** The hook below a strict page. */
function opened(projectId: string, sessionId: string, net = network()) {
  const { Page } = pageOf(projectId, net);
  const hook = renderHook((session: string) => useSession(projectId, session), {
    wrapper: Page,
    initialProps: sessionId,
  });
  return { ...hook, net, Page };
}

const show = (state: "visible" | "hidden") => {
  vi.spyOn(document, "visibilityState", "get").mockReturnValue(state);
  document.dispatchEvent(new Event("visibilitychange"));
};

describe("useSession", () => {
  test("shows the history, then the live turn with its streaming text, and real dates", async () => {
    const place = await newSession();
    const first = await newTurn(place, "first");
    await say(place, first, text("one"), end);
    const second = await newTurn(place, "second");
    const { result } = opened(place.projectId, place.sessionId);
    expect(result.current).toMatchObject({ turns: [], isLoading: true, error: null });

    await waitFor(() => expect(result.current.isLoading).toBe(false), SOON);
    expect(said(result.current.turns)).toEqual(["first completed one", "second pending"]);
    expect(result.current.liveTurn?.id).toBe(second);
    await waitFor(() => expect(result.current.connection).toBe("live"), SOON);

    await say(place, second, streamStart, streamed("I "));
    await waitFor(() => expect(said(result.current.turns)[1]).toBe("second running I …"), SOON);
    await say(place, second, streamed("read "));
    await waitFor(
      () => expect(said(result.current.turns)[1]).toBe("second running I read …"),
      SOON,
    );
    await say(place, second, text("I read."), end);
    await waitFor(() => expect(result.current.liveTurn).toBeUndefined(), SOON);

    expect(said(result.current.turns)[1]).toBe("second completed I read.");
    const [turn] = result.current.turns;
    expect(turn?.completed_at).toBeInstanceOf(Date);
    expect(turn?.blocks[0]?.created_at).toBeInstanceOf(Date);
    expect(result.current.turns[1]?.block_count).toBe(1);
  });

  test("turns, blocks and actions that have not changed are the same objects", async () => {
    const place = await newSession();
    await say(place, await newTurn(place, "first"), text("one"), end);
    const second = await newTurn(place, "second");
    await say(place, second, text("two"));
    const { result, rerender } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.turns[1]?.blocks).toHaveLength(1), SOON);
    const before = result.current;
    rerender(place.sessionId);
    expect(result.current).toBe(before);

    await say(place, second, text("three"));
    await waitFor(() => expect(result.current.turns[1]?.blocks).toHaveLength(2), SOON);

    expect(result.current.turns[0]).toBe(before.turns[0]);
    expect(result.current.turns[1]).not.toBe(before.turns[1]);
    expect(result.current.turns[1]?.blocks[0]).toBe(before.turns[1]?.blocks[0]);
    expect(result.current.send).toBe(before.send);
  });

  test("a prompt shows at once, with the same id before and after the response, and cancels the running turn", async () => {
    const place = await newSession();
    const first = await newTurn(place, "first");
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.liveTurn?.id).toBe(first), SOON);

    const release = net.hold();
    let sent!: ReturnType<typeof result.current.send>;
    act(() => void (sent = result.current.send("second")));
    expect(said(result.current.turns)).toEqual(["first failed", "second pending"]);
    expect(result.current.turns[0]?.error).toBe("cancelled by a new turn");
    expect(result.current.liveTurn?.isUnconfirmed).toBe(true);
    const { id } = result.current.turns[1]!;
    release();
    const turn = await act(() => sent);

    expect(turn.id).toBe(id);
    expect(turn.created_at).toBeInstanceOf(Date);
    await waitFor(() => expect(result.current.turns[0]?.status).toBe("failed"), SOON);
    expect(result.current.turns.map((each) => each.id)).toEqual([first, id]);
    expect(result.current.liveTurn?.isUnconfirmed).toBeUndefined();
  });

  test("a prompt that cannot be sent is removed, and the running turn continues", async () => {
    const place = await newSession();
    const first = await newTurn(place, "first");
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.liveTurn?.id).toBe(first), SOON);

    net.isCut = true;
    await act(() => expect(result.current.send("second")).rejects.toThrow(/No response/));

    expect(said(result.current.turns)).toEqual(["first pending"]);
    expect(result.current.liveTurn?.id).toBe(first);
  });

  test("an interruption shows at once, and is rolled back if it cannot be sent", async () => {
    const place = await newSession();
    await newTurn(place, "first");
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.liveTurn).toBeDefined(), SOON);

    net.isCut = true;
    let stopped!: Promise<void>;
    act(() => void (stopped = result.current.interrupt("enough")));
    expect(result.current.turns[0]).toMatchObject({ status: "failed", error: "enough" });
    await act(() => expect(stopped).rejects.toThrow(/No response/));
    expect(result.current.liveTurn?.status).toBe("pending");

    net.isCut = false;
    await act(() => result.current.interrupt("enough"));
    expect(result.current.turns[0]?.error).toContain("enough");
    await act(() => result.current.interrupt()); // nothing is running
  });

  test("a prompt can be interrupted before the server has confirmed it", async () => {
    const place = await newSession();
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.isLoading).toBe(false), SOON);

    const release = net.hold();
    let done!: Promise<unknown>;
    act(() => void (done = result.current.send("a")));
    act(() => void (done = Promise.all([done, result.current.interrupt()])));
    expect(said(result.current.turns)).toEqual(["a failed"]);
    release();
    await act(() => done);

    await waitFor(() => expect(said(result.current.turns)).toEqual(["a failed"]), SOON);
    expect(result.current.turns[0]?.error).toContain("interrupted");
  });

  test("a session that does not exist is empty, and is created by the first prompt for two tabs", async () => {
    const projectId = `new-${process.pid}`;
    const [one, other] = [opened(projectId, "chat"), opened(projectId, "chat")];
    for (const { result } of [one, other]) {
      await waitFor(() => expect(result.current.isLoading).toBe(false), SOON);
      expect(result.current).toMatchObject({ turns: [], error: null });
    }

    await act(async () => void (await one.result.current.send("hello")));

    for (const { result } of [one, other])
      await waitFor(() => expect(said(result.current.turns)).toEqual(["hello pending"]), SOON);
    const turnId = one.result.current.liveTurn!.id;
    await say({ projectId, sessionId: "chat" }, turnId, text("Hi."), end);
    for (const { result } of [one, other])
      await waitFor(
        () => expect(said(result.current.turns)).toEqual(["hello completed Hi."]),
        SOON,
      );
  });

  test("nothing of the session before is shown after a switch, and it is there at once on the way back", async () => {
    const [one, other] = [await newSession(), await newSession()];
    const { projectId } = one;
    const slow = await newTurn(one, "slow");
    const net = network();
    const { Page } = pageOf(projectId, net);
    const seen: string[][] = [];
    const { result, rerender } = renderHook(
      (place: { projectId: string; sessionId: string }) => {
        const session = useSession(place.projectId, place.sessionId);
        if (place === other) seen.push(said(session.turns));
        return session;
      },
      { wrapper: Page, initialProps: one },
    );
    await waitFor(() => expect(result.current.liveTurn?.id).toBe(slow), SOON);

    const release = net.hold();
    let sent!: Promise<unknown>;
    act(() => void (sent = result.current.send("late")));
    rerender(other);
    expect(result.current.turns).toEqual([]);
    release();
    await act(() => sent);
    await say(one, ((await sent) as SessionTurn).id, text("late answer"), end);
    await waitFor(() => expect(result.current.isLoading).toBe(false), SOON);

    expect(new Set(seen.map(String))).toEqual(new Set([""]));
    rerender(one);
    expect(result.current.turns.map(({ prompt }) => prompt)).toEqual(["slow", "late"]);
    await waitFor(
      () =>
        expect(said(result.current.turns)).toEqual(["slow failed", "late completed late answer"]),
      SOON,
    );
  });

  test("components of a page share one stream and the unconfirmed actions", async () => {
    const place = await newSession();
    const net = network();
    const { Page } = pageOf(place.projectId, net);
    const { result } = renderHook(
      () => [0, 1].map(() => useSession(place.projectId, place.sessionId)),
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current[0]?.connection).toBe("live"), SOON);
    const streams = net.streams.filter(({ aborted }) => !aborted);
    expect(streams).toHaveLength(1);

    const release = net.hold();
    let sent!: Promise<unknown>;
    act(() => void (sent = result.current[0]!.send("hello")));
    expect(result.current[1]?.turns).toBe(result.current[0]?.turns);
    expect(said(result.current[1]!.turns)).toEqual(["hello pending"]);
    release();
    await act(() => sent);
  });

  test("a page can show many sessions, each in several places", async () => {
    const { projectId } = await newSession();
    const { Page } = pageOf(projectId);
    const ids = Array.from({ length: 8 }, (_, at) => `chat-${at}`);
    const { result } = renderHook(
      () => [...ids, ...ids].map((sessionId) => useSession(projectId, sessionId)),
      { wrapper: Page },
    );
    await waitFor(
      () => expect(result.current.some(({ isLoading }) => isLoading)).toBe(false),
      SOON,
    );

    await act(
      async () => void (await Promise.all(ids.map((id, at) => result.current[at]!.send(id)))),
    );

    ids.forEach((id, at) => {
      expect(said(result.current[at]!.turns)).toEqual([`${id} pending`]);
      expect(result.current[at + ids.length]!.turns).toBe(result.current[at]!.turns);
    });
  });

  test("an outage is reported, and what happened meanwhile is shown afterwards", async () => {
    const place = await newSession();
    const turnId = await newTurn(place, "first");
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.connection).toBe("live"), SOON);

    act(() => show("hidden"));
    net.isCut = true;
    act(() => show("visible"));
    await waitFor(() => expect(result.current.connection).toBe("offline"), SOON);
    expect(result.current.error).toBeInstanceOf(ApiError);
    expect(said(result.current.turns)).toEqual(["first pending"]);
    await say(place, turnId, text("meanwhile"), failure);
    net.isCut = false;
    await waitFor(
      () => expect(said(result.current.turns)).toEqual(["first failed meanwhile"]),
      SOON,
    );

    expect(result.current.error).toBeNull();
  });

  test("nothing is requested while the page is hidden", async () => {
    const place = await newSession();
    const { result, net } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.connection).toBe("live"), SOON);

    act(() => show("hidden"));

    expect(net.streams.every(({ aborted }) => aborted)).toBe(true);
    act(() => show("visible"));
    await newTurn(place, "meanwhile");
    await waitFor(() => expect(said(result.current.turns)).toEqual(["meanwhile pending"]), SOON);
  });

  test("falls back to polls where a proxy blocks streams", async () => {
    const place = await newSession();
    const net = network();
    const blocked = net.fetch;
    net.fetch = async (url, options) =>
      url.includes("/api/stream") ? new Response("") : blocked(url, options);
    const { result } = opened(place.projectId, place.sessionId, net);
    await waitFor(() => expect(result.current.connection).toBe("polling"), SOON);

    await act(async () => void (await result.current.send("hello")));

    expect(said(result.current.turns)).toEqual(["hello pending"]);
  });

  test("an unmounted page leaves no stream, and a page that is mounted again continues", async () => {
    const place = await newSession();
    const first = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(first.result.current.connection).toBe("live"), SOON);

    first.unmount();
    expect(first.net.streams.every(({ aborted }) => aborted)).toBe(true);
    const { result } = opened(place.projectId, place.sessionId);
    await waitFor(() => expect(result.current.isLoading).toBe(false), SOON);
    await newTurn(place, "later");

    await waitFor(() => expect(said(result.current.turns)).toEqual(["later pending"]), SOON);
  });

  test("an invalid id is an error of this session alone", async () => {
    const place = await newSession();
    const { Page } = pageOf(place.projectId);
    const { result } = renderHook(
      () => [useSession(place.projectId, "my session!"), useSession(place.projectId, "session")],
      { wrapper: Page },
    );
    await waitFor(() => expect(result.current[1]?.isLoading).toBe(false), SOON);

    expect(result.current[0]?.error?.message).toContain('Invalid id "my session!"');
    expect(result.current[1]?.error).toBeNull();
    await expect(result.current[0]!.send("hello")).rejects.toThrow(ApiError);
  });
});

describe("a server that requires a token", () => {
  const refusal = JSON.stringify({ error: { code: "unauthorized", message: "Token required." } });

  test("is an error until the provider has the token, and equal headers do not connect again", async () => {
    const place = await newSession();
    await newTurn(place, "first");
    const net = network();
    const guarded: typeof net.fetch = (url, options) =>
      new Headers(options?.headers).get("Authorization") === "Bearer secret"
        ? net.fetch(url, options)
        : Promise.resolve(new Response(refusal, { status: 401 }));
    let session!: ReturnType<typeof useSession>;
    const Probe = () => {
      session = useSession(place.projectId, place.sessionId);
      return null;
    };
    const page = (token: string) => (
      <StrictMode>
        <LongwatchProvider
          baseUrl={address}
          fetch={(...request) => guarded(...request)}
          headers={{ Authorization: `Bearer ${token}` }}
        >
          <Probe />
        </LongwatchProvider>
      </StrictMode>
    );
    const { rerender } = render(page("wrong"));
    await waitFor(() => expect(session.error).toMatchObject({ status: 401 }), SOON);
    expect(session).toMatchObject({ isLoading: true, connection: "offline" });
    await act(() => expect(session.send("hello")).rejects.toThrow("Token required."));

    rerender(page("secret"));
    await waitFor(() => expect(said(session.turns)).toEqual(["first pending"]), SOON);
    await waitFor(() => expect(session.connection).toBe("live"), SOON);
    const requests = net.requests.length;
    rerender(page("secret"));

    await act(async () => void (await session.send("second")));
    expect(net.requests.slice(requests).filter((request) => request.includes("stream"))).toEqual(
      [],
    );
    expect(session.error).toBeNull();
  });
});

test("projects and sessions are created with real dates, and once", async () => {
  const { Page } = pageOf("unused");
  const { result } = renderHook(() => useProjectActions(), { wrapper: Page });

  const project = await result.current.createProject({ name: "Website" });
  const session = await result.current.createSession(project.id, { id: "monday", title: "Monday" });

  expect(project).toMatchObject({ name: "Website", created_at: expect.any(Date) });
  expect(session).toMatchObject({ id: "monday", title: "Monday", created_at: expect.any(Date) });
  expect(await result.current.createSession(project.id, { id: "monday" })).toEqual(session);
  await expect(result.current.createSession("none", {})).rejects.toThrow(ApiError);
});
