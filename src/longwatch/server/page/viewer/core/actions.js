/** What users do to a conversation: shown at once, taken back if the server refuses. */

import { projectPath, sessionPath, turnPath, turnsPath } from "./routes.js";
import { isOver } from "./turn-state.js";

/** @import { Api } from "./api.js" */
/** @import { WireTurn } from "./turn-state.js" */

const PROJECTS = "/api/projects";

/**
 * @typedef {{projectId: string, sessionId: string}} WhichSession
 * @typedef {{turns: WireTurn[]}} TurnList
 */

/**
 * Create the project and the session where they do not exist. Again, it changes nothing.
 *
 * @param {Api} api
 * @param {WhichSession} session
 * @returns {Promise<void>}
 */
export async function ensureSession(api, { projectId, sessionId }) {
  await api.send("POST", PROJECTS, { id: projectId });
  await api.send("POST", `${projectPath(projectId)}/sessions`, { id: sessionId });
}

/**
 * Say something new. The turn that is running is cancelled by it.
 *
 * @param {Api} api
 * @param {WhichSession} session
 * @param {string} prompt
 * @returns {Promise<WireTurn>}
 */
export function newTurn(api, { projectId, sessionId }, prompt) {
  const path = turnsPath(projectId, sessionId);
  const now = new Date().toISOString();
  /** @param {TurnList} list @param {WireTurn} [answer] */
  const withNew = ({ turns }, answer) => {
    const number = Math.max(0, ...turns.map((turn) => turn.number)) + 1;
    const expected = /** @type {WireTurn} */ ({
      id: `new-${number}`,
      project_id: projectId,
      session_id: sessionId,
      number,
      prompt,
      status: "pending",
      block_count: 0,
      error: null,
      created_at: now,
      started_at: null,
      completed_at: null,
      last_updated: now,
    });
    const others = turns.map((turn) => (isOver(turn) ? turn : ended(turn, "cancelled by a new turn")));
    return { turns: [...others.filter((turn) => turn.id !== answer?.id), answer ?? expected] };
  };
  return api.act({
    path,
    body: { prompt },
    shows: { [path]: withNew },
    invalidates: [sessionPath(projectId, sessionId)],
  });
}

/**
 * Stop the turn that is running.
 *
 * @param {Api} api
 * @param {WhichSession & {turnId: string}} turn
 * @param {string} [reason]
 * @returns {Promise<WireTurn>}
 */
export function interrupt(api, { projectId, sessionId, turnId }, reason) {
  const path = turnPath(projectId, sessionId, turnId);
  const why = reason ?? "interrupted";
  /** @param {WireTurn} turn @param {WireTurn} [answer] */
  const stopped = (turn, answer) => (answer ? { ...turn, ...answer } : isOver(turn) ? turn : ended(turn, why));
  return api.act({
    path: `${path}/interrupt`,
    body: reason === undefined ? {} : { reason },
    shows: {
      [path]: stopped,
      [turnsPath(projectId, sessionId)]: (/** @type {TurnList} */ { turns }, answer) => ({
        turns: turns.map((turn) => (turn.id === turnId ? stopped(turn, answer) : turn)),
      }),
    },
    invalidates: [sessionPath(projectId, sessionId)],
  });
}

/**
 * @param {WireTurn} turn
 * @param {string} error
 * @returns {WireTurn}
 */
function ended(turn, error) {
  return { ...turn, status: "failed", error };
}
