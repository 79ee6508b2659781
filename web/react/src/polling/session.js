/** Polls a turn of a session until it is over, and sends the user's actions. */

import { projectPath, sessionPath, turnPath, turnsPath } from "../../core/routes.js";
import { isOver, turnUpdate } from "../../core/turn-state.js";
import { pollingManager } from "./polling-manager.js";
import { readTurn } from "./turns.js";

/** @import { Api } from "../../core/api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { Registration } from "./shared-poll.js" */
/** @import { Change } from "../../core/response-cache.js" */
/** @import { WireTurn } from "../../core/turn-state.js" */
/** @import { Turn } from "./turns.js" */

export const SESSION_INTERVAL_MS = 2_000;
const PROJECTS = "/api/projects";

/** The turn failed, was interrupted or was cancelled; `message` is the reason, `turn` its final state. */
export class TurnFailed extends Error {
  /** @param {Turn} turn */
  constructor(turn) {
    super(turn.error ?? "The turn failed without a reason.");
    this.name = "TurnFailed";
    this.turn = turn;
  }
}

/**
 * @typedef {object} SessionPollingOptions
 * @property {Api} api
 * @property {string} projectId
 * @property {string} sessionId
 * @property {string} turnId
 * @property {number | null} [interval] Milliseconds; null: on the ramp from 1 s to 5 s.
 * @property {(turn: Turn) => void} [onUpdate] With every change, the last one included.
 * @property {(turn: Turn) => void} [onComplete] Once, when it is completed.
 * @property {(error: Error) => void} [onError] When the turn has failed (`TurnFailed`), and when a poll fails.
 * @property {(state: {isPolling: boolean, error: Error | null}) => void} [onState] After each poll, and when polling
 *   is paused or resumed.
 * @property {PollingManager} [manager]
 */

export class SessionPolling {
  #options;
  /** @type {Registration | null} */
  #registration;
  /** @type {WireTurn | null} */
  #wire = null;

  /** @param {SessionPollingOptions} options */
  constructor(options) {
    const { interval = SESSION_INTERVAL_MS, manager = pollingManager } = options;
    this.#options = options;
    /** @type {Turn | null} */
    this.turn = null;
    /** @type {Error | null} */
    this.error = null; // of the last poll, or why the turn failed
    this.#registration = manager.register(turnKey(options), turnPoll(options), interval, {
      onResult: (wire) => this.#onTurn(wire),
      onError: (error) => this.#onFailure(error),
      onActivity: () => this.#notifyState(),
    });
  }

  /** Whether another poll will be sent: not after the end, nor after too many failures, nor during a pause. */
  get isPolling() {
    return this.#registration !== null && this.#registration.isPolling;
  }

  stop() {
    this.#registration?.dispose();
    this.#registration = null;
  }

  /** @param {WireTurn} wire */
  #onTurn(wire) {
    this.error = null;
    if (wire === this.#wire) return this.#notifyState(); // the same object: nothing has changed
    this.#wire = wire;
    const turn = (this.turn = readTurn(wire));
    if (isOver(turn)) this.stop();
    if (turn.status === "failed") this.error = new TurnFailed(turn);
    const { onUpdate, onComplete, onError } = this.#options;
    this.#notifyState();
    onUpdate?.(turn);
    if (turn.status === "completed") onComplete?.(turn);
    if (this.error !== null) onError?.(this.error);
  }

  /** @param {Error} error */
  #onFailure(error) {
    this.error = error;
    this.#notifyState();
    this.#options.onError?.(error);
  }

  #notifyState() {
    this.#options.onState?.({ isPolling: this.isPolling, error: this.error });
  }
}

/** @typedef {Pick<SessionPollingOptions, "api" | "projectId" | "sessionId" | "turnId">} WhichTurn */

/** @param {WhichTurn} which */
export function turnKey({ api, projectId, sessionId, turnId }) {
  return api.url(turnPath(projectId, sessionId, turnId));
}

/**
 * Requests the turn. An unchanged one costs a 304 and is the same object, a changed one its status and new blocks.
 *
 * @param {WhichTurn} which
 * @returns {(options: {signal?: AbortSignal}) => Promise<WireTurn>}
 */
export function turnPoll({ api, projectId, sessionId, turnId }) {
  return ({ signal }) =>
    api.get(turnPath(projectId, sessionId, turnId), {
      signal,
      confirmed: true,
      update: turnUpdate,
    });
}

// The user's actions: shown at once, rolled back if the server refuses.

/**
 * @typedef {{projectId: string, sessionId: string}} WhichSession
 * @typedef {{turns: WireTurn[]}} TurnList
 */

/**
 * Create the project and the session unless they exist.
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
 * Start a turn with a prompt. It cancels a running turn.
 *
 * @param {Api} api
 * @param {WhichSession} session
 * @param {string} prompt
 * @returns {Promise<WireTurn>}
 */
export function newTurn(api, { projectId, sessionId }, prompt) {
  const path = turnsPath(projectId, sessionId);
  const now = new Date().toISOString();
  /** @param {TurnList} list @param {WireTurn} [response] */
  const withNew = ({ turns }, response) => {
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
    const others = turns.map((turn) =>
      isOver(turn) ? turn : endTurn(turn, "cancelled by a new turn"),
    );
    return { turns: [...others.filter((turn) => turn.id !== response?.id), response ?? expected] };
  };
  return act(api, {
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
function endTurn(turn, error) {
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
