/** The items of a list, newest first: pages from the server, updated by the feed. */

import { api, follow } from "./client.js";
import { Watchable } from "./observable.js";

const PAGE = 50;
const RECHECK_MS = 1000; // after a change of a run, for a list that only the server can filter
const RECHECK_FACTOR = 4; // times the last request took: a query of many runs is repeated less often

/** @typedef {Record<string, string>} Query the filters of an address that have a value, by name */

/**
 * Where the items of a list come from, and which of them belong to a query.
 * @template Item
 * @typedef {object} Items
 * @property {string} path of the API
 * @property {string} topic of the feed, and the field of a page that holds its items
 * @property {string} message of the feed, and its field that holds the item
 * @property {readonly string[]} filters the names that an address may have
 * @property {(query: Query) => Record<string, unknown>} [parameters] of the API; by default the query
 * @property {(item: Item) => string} key
 * @property {(item: Item, query: Query) => boolean} matches
 * @property {(shown: Item, received: Item) => Item} newer the later state: a response can arrive after a newer message
 * @property {(query: Query) => boolean} [isFilteredByServer] whether `matches` cannot decide: a change loads the page again
 * @property {(item: Item) => boolean} [changesSilently] whether it changes without an event and must be refreshed
 */

/** @param {URLSearchParams} query @param {readonly string[]} filters @returns {Query} */
export function queryOf(query, filters) {
  return Object.fromEntries(
    filters.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value),
  );
}

/**
 * Whether one of the fields contains the search text, in any case.
 * @param {(string | null)[]} fields @param {string | undefined} text
 */
export function includesText(fields, text) {
  const wanted = text?.toLowerCase();
  return !wanted || fields.some((field) => field?.toLowerCase().includes(wanted));
}

/** @template {{started_at: number}} Item */
export class ListModel extends Watchable {
  /** @type {Item[]} newest first */
  items = [];
  /** @type {"loading" | "ready" | "more" | "failed"} */
  state = "loading";
  /** @type {unknown} */
  error = null;
  /** @type {string | null} */
  more = null;
  /** @type {string | null} the server's note on what the list may lack */
  hint = null;
  #of;
  /** @type {Query} */
  #query = {};
  #requests = 0;
  /** @type {Item[]} received before the first page */
  #early = [];
  /** @type {(() => void) | null} */
  #unfollow = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #recheck;
  #hasChanged = false; // since the last recheck
  #tookMs = 0; // the last recheck

  /** @param {Items<Item>} items */
  constructor(items) {
    super();
    this.#of = items;
  }

  /** Show the items of a query, and follow the list from here on. @param {Query} query */
  async open(query) {
    this.#query = query;
    this.state = "loading";
    this.items = [];
    this.notify();
    // Subscribed before the request: messages in between are buffered and applied to the response.
    this.#unfollow ??= follow(this.#of.topic, { onMessage: (message) => this.#receive(message) });
    await this.#load();
  }

