/**
 * A session as it is now: its turns from the feed, with the user's unconfirmed actions. All components that show a session share
 * one store.
 */

import { ApiError } from "../core/errors.js";
import { sessionPath } from "../core/routes.js";
import { TurnState, isOver } from "../core/turn-state.js";
import {
  endTurn,
  ensureSession,
  interrupt,
  newTurn,
  newTurnId,
  withNewTurn,
} from "./polling/actions.js";
import { readTurn } from "./polling/turns.js";

/** @import { FeedState, SessionSnapshot, SessionTurn, Turn } from "../index.js" */
/** @import { Api } from "../core/api.js" */
/** @import { FeedClient } from "../core/feed.js" */
/** @import { WireTurn } from "../core/turn-state.js" */
/** @import { PollingManager } from "./polling/polling-manager.js" */

/**
 * @typedef {object} Server
 * @property {Api} api
 * @property {FeedClient} feed
 * @property {PollingManager} manager
 *
 * @typedef {object} Sending
 * @property {string} prompt
 * @property {string} now When it was sent.
 * @property {Promise<WireTurn>} response
 */

const VALID_ID = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;
const MOST_UNUSED = 5; // stores without a component, kept to show their session at once when the user returns

export class SessionStore {
  #server;
  #projectId;
  #sessionId;
  #turns = new TurnState();
  /** @type {Map<string, Sending>} */
  #sending = new Map(); // turn id → a turn that the server has not confirmed
  /** @type {Map<string, string>} */
  #stopping = new Map(); // turn id → the reason of an interruption that the server has not confirmed
  /** @type {Set<() => void>} */
  #listeners = new Set();
  #wasUsed = false;
  /** @type {(() => void) | null} */
  #unfollow = null;
  #isLoading = true;
  #isMissing = false; // the server has no such session
  /** @type {FeedState} */
  #connection = "connecting";
  /** @type {Error | null} */
  #outage = null; // why the connection is offline
  /** @type {Error | null} */
  #refusal = null; // why the server does not show this session
  /** @type {SessionSnapshot | null} */
  #snapshot = null;
  /** @type {SessionTurn[]} */
  #shown = [];

  /** @param {Server} server @param {string} projectId @param {string} sessionId */
  constructor(server, projectId, sessionId) {
    this.#server = server;
    this.#projectId = projectId;
    this.#sessionId = sessionId;
  }

  /** Whether its last component has left. */
  get isUnused() {
    return this.#wasUsed && this.#listeners.size === 0;
  }

