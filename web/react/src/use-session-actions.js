/** The user's actions on a session. */

import { useMemo } from "react";

import { sessionPath } from "../core/routes.js";
import { readTurn } from "./polling/turns.js";
import { ensureSession, interrupt, newTurn } from "./polling/actions.js";
import { turnKey } from "./polling/session.js";
import { useLongwatch, useProjectId } from "./provider.js";

/** @import { SessionActions } from "../index.js" */

/**
 * @param {{projectId?: string, sessionId: string}} session
 * @returns {SessionActions}
 */
export function useSessionActions({ projectId: given, sessionId }) {
  const { api, manager } = useLongwatch();
  const projectId = useProjectId(given);
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
