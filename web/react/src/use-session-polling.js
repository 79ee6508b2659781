/** Session polling as a hook. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { TurnState, isOver } from "../core/turn-state.js";
import { readTurn, withReceived } from "./polling/turns.js";
import { SessionPolling, turnKey, turnPoll } from "./polling/session.js";
import { useLongwatch, useProjectId } from "./provider.js";
import { useFeed } from "./use-feed.js";
import { useLatest } from "./use-latest.js";
import { queryKeyOf, usePollState, usePolledQuery } from "./use-polled.js";

/** @import { Turn, UseSessionPollingOptions, UseSessionPollingResult } from "../index.js" */
/** @import { WireTurn } from "../core/turn-state.js" */

/**
 * @param {UseSessionPollingOptions} options
 * @returns {UseSessionPollingResult}
 */
export function useSessionPolling({
  projectId: given,
  sessionId,
  turnId = "",
  enabled = true,
  interval = 2_000,
  stream = false,
  onUpdate,
  onComplete,
  onError,
}) {
  const { api, manager } = useLongwatch();
  const projectId = useProjectId(given);
  const client = useQueryClient();
  const callbacks = useLatest({ onUpdate, onComplete, onError });
  const which = { api, projectId, sessionId, turnId };
  const key = turnKey(which);
  const isOn = enabled && turnId !== "";
  const [{ isPolling, error }, report] = usePollState(key, isOn);
  const { data: polled, refetch } = usePolledQuery({
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
  const topic = `turn:${projectId}/${sessionId}/${turnId}`;
  const data = useReceived(topic, polled, isOn && stream);
  return { data, isPolling, error, refetch };
}

/**
 * The polled turn with what the feed delivers between the polls, until the turn is over.
 * @param {string} topic @param {Turn | undefined} polled @param {boolean} enabled
 */
function useReceived(topic, polled, enabled) {
  const isOpen = polled !== undefined && !isOver(polled);
  const following = useMemo(() => ({ turns: new TurnState(), isCaughtUp: false }), [topic]);
  const [received, setReceived] = useState(/** @type {WireTurn | undefined} */ (undefined));
  useEffect(() => setReceived(undefined), [following]);
  useFeed(topic, {
    enabled: enabled && isOpen,
    onMessage: (message) => {
      const hasChanged = following.turns.apply(message);
      if (message.event === "caught_up") following.isCaughtUp = true;
      if (hasChanged && !following.isCaughtUp) return; // history, which is in the polled turn
      if (hasChanged || message.event === "caught_up") setReceived(following.turns.turns()[0]);
    },
  });
  return useMemo(
    () => (isOpen && polled ? /** @type {Turn} */ (withReceived(polled, received)) : polled),
    [polled, received, isOpen],
  );
}
