/** Polls a turn of a session until it is over. */

import { turnPath } from "../../core/routes.js";
import { isOver, turnUpdate } from "../../core/turn-state.js";
import { pollingManager } from "./polling-manager.js";
import { readTurn } from "./turns.js";

/** @import { Api } from "../../core/api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { Registration } from "./shared-poll.js" */
/** @import { WireTurn } from "../../core/turn-state.js" */
/** @import { Turn } from "../../index.js" */

export const SESSION_INTERVAL_MS = 2_000;

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
