/** Looks at a turn until it is over (document 003's session polling). */

import { pollingManager } from "./polling-manager.js";
import { turnPath } from "./routes.js";
import { isOver, readTurn } from "./turn-state.js";

/** @import { Api } from "./api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { Registration } from "./registration.js" */
/** @import { Turn, WireTurn } from "./turn-state.js" */

export const SESSION_INTERVAL_MS = 2_000;

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
  return ({ signal }) => api.get(turnPath(projectId, sessionId, turnId), { signal, confirmed: true });
}
