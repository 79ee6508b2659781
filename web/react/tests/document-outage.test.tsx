import { act, renderHook, waitFor } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import * as Y from "yjs";

import {
  LongwatchProvider,
  PollingManager,
  useDocumentPolling,
  type UseDocumentPollingOptions,
} from "../index.js";
import { address, deleteFile, fileText, newSession, putFile } from "./support/journal.js";
import { network, pageOf } from "./support/page.js";
import { proxyTo } from "./support/proxy.js";

const SOON = { timeout: 15_000 };

async function opened(options: UseDocumentPollingOptions = {}, projectId?: string) {
  const project = projectId ?? (await newSession()).projectId;
  if (projectId === undefined) await putFile(project, "a.md", "first");
  const page = pageOf(project);
  const doc = new Y.Doc();
  const words = doc.getText("content");
  const hook = renderHook(
    () => useDocumentPolling({ interval: 50, documents: { "a.md": doc }, ...options }),
    {
      wrapper: page.Page,
    },
  );
  await waitFor(() => expect(words.toString()).toBe("first"), SOON);
  await waitFor(() => expect(hook.result.current.hasUnsavedChanges).toBe(false), SOON);
  return { ...hook, ...page, doc, words, projectId: project };
}

const stored = (projectId: string, text: string) =>
  waitFor(async () => expect(await fileText(projectId, "a.md")).toBe(text), SOON);

describe("documents in an outage", () => {
  test("edits are kept while the server is away, shown as unsaved, and sent when it is back", async () => {
    const { projectId } = await newSession();
    await putFile(projectId, "a.md", "first");
    const proxy = await proxyTo(address);
    const [doc, errors] = [new Y.Doc(), [] as Error[]];
    const manager = new PollingManager();
    const { result, unmount } = renderHook(
      () =>
        useDocumentPolling({
          interval: 50,
          documents: { "a.md": doc },
          onError: (error) => errors.push(error),
        }),
      {
        wrapper: ({ children }) => (
          <LongwatchProvider baseUrl={proxy.address} projectId={projectId} manager={manager}>
            {children}
          </LongwatchProvider>
        ),
      },
    );
    const words = doc.getText("content");
    await waitFor(() => expect(words.toString()).toBe("first"), SOON);
    proxy.habit = "away";
    act(() => words.insert(5, " and second"));
    await waitFor(() => expect(errors.length).toBeGreaterThan(0), SOON);
    expect(result.current.hasUnsavedChanges).toBe(true);
    expect(await fileText(projectId, "a.md")).toBe("first");

    proxy.habit = "honest";
    window.dispatchEvent(new Event("online"));

    await stored(projectId, "first and second");
    await waitFor(() => expect(result.current.hasUnsavedChanges).toBe(false), SOON);
    unmount();
    await proxy.close();
  });

  test("edits of a component that is unmounted in it are sent when it ends", async () => {
    const { words, net, unmount, projectId } = await opened();
    net.isCut = true;
    act(() => words.insert(0, "At "));
    unmount();

    net.isCut = false;
    window.dispatchEvent(new Event("online"));

    await stored(projectId, "At first");
  });

  test("the edit right before an unmount is sent", async () => {
    const { words, unmount, projectId } = await opened();

    act(() => words.insert(0, "At "));
    unmount();

    await stored(projectId, "At first");
  });

  test("an application's pause holds back pulls but not edits", async () => {
    const { words, net, manager, projectId } = await opened();
    manager.pause();
    await putFile(projectId, "b.md", "another");

    act(() => words.insert(0, "At "));
    await stored(projectId, "At first");
    document.dispatchEvent(new Event("visibilitychange"));
    window.dispatchEvent(new Event("online"));
    const gets = net.requests.filter((each) => each.startsWith("GET")).length;
    await putFile(projectId, "a.md", "At first, elsewhere");
    expect(net.requests.filter((each) => each.startsWith("GET"))).toHaveLength(gets);
    expect(words.toString()).toBe("At first");

    manager.resume();
    await waitFor(() => expect(words.toString()).toBe("At first, elsewhere"), SOON);
  });
});

describe("a deleted file", () => {
  test("empties the open document of every page, and what one types next is all that all have", async () => {
    const one = await opened();
    const other = await opened({}, one.projectId);

    await deleteFile(one.projectId, "a.md");
    await waitFor(
      () => expect([one, other].map(({ words }) => words.toString())).toEqual(["", ""]),
      SOON,
    );
    act(() => one.words.insert(0, "anew"));

    await stored(one.projectId, "anew");
    await waitFor(
      () => expect([one, other].map(({ words }) => words.toString())).toEqual(["anew", "anew"]),
      SOON,
    );
  });
});

test("a page without documents has no unsaved changes", async () => {
  const { projectId } = await newSession();
  const { result } = renderHook(() => useDocumentPolling(), {
    wrapper: pageOf(projectId, network()).Page,
  });

  expect(result.current.hasUnsavedChanges).toBe(false);
});
