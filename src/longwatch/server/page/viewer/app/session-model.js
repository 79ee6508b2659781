/** The turns of a session and the files of its project, live. The user's actions show at once and are rolled back on failure. */

import { projectPath, sessionPath, turnPath, turnsPath } from "../core/routes.js";
import { TurnState, isOver } from "../core/turn-state.js";
import { api, follow } from "./client.js";
import { Watchable } from "./observable.js";
import { whenVisible } from "./ticker.js";

/** @import { WireBlock, WireTurn } from "../core/turn-state.js" */
/** @import { FileEntry, Session, Usage } from "./types.js" */
/** @typedef {WireTurn & {blocks: WireBlock[]}} ShownTurn */

const EXPECTED = "expected-"; // prefix of the ids of unconfirmed turns

export class SessionModel extends Watchable {
  /** @type {Session[] | null} */
  sessions = null;
  /** @type {Usage | null} of all turns of the session together */
  usage = null;
  /** @type {Map<string, FileEntry>} */
  files = new Map();
  /** @type {Set<string>} paths that changed since the page was opened */
  changed = new Set();
  /** @type {unknown} */
  error = null;
  caughtUp = false;
  filesCaughtUp = false;

  #turns = new TurnState();
  /** @type {Map<string, ShownTurn>} */
  #expected = new Map();
  /** @type {Set<string>} ids of turns that the user has interrupted */
  #stopping = new Set();
  /** @type {Set<string>} ids of sessions that the feed reported since the last request */
  #reported = new Set();
  /** @type {(() => void)[]} */
  #cleanups = [];

  /** @param {string} project @param {string} session empty while none is chosen */
  constructor(project, session) {
    super();
    this.project = project;
    this.session = session;
  }

  open() {
    void this.refresh();
    this.#cleanups.push(
      follow(`files:${this.project}`, { onMessage: (message) => this.#onFiles(message) }),
      follow(`sessions:${this.project}`, { onMessage: (message) => this.#onSession(message) }),
      whenVisible(() => void this.refresh()),
    );
    if (this.session)
      this.#cleanups.push(
        follow(`session:${this.project}/${this.session}`, {
          onMessage: (message) => this.#onTurn(message),
        }),
      );
  }

  close() {
    for (const cleanup of this.#cleanups.splice(0)) cleanup();
  }

  /** Request the sessions of the project and the totals of this one; unchanged they cost a 304. */
  async refresh() {
    this.#reported.clear();
    try {
      this.sessions = (await api.get(`${projectPath(this.project)}/sessions`)).sessions;
      if (this.session) this.usage = (await api.get(sessionPath(this.project, this.session))).usage;
      this.error = null;
    } catch (error) {
      if (!this.sessions) this.error = error;
    }
    this.notify();
    this.#refreshIfMissing(); // the response may be older than a report
  }

  /** Turns in order, with the user's unconfirmed actions. */
  turns() {
    const received = this.#turns
      .turns()
      .map((turn) =>
        this.#stopping.has(turn.id) && !isOver(turn)
          ? { ...turn, status: /** @type {const} */ ("failed"), error: "interrupting …" }
          : turn,
      );
    // The feed may deliver a new turn before the response to its request.
    const isReceived = (/** @type {ShownTurn} */ { number, prompt }) =>
      received.some((turn) => turn.number >= number && turn.prompt === prompt);
    return [...received, ...[...this.#expected.values()].filter((turn) => !isReceived(turn))];
  }

  /** Stop a turn; it is shown as stopped before the server has responded. @param {string} turnId */
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
  async createTurn(prompt) {
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
  #onTurn(message) {
    if (message.event === "error") this.error = new Error(message.data.message);
    else if (message.event === "caught_up") this.caughtUp = true;
    else if (!this.#turns.apply(message)) return;
    if (message.event === "turn" && this.caughtUp) void this.refresh();
    this.notify();
  }

  /** @param {{event: string, data: any}} message */
  #onSession({ event, data }) {
    if (event !== "session") return;
    this.#reported.add(data.session.id);
    this.#refreshIfMissing();
  }

  #refreshIfMissing() {
    const listed = this.sessions?.map(({ id }) => id);
    if (listed && [...this.#reported].some((id) => !listed.includes(id))) void this.refresh();
  }

  /** @param {{event: string, data: any}} message */
  #onFiles({ event, data }) {
    if (event === "caught_up") this.filesCaughtUp = true;
    for (const file of event === "files" ? /** @type {FileEntry[]} */ (data.changes) : []) {
      const current = this.files.get(file.path);
      if (current && current.version >= file.version) continue;
      if (file.deleted) this.files.delete(file.path);
      else this.files.set(file.path, file);
      if (this.filesCaughtUp) this.changed.add(file.path);
    }
    this.notify();
  }
}
