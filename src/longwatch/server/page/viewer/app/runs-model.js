/**
 * The runs that the list shows: pages from the server, kept up to date by the feed.
 */

import { api, follow } from "./live.js";
import { isOpen } from "./run-times.js";

/** @typedef {import("./types.js").Summary} Summary */
/** @typedef {{status?: string, kind?: string, text?: string, since?: string}} RunsQuery */

const PAGE = 50;
const UNITS_MS = /** @type {Record<string, number>} */ ({ m: 60_000, h: 3_600_000, d: 86_400_000 });
const HIDDEN_KINDS = ["project", "conversation"]; // they never end; asked for by their kind only

/**
 * What an address asks for.
 * @param {URLSearchParams} query
 * @returns {RunsQuery}
 */
export function queryOf(query) {
  const found = ["status", "kind", "text", "since"].flatMap((name) => {
    const value = query.get(name);
    return value ? [[name, value]] : [];
  });
  return Object.fromEntries(found);
}

export class RunsModel {
  /** @type {Summary[]} newest first */
  runs = [];
  /** @type {"loading" | "ready" | "more" | "failed"} */
  state = "loading";
  /** @type {unknown} */
  error = null;
  /** @type {string | null} */
  more = null;
  /** @type {string | null} which runs the list may lack, and why */
  hint = null;
  /** @type {RunsQuery} */
  #query = {};
  #asked = 0;
  /** @type {Summary[]} told before the first page was there */
  #early = [];
  /** @type {(() => void) | null} */
  #unfollow = null;
  /** @type {Set<() => void>} */
  #watchers = new Set();

  /** @param {() => void} watcher */
  watch(watcher) {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /**
   * Show the runs of a query, and follow the list from here on.
   * @param {RunsQuery} query
   */
  async open(query) {
    this.#query = query;
    this.state = "loading";
    this.runs = [];
    this.#told();
    // Followed before it is asked for: what happens in between is kept and applied to the answer.
    this.#unfollow ??= follow("runs", { onMessage: (message) => this.#heard(message) });
    await this.#load();
  }

  /** Ask for the first page anew. */
  async again() {
    await this.open(this.#query);
  }

  /** Fetch the first page again while it is shown: conditions change without an event. */
  async refresh() {
    if (this.state === "ready" && this.runs.some(isOpen)) await this.#load(undefined, { isRefresh: true });
  }

  async loadMore() {
    if (!this.more || this.state !== "ready") return;
    this.state = "more";
    this.#told();
    await this.#load(this.more);
  }

  close() {
    this.#asked += 1;
    this.#unfollow?.();
    this.#unfollow = null;
  }

  /**
   * @param {string} [after]
   * @param {{isRefresh?: boolean}} [how] a refresh keeps the later pages and reports no error
   */
  async #load(after, { isRefresh = false } = {}) {
    this.#asked += 1;
    const asked = this.#asked;
    const { since, ...rest } = this.#query;
    try {
      const page = await api.get("/api/runs", { query: { ...rest, since: since ? sinceMs(since) : undefined, limit: PAGE, after } });
      if (asked !== this.#asked) return; // another query was chosen meanwhile
      this.#merge(page.runs);
      if (!isRefresh) this.more = page.cursor;
      this.hint = page.hint ?? null;
      this.state = "ready";
      for (const run of this.#early.splice(0)) this.#take(run);
    } catch (error) {
      if (asked !== this.#asked || isRefresh) return;
      this.error = error;
      this.state = "failed";
    }
    this.#told();
  }

  /** @param {{event: string, data: any}} message */
  #heard({ event, data }) {
    if (event !== "run") return;
    if (this.state === "loading") this.#early.push(data.run);
    else if (this.#take(data.run)) this.#told();
  }

  /**
   * @param {Summary} run
   * @returns {boolean} whether the list has changed
   */
  #take(run) {
    const known = this.runs.findIndex((each) => each.run_id === run.run_id);
    const matches = this.#matches(run);
    if (known >= 0 && !matches) this.runs.splice(known, 1);
    else if (known >= 0) this.runs[known] = newer(/** @type {Summary} */ (this.runs[known]), run);
    else if (matches && !this.#isBeyond(run)) this.#merge([run]);
    else return false;
    return true;
  }

  /**
   * A run older than the last page is not shown before its page is: the list would have a hole.
   * @param {Summary} run
   */
  #isBeyond(run) {
    const last = this.runs[this.runs.length - 1];
    return this.more !== null && last !== undefined && run.started_at < last.started_at;
  }

  /** @param {Summary} run */
  #matches(run) {
    const { status, kind, text, since } = this.#query;
    if (kind ? run.kind !== kind : HIDDEN_KINDS.includes(run.kind)) return false;
    if (status && run.status !== status) return false;
    if (since && run.started_at < sinceMs(since)) return false;
    const words = text?.toLowerCase();
    return !words || run.run_id.toLowerCase().includes(words) || (run.name ?? "").toLowerCase().includes(words);
  }

  /** @param {Summary[]} runs */
  #merge(runs) {
    const known = new Map(this.runs.map((run) => [run.run_id, run]));
    for (const run of runs) {
      const before = known.get(run.run_id);
      known.set(run.run_id, before ? newer(before, run) : run);
    }
    this.runs = [...known.values()].sort((one, other) => other.started_at - one.started_at || (one.run_id < other.run_id ? 1 : -1));
  }

  #told() {
    for (const watcher of this.#watchers) watcher();
  }
}

/**
 * Of two tellings of a run the later one: a page asked for earlier can arrive after a message.
 * @param {Summary} known
 * @param {Summary} told
 */
function newer(known, told) {
  return told.events >= known.events ? { ...told, conditions: told.conditions ?? (told.events === known.events ? known.conditions : []) } : known;
}

/**
 * A moment some time ago, rounded to the minute so that the same question has the same address.
 * @param {string} text such as `1h` or `7d`, or epoch milliseconds
 */
function sinceMs(text) {
  const found = /^(\d+)([mhd])$/.exec(text);
  if (!found) return Number(text) || 0;
  const ms = Date.now() - Number(found[1]) * (UNITS_MS[found[2] ?? ""] ?? 0);
  return Math.floor(ms / 60_000) * 60_000;
}
