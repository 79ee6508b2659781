/** Document 003's document polling as a hook, with Yjs documents that follow their files. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { DocumentPolling, filesKey } from "../core/document-polling.js";
import { projectFiles } from "../core/project-files.js";
import { useLongwatch } from "./provider.js";
import { useLatest } from "./use-latest.js";
import { queryKeyOf, usePolledQuery, usePollState } from "./use-polled.js";
import { DocumentSync } from "./yjs-sync.js";

/** @import { Listing } from "../core/project-files.js" */
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
  const { api, manager, projectId: around } = useLongwatch();
  const projectId = given ?? around;
  const client = useQueryClient();
  const callbacks = useLatest({ onDocumentChange, onError });
  const key = filesKey({ api, projectId });
  const paths = filePaths && JSON.stringify([...filePaths].sort()); // the same paths in a new array are the same
  const [{ isPolling, error }, tell] = usePollState(key, enabled);
  const { data: listing, refetch } = usePolledQuery({
    key,
    enabled,
    look: (signal) => manager.fetch(key, (asked) => projectFiles(api, projectId).look(asked), { signal }),
  });
  const syncs = useDocumentSyncs({
    projectId,
    documents,
    enabled,
    onError: (raised) => callbacks.current.onError?.(raised),
  });
  useEffect(() => {
    if (!enabled) return;
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
          if (file === undefined || file.deleted || file.version === version) continue;
          syncs.current.set(path, { sync, version: file.version });
          sync.pull();
        }
      },
      onDocumentChange: (changes) => callbacks.current.onDocumentChange?.(changes),
      onError: (raised) => callbacks.current.onError?.(raised),
      onState: tell,
    });
    return () => polling.stop();
  }, [api, manager, client, key, projectId, paths, interval, enabled, tell, callbacks, syncs]);
  const data = useMemo(() => listing && filesOf(listing, paths), [listing, paths]);
  return { data, isPolling, error, refetch };
}

/**
 * One sync for each document, for as long as it is given.
 *
 * @param {object} options
 * @param {string} options.projectId
 * @param {UseDocumentPollingOptions["documents"]} options.documents
 * @param {boolean} options.enabled
 * @param {(error: Error) => void} options.onError
 */
function useDocumentSyncs({ projectId, documents: given = NONE, enabled, onError }) {
  const { api } = useLongwatch();
  const documents = useSame(given);
  /** @type {import("react").RefObject<Map<string, {sync: DocumentSync, version: number}>>} */
  const syncs = useRef(new Map());
  const latestError = useLatest(onError);
  useEffect(() => {
    if (!enabled) return;
    const mine = new Map(
      Object.entries(documents).map(([path, doc]) => {
        const report = (/** @type {Error} */ error) => latestError.current(error);
        return [path, { sync: new DocumentSync({ api, projectId, path, doc, onError: report }), version: 0 }];
      }),
    );
    syncs.current = mine;
    for (const { sync } of mine.values()) sync.pull();
    return () => {
      for (const { sync } of mine.values()) sync.stop();
      if (syncs.current === mine) syncs.current = new Map();
    };
  }, [api, projectId, enabled, latestError, documents]);
  return syncs;
}

/**
 * The same object for the same documents, though a new one that holds them comes with every render.
 *
 * @param {Readonly<Record<string, import("yjs").Doc>>} documents
 */
function useSame(documents) {
  const [kept, keep] = useState(documents);
  const paths = Object.keys(documents);
  const isSame = paths.length === Object.keys(kept).length && paths.every((path) => kept[path] === documents[path]);
  if (!isSame) keep(documents);
  return isSame ? kept : documents;
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
