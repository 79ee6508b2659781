/** What the polling hooks have in common: a poll in the manager, its answers in the query cache. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { useLongwatch } from "./provider.js";

const KEPT_MS = 500; // after the last component has left, as the manager keeps answers

/**
 * The cached value under this key. The manager asks, shares and tries again; the query cache keeps what people see,
 * and an invalidated query looks at once.
 *
 * @template T
 * @param {object} options
 * @param {string} options.key The manager's.
 * @param {boolean} options.enabled
 * @param {(signal: AbortSignal) => Promise<T>} options.look
 */
export function usePolledQuery({ key, enabled, look }) {
  const { manager } = useLongwatch();
  const client = useQueryClient();
  const queryKey = queryKeyOf(key);
  const { data } = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      if (client.getQueryState(queryKey)?.isInvalidated) manager.refresh(key);
      return look(signal);
    },
    enabled,
    staleTime: Infinity, // the manager brings what is new
    gcTime: KEPT_MS,
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
 * How a poll stands: what it last said of itself, or what is true before it said anything.
 *
 * @typedef {{isPolling: boolean, error: Error | null}} PollState
 *
 * @param {string} key
 * @param {boolean} enabled
 * @returns {[state: PollState, tell: (state: PollState) => void]}
 */
export function usePollState(key, enabled) {
  const { manager } = useLongwatch();
  const [told, setTold] = useState(/** @type {(PollState & {key: string}) | null} */ (null));
  const tell = useCallback(
    (/** @type {PollState} */ { isPolling, error }) =>
      setTold((before) =>
        before?.key === key && before.isPolling === isPolling && before.error === error
          ? before
          : { key, isPolling, error },
      ),
    [key],
  );
  const isTold = told !== null && told.key === key;
  return [
    {
      isPolling: enabled && (isTold ? told.isPolling : !manager.isPaused),
      error: isTold ? told.error : null,
    },
    tell,
  ];
}
