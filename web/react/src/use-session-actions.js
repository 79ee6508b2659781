/** What users do to a session. */

import { useMemo } from "react";

import { interrupt, newTurn } from "../core/actions.js";
import { turnKey } from "../core/session-polling.js";
import { readTurn } from "../core/turn-state.js";
import { useLongwatch } from "./provider.js";

/** @import { SessionActions } from "../index.js" */

/**
 * @param {{sessionId: string}} session
 * @returns {SessionActions}
 */
export function useSessionActions({ sessionId }) {
  const { api, manager, projectId } = useLongwatch();
  return useMemo(
    () => ({
      newTurn: async (prompt) => readTurn(await newTurn(api, { projectId, sessionId }, prompt)),
      interrupt: async (turnId, reason) => {
        const which = { projectId, sessionId, turnId };
        try {
          return readTurn(await interrupt(api, which, reason));
        } finally {
          manager.refresh(turnKey({ api, ...which }));
        }
      },
    }),
    [api, manager, projectId, sessionId],
  );
}
