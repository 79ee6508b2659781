/** The user's actions on projects, sessions and turns: shown at once, rolled back if the server refuses. */

import { projectPath, sessionPath, turnPath, turnsPath } from "../../core/routes.js";
import { isOver } from "../../core/turn-state.js";

/** @import { Api } from "../../core/api.js" */
/** @import { Change } from "../../core/response-cache.js" */
/** @import { WireTurn } from "../../core/turn-state.js" */

const PROJECTS = "/api/projects";

/**
 * @typedef {{projectId: string, sessionId: string}} WhichSession
 * @typedef {{turns: WireTurn[]}} TurnList
 * @typedef {{id: string, name: string | null, created_at: string}} WireProject
 * @typedef {{id: string, title: string | null, created_at: string}} WireSession
 */

/**
 * Create a project, or return the one with this id.
 *
 * @param {Api} api
 * @param {{id?: string, name?: string}} [project]
 * @returns {Promise<WireProject>}
 */
export function createProject(api, { id, name } = {}) {
  return api.send("POST", PROJECTS, { id, name });
}

/**
 * Create a session, or return the one with this id.
 *
 * @param {Api} api
 * @param {string} projectId
 * @param {{id?: string, title?: string}} [session]
 * @returns {Promise<WireSession>}
 */
export function createSession(api, projectId, { id, title } = {}) {
  return api.send("POST", `${projectPath(projectId)}/sessions`, { id, title });
}

/**
 * Create the project and the session unless they exist.
 *
 * @param {Api} api
 * @param {WhichSession} session
 * @returns {Promise<void>}
 */
export async function ensureSession(api, { projectId, sessionId }) {
  await createProject(api, { id: projectId });
  await createSession(api, projectId, { id: sessionId });
}

/** An id for a new turn. The server creates the turn of an id once, so that a request can be repeated. */
export function newTurnId() {
  const bytes = crypto.getRandomValues(new Uint8Array(6)); // without HTTPS there is no `randomUUID`
  return `turn-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * The turns with a new one, before the server has confirmed it: as the server will create it, and with the end of the turns that
 * it cancels.
 *
 * @param {WireTurn[]} turns
 * @param {WhichSession & {turnId: string, prompt: string, now: string}} turn
 * @returns {WireTurn[]}
 */
export function withNewTurn(turns, { projectId, sessionId, turnId, prompt, now }) {
  const at = turns.findIndex(({ id }) => id === turnId); // the feed may deliver it before the response
  const earlier = turns
    .slice(0, at === -1 ? turns.length : at)
    .map((turn) => (isOver(turn) ? turn : endTurn(turn, "cancelled by a new turn")));
  if (at !== -1) return [...earlier, ...turns.slice(at)];
  /** @type {WireTurn} */
  const created = {
    id: turnId,
    project_id: projectId,
    session_id: sessionId,
    number: Math.max(0, ...turns.map((turn) => turn.number)) + 1,
    prompt,
    status: "pending",
    block_count: 0,
    error: null,
    created_at: now,
    started_at: null,
    completed_at: null,
    last_updated: now,
  };
  return [...earlier, created];
}

/**
 * Start a turn with a prompt. It cancels a running turn.
 *
 * @param {Api} api
 * @param {WhichSession} session
 * @param {string} prompt
 * @param {string} [turnId]
 * @returns {Promise<WireTurn>}
 */
export function newTurn(api, { projectId, sessionId }, prompt, turnId = newTurnId()) {
  const path = turnsPath(projectId, sessionId);
  const expected = { projectId, sessionId, turnId, prompt, now: new Date().toISOString() };
  /** @param {TurnList} list @param {WireTurn} [response] */
  const withNew = ({ turns }, response) => ({
    turns: withNewTurn(turns, expected).map((turn) => (turn.id === response?.id ? response : turn)),
  });
  return act(api, {
    path,
    body: { id: turnId, prompt },
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
  /** @param {WireTurn} turn @param {WireTurn} [response] */
  const stopped = (turn, response) =>
    response ? { ...turn, ...response } : isOver(turn) ? turn : endTurn(turn, why);
  return act(api, {
    path: `${path}/interrupt`,
    body: reason === undefined ? {} : { reason },
    shows: {
      [path]: stopped,
      [turnsPath(projectId, sessionId)]: (/** @type {TurnList} */ { turns }, response) => ({
        turns: turns.map((turn) => (turn.id === turnId ? stopped(turn, response) : turn)),
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
export function endTurn(turn, error) {
  return { ...turn, status: "failed", error };
}

/**
 * @typedef {object} Action
 * @property {string} path
 * @property {unknown} [body]
 * @property {Record<string, Change>} [shows] What to show at once: path → change of its body.
 * @property {string[]} [invalidates] Prefixes of paths to request again afterwards.
 */

/**
 * Send an action: shown at once, confirmed by the response, rolled back if it fails.
 * @param {Api} api
 * @param {Action} action
 * @returns {Promise<any>} the body of the response
 */
export async function act(api, { path, body, shows = {}, invalidates = [] }) {
  const layers = Object.entries(shows).map(([key, change]) =>
    api.cache.change(api.url(key), change),
  );
  try {
    const response = await api.send("POST", path, body);
    for (const layer of layers) layer.confirm(response);
    return response;
  } catch (error) {
    for (const layer of layers) layer.rollBack();
    throw error;
  } finally {
    for (const prefix of invalidates) api.cache.invalidate(api.url(prefix));
  }
}
