/**
 * The executions that the board shows: pages from the server, kept up to date by the feed.
 */

import { api, follow } from "./live.js";

/** @typedef {import("./types.js").ExecutionLine} ExecutionLine */
/** @typedef {{status?: string, mode?: string, source?: string, text?: string}} ExecutionsQuery */

const PAGE = 50;
const FILTERS = ["status", "mode", "source", "text"];

/**
 * What an address asks for.
 * @param {URLSearchParams} query
 * @returns {ExecutionsQuery}
 */
export function queryOf(query) {
  return Object.fromEntries(FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : [])));
}

export class ExecutionsModel {
  /** @type {ExecutionLine[]} newest first */
  executions = [];
  /** @type {"loading" | "ready" | "more" | "failed"} */
  state = "loading";
  /** @type {unknown} */
  error = null;
  /** @type {string | null} */
  more = null;
  /** @type {string | null} why there is nothing, as the server says it */
  hint = null;
  /** @type {ExecutionsQuery} */
  #query = {};
  #asked = 0;
  /** @type {ExecutionLine[]} told before the first page was there */
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
   * Show the executions of a query, and follow the list from here on.
   * @param {ExecutionsQuery} query
   */
  async open(query) {
    this.#query = query;
    this.state = "loading";
    this.executions = [];
    this.#told();
    // Followed before it is asked for: what happens in between is kept and applied to the answer.
    this.#unfollow ??= follow("executions", { onMessage: (message) => this.#heard(message) });
    await this.#load();
  }

  /** Ask for the first page anew. */
  async again() {
    await this.open(this.#query);
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

  /** @param {string} [after] */
  async #load(after) {
    this.#asked += 1;
    const asked = this.#asked;
    try {
      const page = await api.get("/api/executions", { query: { ...this.#query, limit: PAGE, after } });
      if (asked !== this.#asked) return; // another query was chosen meanwhile
      this.#merge(page.executions);
      this.more = page.cursor;
      this.hint = page.hint;
      this.state = "ready";
      for (const execution of this.#early.splice(0)) this.#take(execution);
    } catch (error) {
      if (asked !== this.#asked) return;
      this.error = error;
      this.state = "failed";
    }
    this.#told();
  }

  /** @param {{event: string, data: any}} message */
  #heard({ event, data }) {
    if (event !== "execution") return;
    if (this.state === "loading") this.#early.push(data.execution);
    else if (this.#take(data.execution)) this.#told();
  }

  /**
   * @param {ExecutionLine} execution
   * @returns {boolean} whether the list has changed
   */
  #take(execution) {
    const known = this.executions.findIndex((each) => keyOf(each) === keyOf(execution));
    const matches = this.#matches(execution);
    if (known >= 0 && !matches) this.executions.splice(known, 1);
    else if (known >= 0) this.executions[known] = newer(/** @type {ExecutionLine} */ (this.executions[known]), execution);
    else if (matches && !this.#isBeyond(execution)) this.#merge([execution]);
    else return false;
    return true;
  }

  /**
   * One older than the last page is not shown before its page is: the list would have a hole.
   * @param {ExecutionLine} execution
   */
  #isBeyond(execution) {
    const last = this.executions[this.executions.length - 1];
    return this.more !== null && last !== undefined && execution.started_at < last.started_at;
  }

  /** @param {ExecutionLine} execution */
  #matches(execution) {
    const { status, mode, source, text } = this.#query;
    if ((status && execution.status !== status) || (mode && execution.mode !== mode) || (source && execution.source !== source)) return false;
    const words = text?.toLowerCase();
    return !words || [execution.execution_id, execution.plan_id, execution.name ?? ""].some((name) => name.toLowerCase().includes(words));
  }

  /** @param {ExecutionLine[]} executions */
  #merge(executions) {
    const known = new Map(this.executions.map((each) => [keyOf(each), each]));
    for (const each of executions) {
      const before = known.get(keyOf(each));
      known.set(keyOf(each), before ? newer(before, each) : each);
    }
    this.executions = [...known.values()].sort((one, other) => other.started_at - one.started_at || (keyOf(one) < keyOf(other) ? 1 : -1));
  }

  #told() {
    for (const watcher of this.#watchers) watcher();
  }
}

/**
 * An id is one of its plan's.
 * @param {ExecutionLine} execution
 */
export const keyOf = ({ execution_id: id, plan_id: plan }) => `${id}\n${plan}`;

/**
 * Of two tellings the later one: a page asked for earlier can arrive after a message.
 * @param {ExecutionLine} known
 * @param {ExecutionLine} told
 */
function newer(known, told) {
  return told.version >= known.version ? told : known;
}
