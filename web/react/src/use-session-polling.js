/** Session polling as a hook. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { readTurn } from "./polling/turns.js";
import { SessionPolling, turnKey, turnPoll } from "./polling/session.js";
import { useLongwatch } from "./provider.js";
import { useLatest } from "./use-latest.js";
import { queryKeyOf, usePollState, usePolledQuery } from "./use-polled.js";

/** @import { UseSessionPollingOptions, UseSessionPollingResult } from "../index.js" */

/**
 * @param {UseSessionPollingOptions} options
 * @returns {UseSessionPollingResult}
 */
export function useSessionPolling({
  sessionId,
  turnId = "",
  enabled = true,
  interval = 2_000,
  onUpdate,
  onComplete,
  onError,
}) {
  const { api, manager, projectId } = useLongwatch();
  const client = useQueryClient();
  const callbacks = useLatest({ onUpdate, onComplete, onError });
  const which = { api, projectId, sessionId, turnId };
  const key = turnKey(which);
  const isOn = enabled && turnId !== "";
  const [{ isPolling, error }, report] = usePollState(key, isOn);
  const { data, refetch } = usePolledQuery({
    key,
    enabled: isOn,
    poll: async (signal) => {
      await manager.fetch(key, turnPoll(which), { signal });
      return readTurn(api.cache.view(key)); // with the user's unconfirmed actions
    },
  });
  useEffect(() => {
    if (!isOn) return;
    const show = (/** @type {any} */ wire) => client.setQueryData(queryKeyOf(key), readTurn(wire));
    const unwatch = api.cache.watch(key, show);
    const polling = new SessionPolling({
      api,
      manager,
      projectId,
      sessionId,
      turnId,
      interval,
      onUpdate: (turn) => callbacks.current.onUpdate?.(turn),
      onComplete: (turn) => callbacks.current.onComplete?.(turn),
      onError: (raised) => callbacks.current.onError?.(raised),
      onState: report,
    });
    return () => {
      polling.stop();
      unwatch();
    };
  }, [api, manager, client, key, projectId, sessionId, turnId, interval, isOn, report, callbacks]);
  return { data, isPolling, error, refetch };
}