  /** The same object until something changes. @returns {SessionSnapshot} */
  snapshot = () => (this.#snapshot ??= this.#newSnapshot());

  /**
   * Follow the session while there is a listener.
   * @param {() => void} listener Called after every change.
   * @returns {() => void} unsubscribes
   */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    this.#wasUsed = true;
    if (this.#listeners.size === 1) this.#start();
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size) return;
      this.#unfollow?.();
      this.#unfollow = null;
    };
  };

  /**
   * Start a turn, and create the session if it does not exist. The turn is shown at once, and removed if this fails.
   * @param {string} prompt @returns {Promise<Turn>}
   */
  send = async (prompt) => {
    const turnId = newTurnId();
    const response = this.#post(prompt, turnId);
    this.#sending.set(turnId, { prompt, now: new Date().toISOString(), response });
    this.#notify();
    try {
      const turn = await response;
      this.#turns.apply({ event: "turn", data: { turn } });
      return readTurn(turn);
    } finally {
      this.#sending.delete(turnId);
      this.#notify();
    }
  };

  /**
   * Stop the live turn, if there is one. It is shown as stopped at once, and continues if this fails.
   * @param {string} [reason] @returns {Promise<void>}
   */
  interrupt = async (reason) => {
    const turnId = this.snapshot().liveTurn?.id;
    if (turnId === undefined) return;
    const { api, manager } = this.#server;
    this.#stopping.set(turnId, reason ?? "interrupted");
    this.#notify();
    try {
      const isSent = (await this.#sending.get(turnId)?.response.catch(() => null)) !== null;
      if (!isSent) return; // it was never started
      const turn = await interrupt(api, { ...this.#which, turnId }, reason);
      this.#turns.apply({ event: "turn", data: { turn } });
    } finally {
      this.#stopping.delete(turnId);
      this.#notify();
      manager.refreshAll(this.#url);
    }
  };

  get #which() {
    return { projectId: this.#projectId, sessionId: this.#sessionId };
  }

  get #url() {
    return this.#server.api.url(sessionPath(this.#projectId, this.#sessionId));
  }

  /** @param {string} prompt @param {string} turnId @returns {Promise<WireTurn>} */
  async #post(prompt, turnId) {
    const { api, manager } = this.#server;
    try {
      if (this.#isMissing) await ensureSession(api, this.#which);
      return await newTurn(api, this.#which, prompt, turnId);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      await ensureSession(api, this.#which);
      return await newTurn(api, this.#which, prompt, turnId);
    } finally {
      manager.refreshAll(this.#url); // including the turn that it cancels
    }
  }

  #start() {
    const invalid = [this.#projectId, this.#sessionId].find((id) => !VALID_ID.test(id));
    if (invalid === undefined) return this.#followSession();
    const message = `Invalid id ${JSON.stringify(invalid)}. Use 1 to 100 letters, digits, '.', '_' and '-'.`;
    this.#fail(new ApiError({ status: 422, code: "invalid_request", message }));
  }

  #followSession() {
    this.#follow(`session:${this.#projectId}/${this.#sessionId}`, ({ event, data }) => {
      if (event === "error") return this.#onRefusal(data);
      const hasChanged = this.#turns.apply({ event, data });
      if (event === "caught_up" && this.#isLoading) {
        this.#isLoading = false;
        this.#notify();
      } else if (hasChanged && !this.#isLoading) this.#notify(); // the history is shown once it is complete
    });
  }

  /** A session that does not exist yet is empty until it is created. @param {{code: string, message: string}} error */
  #onRefusal({ code, message }) {
    const projectId = this.#projectId;
    if (code === "session_not_found") {
      this.#followUntil(`sessions:${projectId}`, ({ event, data }) => {
        return event === "session" && data.session.id === this.#sessionId;
      });
    } else if (code === "project_not_found") {
      this.#followUntil("projects", ({ event, data }) => {
        return event === "project" && data.project.id === projectId;
      });
    } else this.#fail(new ApiError({ status: 422, code, message }));
  }

  /** Follow the session once a message of this topic reports it. @param {string} topic @param {(message: any) => boolean} isIt */
  #followUntil(topic, isIt) {
    this.#isMissing = true;
    if (this.#isLoading) {
      this.#isLoading = false;
      this.#notify();
    }
    this.#follow(topic, (message) => {
      if (isIt(message)) {
        this.#isMissing = topic === "projects"; // then its session is
        this.#followSession();
      } else if (message.event === "error") this.#onRefusal(message.data);
    });
  }

  /** @param {string} topic @param {(message: {event: string, data: any}) => void} onMessage */
  #follow(topic, onMessage) {
    this.#unfollow?.();
    const { feed } = this.#server;
    this.#refusal = null;
    this.#onState(feed.state, null);
    this.#unfollow = feed.subscribe(topic, {
      onMessage,
      onState: (state, { error }) => this.#onState(state, error),
    });
  }

  /** @param {FeedState} state @param {Error | null} error */
  #onState(state, error) {
    const outage = state === "offline" ? (error ?? this.#outage) : null;
    if (state === this.#connection && outage === this.#outage) return;
    this.#connection = state;
    this.#outage = outage;
    this.#notify();
  }

  /** @param {Error} error */
  #fail(error) {
    this.#isLoading = false;
    this.#refusal = error;
    this.#notify();
  }

  #notify() {
    this.#snapshot = null;
    for (const listener of [...this.#listeners]) listener();
  }

  /** @returns {SessionSnapshot} */
  #newSnapshot() {
    const turns = this.#shownTurns();
    const last = turns.at(-1);
    return {
      turns,
      liveTurn: last && !isOver(last) ? last : undefined,
      isLoading: this.#isLoading,
      connection: this.#connection,
      error: this.#refusal ?? this.#outage,
    };
  }

  /** The turns with the unconfirmed actions; the same array and objects unless something has changed. */
  #shownTurns() {
    /** @type {WireTurn[]} */
    let turns = this.#turns.turns();
    for (const [turnId, { prompt, now }] of this.#sending)
      turns = withNewTurn(turns, { ...this.#which, turnId, prompt, now });
    const shown = turns.map((turn) => this.#shownTurn(turn));
    const isSame =
      shown.length === this.#shown.length && shown.every((turn, at) => turn === this.#shown[at]);
    return isSame ? this.#shown : (this.#shown = shown);
  }

  /** @param {WireTurn} turn @returns {SessionTurn} */
  #shownTurn(turn) {
    const reason = this.#stopping.get(turn.id);
    const read = readTurn(reason === undefined || isOver(turn) ? turn : endTurn(turn, reason));
    const isUnconfirmed = this.#sending.has(turn.id) && !this.#turns.turn(turn.id);
    return isUnconfirmed ? { ...read, isUnconfirmed } : read;
  }
}

/** The stores of a provider. */
export class SessionStores {
  #server;
  /** @type {Map<string, SessionStore>} */
  #stores = new Map();

  /** @param {Server} server */
  constructor(server) {
    this.#server = server;
  }

  /** @param {string} projectId @param {string} sessionId @returns {SessionStore} */
  of(projectId, sessionId) {
    const key = `${projectId}/${sessionId}`;
    const store = this.#stores.get(key) ?? new SessionStore(this.#server, projectId, sessionId);
    this.#stores.delete(key);
    this.#stores.set(key, store); // the last one used is the last one dropped
    const unused = [...this.#stores].filter(([, each]) => each.isUnused && each !== store);
    for (const [dropped] of unused.slice(0, -MOST_UNUSED)) this.#stores.delete(dropped);
    return store;
  }
}
