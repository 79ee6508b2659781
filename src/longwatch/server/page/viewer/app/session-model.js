/**
 * A session's turns as they arrive, and the files of its project. What the reader does shows at once and is taken
 * back if the server refuses.
 */

import { sessionPath, turnPath, turnsPath } from "../core/routes.js";
import { TurnState, isOver } from "../core/turn-state.js";
import { api, follow } from "./client.js";
import { Watchable } from "./observable.js";
import { whenVisible } from "./ticker.js";

/** @import { WireBlock, WireTurn } from "../core/turn-state.js" */
/** @import { FileEntry, Session } from "./types.js" */
/** @typedef {WireTurn & {blocks: WireBlock[]}} ShownTurn */

const EXPECTED = "expected-"; // ids of turns that the server has not confirmed yet

export class SessionModel extends Watchable {
  /** @type {Session[] | null} */
  sessions = null;
  /** @type {Map<string, FileEntry>} */
  files = new Map();
  /** @type {Set<string>} paths that changed while the reader afterPoll */
  touched = new Set();
  /** @type {unknown} */
  error = null;
  caughtUp = false;
  filesCaughtUp = false;

  #turns = new TurnState();
  /** @type {Map<string, ShownTurn>} */
  #expected = new Map();
  /** @type {Set<string>} turns that the reader has interrupted */
  #stopping = new Set();
  /** @type {(() => void)[]} */
  #undo = [];

  /** @param {string} project @param {string} session empty while none is chosen */
  constructor(project, session) {
    super();
    this.project = project;
    this.session = session;
  }

  open() {
    void this.refresh();
    this.#undo.push(
      follow(`files:${this.project}`, { onMessage: (message) => this.#takeFiles(message) }),
      follow(`sessions:${this.project}`, { onMessage: (message) => this.#takeSession(message) }),
      whenVisible(() => void this.refresh()),
    );
    if (this.session)
      this.#undo.push(
        follow(`session:${this.project}/${this.session}`, {
          onMessage: (message) => this.#takeTurns(message),
        }),
      );
  }

  close() {
    for (const undo of this.#undo.splice(0)) undo();
  }

  /** Ask which sessions the project has. Nothing is sent back if that has not changed. */
  async refresh() {
    try {
      const { sessions } = await api.get(
        `/api/projects/${encodeURIComponent(this.project)}/sessions`,
      );
      this.sessions = sessions;
      this.error = null;
    } catch (error) {
      if (!this.sessions) this.error = error;
    }
    this.notify();
  }

  /** Turns in order, with what the reader did and the server has yet to confirm. */
  turns() {
    const told = this.#turns
      .turns()
      .map((turn) =>
        this.#stopping.has(turn.id) && !isOver(turn)
          ? { ...turn, status: /** @type {const} */ ("failed"), error: "interrupting …" }
          : turn,
      );
    // The feed may bring a new turn before the answer to it comes: then it is here already.
    const isHere = (/** @type {ShownTurn} */ { number, prompt }) =>
      told.some((turn) => turn.number >= number && turn.prompt === prompt);
    return [...told, ...[...this.#expected.values()].filter((turn) => !isHere(turn))];
  }

  /**
   * Stop a turn: it shows as stopped before the server has answered.
   * @param {string} turnId
   */
  async interrupt(turnId) {
    this.#stopping.add(turnId);
    this.notify();
    try {
      const turn = await api.send(
        "POST",
        `${turnPath(this.project, this.session, turnId)}/interrupt`,
        { reason: "interrupted from the page" },
      );
      this.#turns.apply({ event: "turn", data: { turn } });
    } finally {
      this.#stopping.delete(turnId);
      this.notify();
    }
  }

  /** @param {string} prompt */
  async say(prompt) {
    const now = new Date().toISOString();
    const id = `${EXPECTED}${now}`;
    const number = Math.max(0, ...this.turns().map((turn) => turn.number)) + 1;
    this.#expected.set(id, {
      id,
      project_id: this.project,
      session_id: this.session,
      number,
      prompt,
      status: "pending",
      blocks: [],
      block_count: 0,
      error: null,
      created_at: now,
      started_at: null,
      completed_at: null,
      last_updated: now,
    });
    this.notify();
    try {
      const turn = await api.send("POST", turnsPath(this.project, this.session), { prompt });
      this.#turns.apply({ event: "turn", data: { turn } });
      api.cache.invalidate(api.url(sessionPath(this.project, this.session)));
    } finally {
      this.#expected.delete(id);
      this.notify();
    }
  }

  /** @param {{event: string, data: any}} message */
  #takeTurns(message) {
    if (message.event === "error") this.error = new Error(message.data.message);
    else if (message.event === "caught_up") this.caughtUp = true;
    else if (!this.#turns.apply(message)) return;
    if (message.event === "turn" && this.caughtUp) void this.refresh();
    this.notify();
  }

  /**
   * Whoever makes a session, it shows at once.
   * @param {{event: string, data: any}} message
   */
  #takeSession({ event, data }) {
    if (
      event === "session" &&
      this.sessions &&
      !this.sessions.some((each) => each.id === data.session.id)
    )
      void this.refresh();
  }

  /** @param {{event: string, data: any}} message */
  #takeFiles({ event, data }) {
    if (event === "caught_up") this.filesCaughtUp = true;
    for (const file of event === "files" ? /** @type {FileEntry[]} */ (data.changes) : []) {
      const known = this.files.get(file.path);
      if (known && known.version >= file.version) continue;
      if (file.deleted) this.files.delete(file.path);
      else this.files.set(file.path, file);
      if (this.filesCaughtUp) this.touched.add(file.path);
    }
    this.notify();
  }
}
