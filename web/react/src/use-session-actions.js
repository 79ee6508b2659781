/** The user's actions on a session. */

import { useMemo } from "react";

import { sessionPath } from "../core/routes.js";
import { readTurn } from "./polling/turns.js";
import { ensureSession, interrupt, newTurn, turnKey } from "./polling/session.js";
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
      ensureSession: () => ensureSession(api, { projectId, sessionId }),
      newTurn: async (prompt) => {
        try {
          return readTurn(await newTurn(api, { projectId, sessionId }, prompt));
        } finally {
          manager.refreshAll(api.url(sessionPath(projectId, sessionId))); // including the turn that it cancels
        }
      },
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
