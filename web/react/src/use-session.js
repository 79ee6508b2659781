/** A session as a hook: its history, the live turn and the user's actions. */

import { useMemo, useSyncExternalStore } from "react";

import { useLongwatch } from "./provider.js";

/** @import { UseSessionResult } from "../index.js" */

/**
 * @param {string} projectId
 * @param {string} sessionId
 * @returns {UseSessionResult}
 */
export function useSession(projectId, sessionId) {
  const { sessions } = useLongwatch();
  const store = useMemo(() => sessions.of(projectId, sessionId), [sessions, projectId, sessionId]);
  const snapshot = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  return useMemo(
    () => ({ ...snapshot, send: store.send, interrupt: store.interrupt }),
    [store, snapshot],
  );
}
