import { act, renderHook, waitFor } from "@testing-library/react";
import { describe, expect, test, vi } from "vitest";
import * as Y from "yjs";

import { useDocumentPolling, type UseDocumentPollingOptions } from "../index.js";
import { deleteFile, fileText, newSession, putFile } from "./support/journal.js";
import { network, pageOf } from "./support/page.js";

const SOON = { timeout: 15_000 };

async function polled(options: UseDocumentPollingOptions = {}) {
  const { projectId } = await newSession();
  await putFile(projectId, "a.md", "first");
  const net = network();
  const { Page } = pageOf(projectId, net);
  const heard: string[] = [];
  const hook = renderHook(
    () =>
      useDocumentPolling({
        interval: 50,
        onDocumentChange: (changes) =>
          heard.push(...changes.map((each) => `${each.changeType} ${each.filePath}`)),
        ...options,
      }),
    { wrapper: Page },
  );
  await waitFor(() => expect(hook.result.current.data).toBeDefined(), SOON);
  return { ...hook, projectId, heard, net };
}

describe("useDocumentPolling", () => {
  test("lists the files and tells what was created, modified and deleted", async () => {
    const { result, projectId, heard } = await polled();
    expect(result.current.data?.map((file) => file.path)).toEqual(["a.md"]);
    expect(heard).toEqual([]);

    await putFile(projectId, "docs/b.md", "new");
    await waitFor(() => expect(heard).toEqual(["created docs/b.md"]), SOON);
    await putFile(projectId, "a.md", "second");
    await waitFor(() => expect(heard.at(-1)).toBe("modified a.md"), SOON);
    await deleteFile(projectId, "a.md");
    await waitFor(() => expect(heard.at(-1)).toBe("deleted a.md"), SOON);

    await waitFor(
      () => expect(result.current.data?.map((file) => file.path)).toEqual(["docs/b.md"]),
      SOON,
    );
    expect(result.current).toMatchObject({ isPolling: true, error: null });
  });

  test("tells only of the files that were asked for, though the array is a new one with every render", async () => {
    const { result, rerender, projectId, heard, net } = await polled({ filePaths: ["a.md"] });
    rerender();
    rerender();
    await putFile(projectId, "b.md", "not wanted");
    await putFile(projectId, "a.md", "wanted");

    await waitFor(() => expect(heard).toEqual(["modified a.md"]), SOON);

    expect(result.current.data?.map((file) => file.path)).toEqual(["a.md"]);
    expect(net.requests.every((request) => request.includes("/files"))).toBe(true);
  });

  test("a Yjs document follows its file, and what is typed into it reaches the server", async () => {
    const doc = new Y.Doc();
    const { projectId } = await polled({ documents: { "a.md": doc } });
    const words = doc.getText("content");
    await waitFor(() => expect(words.toString()).toBe("first"), SOON);

    await putFile(projectId, "a.md", "first, then more");
    await waitFor(() => expect(words.toString()).toBe("first, then more"), SOON);
    act(() => words.insert(0, "At "));

    await waitFor(
      async () => expect(await fileText(projectId, "a.md")).toBe("At first, then more"),
      SOON,
    );
  });

  test("what two people type at once is in both documents in the end", async () => {
    const [one, other] = [new Y.Doc(), new Y.Doc()];
    const { projectId } = await polled({ documents: { "a.md": one } });
    const page = pageOf(projectId);
    renderHook(() => useDocumentPolling({ interval: 50, documents: { "a.md": other } }), {
      wrapper: page.Page,
    });
    const texts = [one, other].map((doc) => doc.getText("content"));
    await waitFor(() => expect(texts.map(String)).toEqual(["first", "first"]), SOON);

    texts[0]?.insert(0, "<");
    texts[1]?.insert(5, ">");

    await waitFor(() => expect(texts.map(String)).toEqual(["<first>", "<first>"]), SOON);
    expect(await fileText(projectId, "a.md")).toBe("<first>");
  });

  test("documents come and go with the renders, and React has nothing to complain of", async () => {
    const complaints = vi.spyOn(console, "error");
    const { projectId } = await newSession();
    await putFile(projectId, "a.md", "first");
    const [one, other] = [new Y.Doc(), new Y.Doc()];
    const { rerender } = renderHook(
      ({ documents }) => useDocumentPolling({ interval: 50, documents }),
      {
        wrapper: pageOf(projectId).Page,
        initialProps: { documents: {} as Record<string, Y.Doc> },
      },
    );
    rerender({ documents: { "a.md": one } });
    await waitFor(() => expect(one.getText("content").toString()).toBe("first"), SOON);

    rerender({ documents: { "a.md": other } });
    await waitFor(() => expect(other.getText("content").toString()).toBe("first"), SOON);
    await putFile(projectId, "a.md", "second");
    await waitFor(() => expect(other.getText("content").toString()).toBe("second"), SOON);

    expect(one.getText("content").toString()).toBe("first");
    expect(complaints).not.toHaveBeenCalled();
    complaints.mockRestore();
  });

  test("nothing is asked while it is not enabled", async () => {
    const { projectId } = await newSession();
    const net = network();
    const { result } = renderHook(() => useDocumentPolling({ enabled: false }), {
      wrapper: pageOf(projectId, net).Page,
    });

    expect(result.current).toMatchObject({ data: undefined, isPolling: false });
    expect(net.requests).toEqual([]);
  });
});
