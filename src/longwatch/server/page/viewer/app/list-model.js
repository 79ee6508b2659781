/**
 * What a list shows, newest first: pages from the server, kept up to date by the feed.
 */

import { api, follow } from "./client.js";
import { Watchable } from "./observable.js";

const PAGE = 50;

/** @typedef {Record<string, string>} Query the filters of an address that have a value, by name */

/**
 * Where the items of a list come from, and which of them belong to a query.
 * @template Item
 * @typedef {object} Items
 * @property {string} path of the API
 * @property {string} topic of the feed, and the field of a page that holds its items
 * @property {string} message of the feed, and its field that holds the item
 * @property {readonly string[]} filters the names that an address may have
 * @property {(query: Query) => Record<string, unknown>} [parameters] what the API is asked for; the query, if not given
 * @property {(item: Item) => string} key
 * @property {(item: Item, query: Query) => boolean} matches
 * @property {(known: Item, told: Item) => Item} newer of two states the later one: a page that was asked for earlier can
 *   arrive after a message
 * @property {(item: Item) => boolean} [changesSilently] whether it changes without an event, and is fetched again for that
 */

/**
 * What an address asks for.
 * @param {URLSearchParams} query
 * @param {readonly string[]} filters
 * @returns {Query}
 */
export function queryOf(query, filters) {
  return Object.fromEntries(
    filters.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value),
  );
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
  /** @type {string | null} what the list may lack, and why, as the server says it */
  hint = null;
  #of;
  /** @type {Query} */
  #query = {};
  #asked = 0;
  /** @type {Item[]} told before the first page was there */
  #early = [];
  /** @type {(() => void) | null} */
  #unfollow = null;

  /** @param {Items<Item>} items */
  constructor(items) {
    super();
    this.#of = items;
  }

  /**
   * Show the items of a query, and follow the list from here on.
   * @param {Query} query
   */
  async open(query) {
    this.#query = query;
    this.state = "loading";
    this.items = [];
    this.notify();
    // Followed before it is asked for: what happens in between is kept and applied to the answer.
    this.#unfollow ??= follow(this.#of.topic, { onMessage: (message) => this.#heard(message) });
    await this.#load();
  }

  /** Ask for the first page anew. */
  async again() {
    await this.open(this.#query);
  }

  /** Fetch the first page again while it shows what changes without an event. */
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
    const { path, topic, parameters } = this.#of;
    try {
      const page = await api.get(path, {
        query: { ...(parameters?.(this.#query) ?? this.#query), limit: PAGE, after },
      });
      if (asked !== this.#asked) return; // another query was chosen meanwhile
      this.#merge(page[topic]);
      if (!isRefresh) this.more = page.cursor;
      this.hint = page.hint ?? null;
      this.state = "ready";
      for (const item of this.#early.splice(0)) this.#take(item);
    } catch (error) {
      if (asked !== this.#asked || isRefresh) return;
      this.error = error;
      this.state = "failed";
    }
    this.notify();
  }

  /** @param {{event: string, data: any}} message */
  #heard({ event, data }) {
    const { message } = this.#of;
    if (event !== message) return;
    if (this.state === "loading") this.#early.push(data[message]);
    else if (this.#take(data[message])) this.notify();
  }

  /** @param {Item} item @returns {boolean} whether the list has changed */
  #take(item) {
    const { key, matches: isOf, newer } = this.#of;
    const known = this.items.findIndex((each) => key(each) === key(item));
    const matches = isOf(item, this.#query);
    if (known >= 0 && !matches) this.items.splice(known, 1);
    else if (known >= 0) this.items[known] = newer(/** @type {Item} */ (this.items[known]), item);
    else if (matches && !this.#isBeyond(item)) this.#merge([item]);
    else return false;
    return true;
  }

  /**
   * One older than the last page is not shown before its page is: the list would have a hole.
   * @param {Item} item
   */
  #isBeyond(item) {
    const last = this.items[this.items.length - 1];
    return this.more !== null && last !== undefined && item.started_at < last.started_at;
  }

  /** @param {Item[]} items */
  #merge(items) {
    const { key, newer } = this.#of;
    const known = new Map(this.items.map((item) => [key(item), item]));
    for (const item of items) {
      const before = known.get(key(item));
      known.set(key(item), before ? newer(before, item) : item);
    }
    this.items = [...known.values()].sort(
      (one, other) => other.started_at - one.started_at || (key(one) < key(other) ? 1 : -1),
    );
  }
}
