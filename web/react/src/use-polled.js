/** What the polling hooks share: a poll in the manager, its results in the query cache. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { useLongwatch } from "./provider.js";

const CACHE_MS = 500; // after the last component has unmounted, as in the manager

/**
 * The cached value of this key. The manager requests, shares and retries; the query cache holds what is shown, and an
 * invalidated query polls at once.
 *
 * @template T
 * @param {object} options
 * @param {string} options.key Of the manager.
 * @param {boolean} options.enabled
 * @param {(signal: AbortSignal) => Promise<T>} options.poll
 */
export function usePolledQuery({ key, enabled, poll }) {
  const { manager } = useLongwatch();
  const client = useQueryClient();
  const queryKey = queryKeyOf(key);
  const { data } = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      if (client.getQueryState(queryKey)?.isInvalidated) manager.refresh(key);
      return poll(signal);
    },
    enabled,
    staleTime: Infinity, // the manager delivers updates
    gcTime: CACHE_MS,
    retry: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    networkMode: "always",
    structuralSharing: false,
    throwOnError: false,
  });
  const refetch = useCallback(
    () => void client.invalidateQueries({ queryKey: queryKeyOf(key) }),
    [client, key],
  );
  return { data, refetch };
}

/** @param {string} key */
export function queryKeyOf(key) {
  return ["longwatch", key];
}

/**
 * The last reported state of a poll, or the state before the first report.
 *
 * @typedef {{isPolling: boolean, error: Error | null}} PollState
 *
 * @param {string} key
 * @param {boolean} enabled
 * @returns {[state: PollState, report: (state: PollState) => void]}
 */
export function usePollState(key, enabled) {
  const { manager } = useLongwatch();
  const [last, setLast] = useState(/** @type {(PollState & {key: string}) | null} */ (null));
  const report = useCallback(
    (/** @type {PollState} */ { isPolling, error }) =>
      setLast((before) =>
        before?.key === key && before.isPolling === isPolling && before.error === error
          ? before
          : { key, isPolling, error },
      ),
    [key],
  );
  const state = last?.key === key ? last : null;
  return [
    {
      isPolling: enabled && (state?.isPolling ?? !manager.isPaused),
      error: state?.error ?? null,
    },
    report,
  ];
}