  /** Request the first page again. */
  async reload() {
    await this.open(this.#query);
  }

  /** Request the first page again while it has items that change without an event. */
  async refresh() {
    const { changesSilently } = this.#of;
    if (changesSilently && this.state === "ready" && this.items.some(changesSilently))
      await this.#load(undefined, { isRefresh: true });
  }

  async loadMore() {
    if (!this.more || this.state !== "ready") return;
    this.state = "more";
    this.notify();
    await this.#load(this.more);
  }

  close() {
    this.#requests += 1;
    clearTimeout(this.#recheck);
    this.#recheck = undefined;
    this.#unfollow?.();
    this.#unfollow = null;
  }

  /**
   * @param {string} [after]
   * @param {{isRefresh?: boolean}} [how] a refresh leaves later pages alone and reports no error
   */
  async #load(after, { isRefresh = false } = {}) {
    this.#requests += 1;
    const request = this.#requests;
    const { path, topic, parameters } = this.#of;
    try {
      const page = await api.get(path, {
        query: { ...(parameters?.(this.#query) ?? this.#query), limit: PAGE, after },
      });
      if (request !== this.#requests) return; // another query was chosen meanwhile
      if (isRefresh && this.#isFilteredByServer)
        this.#dropUnlisted(page[topic], page.cursor !== null);
      this.#merge(page[topic]);
      if (!isRefresh) this.more = page.cursor;
      this.hint = page.hint ?? null;
      this.state = "ready";
      for (const item of this.#early.splice(0)) this.#update(item);
    } catch (error) {
      if (request !== this.#requests || isRefresh) return;
      this.error = error;
      this.state = "failed";
    }
    this.notify();
  }

  /** @param {{event: string, data: any}} message */
  #receive({ event, data }) {
    const { message } = this.#of;
    if (event === `${message}_deleted`) this.#remove(data[`${message}_id`]);
    if (event !== message) return;
    if (this.state === "loading") this.#early.push(data[message]);
    else if (this.#update(data[message])) this.notify();
  }

  /** @param {string} key of an item that was deleted */
  #remove(key) {
    const isOther = (/** @type {Item} */ item) => this.#of.key(item) !== key;
    this.items = this.items.filter(isOther);
    this.#early = this.#early.filter(isOther);
    this.notify();
  }

  /** @param {Item} item @returns {boolean} whether the list has changed */
  #update(item) {
    const { key, newer } = this.#of;
    const at = this.items.findIndex((each) => key(each) === key(item));
    if (this.#isFilteredByServer) {
      this.#recheckSoon();
      if (at >= 0) this.items[at] = newer(/** @type {Item} */ (this.items[at]), item);
      return at >= 0;
    }
    const matches = this.#of.matches(item, this.#query);
    if (at >= 0 && !matches) this.items.splice(at, 1);
    else if (at >= 0) this.items[at] = newer(/** @type {Item} */ (this.items[at]), item);
    else if (matches && !this.#isBeyond(item)) this.#merge([item]);
    else return false;
    return true;
  }

  get #isFilteredByServer() {
    return this.#of.isFilteredByServer?.(this.#query) ?? false;
  }

  /** Load the first page again soon, once for all changes meanwhile. */
  #recheckSoon() {
    this.#hasChanged = true;
    const delay = Math.max(RECHECK_MS, this.#tookMs * RECHECK_FACTOR);
    this.#recheck ??= setTimeout(() => void this.#recheckNow(), delay);
  }

  async #recheckNow() {
    const began = performance.now();
    if (this.state === "ready") {
      this.#hasChanged = false;
      await this.#load(undefined, { isRefresh: true });
    }
    this.#tookMs = performance.now() - began;
    this.#recheck = undefined;
    if (this.#hasChanged && this.#unfollow) this.#recheckSoon();
  }

  /**
   * Drop the items that a new first page should have and lacks: they no longer match.
   * @param {Item[]} page @param {boolean} hasMore
   */
  #dropUnlisted(page, hasMore) {
    const { key } = this.#of;
    const listed = new Set(page.map(key));
    const last = page[page.length - 1];
    const end = hasMore ? (last?.started_at ?? Infinity) : -Infinity;
    this.items = this.items.filter((item) => listed.has(key(item)) || item.started_at < end);
  }

  /**
   * Whether an item is older than the last page. It is shown with its own page, so that the list has no gap.
   * @param {Item} item
   */
  #isBeyond(item) {
    const last = this.items[this.items.length - 1];
    return this.more !== null && last !== undefined && item.started_at < last.started_at;
  }

  /** @param {Item[]} items */
  #merge(items) {
    const { key, newer } = this.#of;
    const byKey = new Map(this.items.map((item) => [key(item), item]));
    for (const item of items) {
      const before = byKey.get(key(item));
      byKey.set(key(item), before ? newer(before, item) : item);
    }
    this.items = [...byKey.values()].sort(
      (one, other) => other.started_at - one.started_at || (key(one) < key(other) ? 1 : -1),
    );
  }
}
