/** Document polling as a hook, with Yjs documents that stay in sync with their files. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { DocumentPolling, filesKey, projectFiles } from "./polling/documents.js";
import { useLongwatch, useProjectId } from "./provider.js";
import { useLatest } from "./use-latest.js";
import { queryKeyOf, usePollState, usePolledQuery } from "./use-polled.js";
import { DocumentSync } from "./yjs-sync.js";

/** @import { Listing } from "./polling/documents.js" */
/** @import { UseDocumentPollingOptions, UseDocumentPollingResult } from "../index.js" */

const NONE = Object.freeze({});

/**
 * @param {UseDocumentPollingOptions} [options]
 * @returns {UseDocumentPollingResult}
 */
export function useDocumentPolling({
  projectId: given,
  filePaths,
  enabled = true,
  interval = 3_000,
  onDocumentChange,
  onError,
  documents,
} = {}) {
  const { api, manager } = useLongwatch();
  const projectId = useProjectId(given);
  const client = useQueryClient();
  const callbacks = useLatest({ onDocumentChange, onError });
  const key = filesKey({ api, projectId });
  const paths = filePaths && JSON.stringify([...filePaths].sort()); // equal for the same paths in a new array
  const [{ isPolling, error }, report] = usePollState(key, enabled);
  const { data: listing, refetch } = usePolledQuery({
    key,
    enabled,
    poll: (signal) =>
      manager.fetch(key, (options) => projectFiles(api, projectId).poll(options), { signal }),
  });
  const { syncs, hasUnsavedChanges } = useDocumentSyncs({
    projectId,
    documents,
    enabled,
    onError: (raised) => callbacks.current.onError?.(raised),
  });
  useEffect(() => {
    if (!enabled) return;
    let hadError = false;
    const polling = new DocumentPolling({
      api,
      manager,
      projectId,
      filePaths: paths === undefined ? undefined : JSON.parse(paths),
      interval,
      onListing: (found) => {
        client.setQueryData(queryKeyOf(key), found);
        for (const [path, { sync, version }] of syncs.current) {
          const file = found.files.get(path);
          if (file === undefined || file.version === version) continue;
          syncs.current.set(path, { sync, version: file.version });
          sync.pull();
        }
      },
      onDocumentChange: (changes) => callbacks.current.onDocumentChange?.(changes),
      onError: (raised) => callbacks.current.onError?.(raised),
      onState: (state) => {
        report(state);
        const isBack = hadError && state.error === null;
        hadError = state.error !== null;
        if (!hadError)
          for (const { sync } of syncs.current.values()) isBack ? sync.retry() : sync.resume();
      },
      hasOpenDocuments: () => syncs.current.size > 0,
    });
    return () => polling.stop();
  }, [api, manager, client, key, projectId, paths, interval, enabled, report, callbacks, syncs]);
  const data = useMemo(() => listing && filesOf(listing, paths), [listing, paths]);
  return { data, isPolling, error, refetch, hasUnsavedChanges };
}

/**
 * One sync for each document, while it is passed in and until its edits are sent.
 *
 * @param {object} options
 * @param {string} options.projectId
 * @param {UseDocumentPollingOptions["documents"]} options.documents
 * @param {boolean} options.enabled
 * @param {(error: Error) => void} options.onError
 */
function useDocumentSyncs({ projectId, documents: given = NONE, enabled, onError }) {
  const { api, manager } = useLongwatch();
  const documents = useSame(given);
  /** @type {import("react").RefObject<Map<string, {sync: DocumentSync, version: number}>>} */
  const syncs = useRef(new Map());
  const latestError = useLatest(onError);
  /** @type {import("react").RefObject<Set<DocumentSync>>} */
  const unsaved = useRef(new Set());
  const [hasUnsavedChanges, setHasUnsavedChanges] = useState(false);
  useEffect(() => {
    if (!enabled) return;
    const options = {
      api,
      projectId,
      isPaused: () => manager.isPaused,
      onError: (/** @type {Error} */ error) => latestError.current(error),
      onUnsaved: (/** @type {boolean} */ hasUnsaved, /** @type {DocumentSync} */ sync) => {
        if (hasUnsaved) unsaved.current.add(sync);
        else unsaved.current.delete(sync);
        setHasUnsavedChanges(unsaved.current.size > 0);
      },
    };
    const mine = new Map(
      Object.entries(documents).map(([path, doc]) => [
        path,
        { sync: new DocumentSync({ ...options, path, doc }), version: 0 },
      ]),
    );
    syncs.current = mine;
    for (const { sync } of mine.values()) sync.pull();
    return () => {
      for (const { sync } of mine.values()) sync.stop();
      if (syncs.current === mine) syncs.current = new Map();
    };
  }, [api, manager, projectId, enabled, latestError, documents]);
  return { syncs, hasUnsavedChanges };
}

/**
 * The same object for the same documents, although every render may pass a new one.
 *
 * @param {Readonly<Record<string, import("yjs").Doc>>} documents
 */
function useSame(documents) {
  const [previous, setPrevious] = useState(documents);
  const paths = Object.keys(documents);
  const isSame =
    paths.length === Object.keys(previous).length &&
    paths.every((path) => previous[path] === documents[path]);
  if (!isSame) setPrevious(documents);
  return isSame ? previous : documents;
}

/**
 * @param {Listing} listing
 * @param {string | undefined} paths
 */
function filesOf({ files }, paths) {
  const wanted = paths === undefined ? null : new Set(JSON.parse(paths));
  return [...files.values()]
    .filter((file) => !file.deleted && (wanted === null || wanted.has(file.path)))
    .sort((one, other) => (one.path < other.path ? -1 : 1));
}
