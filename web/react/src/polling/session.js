/** A conversation: polls a turn until it is over, and sends what users do to it. */

import { projectPath, sessionPath, turnPath, turnsPath } from "../../core/routes.js";
import { isOver } from "../../core/turn-state.js";
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

/** The turn has failed, was interrupted or was cancelled; `message` says why, `turn` is how it ended. */
export class TurnFailed extends Error {
  /** @param {Turn} turn */
  constructor(turn) {
    super(turn.error ?? "The turn failed without saying why.");
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
 * @property {(error: Error) => void} [onError] When it has failed (`TurnFailed`), and when a look fails.
 * @property {(state: {isPolling: boolean, error: Error | null}) => void} [onState] After each look, and when polling
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
    this.error = null; // of the last look, or why the turn failed
    this.#registration = manager.register(turnKey(options), turnPoll(options), interval, {
      onResult: (wire) => this.#take(wire),
      onError: (error) => this.#fail(error),
      onActivity: () => this.#tellState(),
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
  #take(wire) {
    this.error = null;
    if (wire === this.#wire) return this.#tellState(); // the very same: nothing had changed
    this.#wire = wire;
    const turn = (this.turn = readTurn(wire));
    if (isOver(turn)) this.stop();
    if (turn.status === "failed") this.error = new TurnFailed(turn);
    const { onUpdate, onComplete, onError } = this.#options;
    this.#tellState();
    onUpdate?.(turn);
    if (turn.status === "completed") onComplete?.(turn);
    if (this.error !== null) onError?.(this.error);
  }

  /** @param {Error} error */
  #fail(error) {
    this.error = error;
    this.#tellState();
    this.#options.onError?.(error);
  }

  #tellState() {
    this.#options.onState?.({ isPolling: this.isPolling, error: this.error });
  }
}

/** @typedef {Pick<SessionPollingOptions, "api" | "projectId" | "sessionId" | "turnId">} WhichTurn */

/** @param {WhichTurn} which */
export function turnKey({ api, projectId, sessionId, turnId }) {
  return api.address(turnPath(projectId, sessionId, turnId));
}

/**
 * Asks for the turn; one that has not changed costs a 304 and is the same object.
 *
 * @param {WhichTurn} which
 * @returns {(asked: {signal?: AbortSignal}) => Promise<WireTurn>}
 */
export function turnPoll({ api, projectId, sessionId, turnId }) {
  return ({ signal }) =>
    api.get(turnPath(projectId, sessionId, turnId), { signal, confirmed: true });
}

// What users do: shown at once, taken back if the server refuses.

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
    const others = turns.map((turn) =>
      isOver(turn) ? turn : ended(turn, "cancelled by a new turn"),
    );
    return { turns: [...others.filter((turn) => turn.id !== answer?.id), answer ?? expected] };
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
  /** @param {WireTurn} turn @param {WireTurn} [answer] */
  const stopped = (turn, answer) =>
    answer ? { ...turn, ...answer } : isOver(turn) ? turn : ended(turn, why);
  return act(api, {
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

/**
 * @typedef {object} Action
 * @property {string} path
 * @property {unknown} [body]
 * @property {Record<string, Change>} [shows] What to show at once: address → change of its body.
 * @property {string[]} [invalidates] Beginnings of addresses to fetch again afterwards.
 */

/**
 * Send what a user does: shown at once, confirmed by the response, taken back if it fails.
 * @param {Api} api
 * @param {Action} action
 * @returns {Promise<any>} the body of the response
 */
export async function act(api, { path, body, shows = {}, invalidates = [] }) {
  const layers = Object.entries(shows).map(([key, change]) =>
    api.cache.change(api.address(key), change),
  );
  try {
    const response = await api.send("POST", path, body);
    for (const layer of layers) layer.confirm(response);
    return response;
  } catch (error) {
    for (const layer of layers) layer.takeBack();
    throw error;
  } finally {
    for (const prefix of invalidates) api.cache.invalidate(api.address(prefix));
  }
}
