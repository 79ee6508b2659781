/**
 * Responses by URL, with their ETags and with the user's changes that the server has not confirmed.
 *
 * A change is a layer over the response, not a replacement: a response that arrives meanwhile goes below it, and rolling
 * the change back never restores an older response.
 */

const MOST_ENTRIES = 500; // unwatched entries are evicted, oldest first

/**
 * @typedef {(body: any, response?: any) => any} Change Returns the changed body without altering its argument. The
 *   response of the action is passed once the server has confirmed it.
 *
 * @typedef {object} Entry
 * @property {string | null} etag
 * @property {any} body Of the last response; undefined before the first.
 * @property {Set<{change: Change}>} layers
 * @property {Set<(body: any) => void>} watchers
 * @property {number} epoch Incremented when a response in flight has become outdated.
 */

export class ResponseCache {
  /** @type {Map<string, Entry>} */
  #entries = new Map();

  /**
   * The body with the unconfirmed changes; undefined before the first response.
   * @param {string} key
   */
  view(key) {
    const entry = this.#entries.get(key);
    return entry === undefined ? undefined : viewOf(entry);
  }

  /** The body of the last response, without any unconfirmed change. @param {string} key */
  confirmed(key) {
    return this.#entries.get(key)?.body;
  }

  /**
   * The ETag to send with a request, and the epoch to pass on with its response.
   * @param {string} key
   */
  validatorsOf(key) {
    const entry = this.#entries.get(key);
    return { etag: entry?.body === undefined ? null : entry.etag, epoch: entry?.epoch ?? 0 };
  }

  /**
   * Store a response; parts that equal the previous one stay the same objects. Returns false if the entry has changed
   * since the request, so that the caller requests it again.
   * @param {string} key @param {{etag: string | null, body: any, epoch: number}} response
   */
  store(key, { etag, body, epoch }) {
    const entry = this.#entry(key);
    if (entry.epoch !== epoch) return false;
    entry.etag = etag;
    entry.body = shareUnchanged(entry.body, body);
    this.#notify(entry);
    this.#trim();
    return true;
  }

  /**
   * Show a change before the server has confirmed it.
   * @param {string} key @param {Change} change
   * @returns {{confirm: (response?: any) => void, rollBack: () => void}}
   */
  change(key, change) {
    const entry = this.#entry(key);
    const layer = { change };
    entry.layers.add(layer);
    this.#notify(entry);
    return {
      confirm: (response) => {
        if (!entry.layers.delete(layer)) return;
        if (entry.body !== undefined)
          entry.body = shareUnchanged(entry.body, change(entry.body, response));
        this.#outdate(entry);
        this.#notify(entry);
      },
      rollBack: () => {
        if (entry.layers.delete(layer)) this.#notify(entry);
      },
    };
  }

  /**
   * Drop the ETags of every URL with this prefix. The bodies stay visible until the next response.
   * @param {string} [prefix]
   */
  invalidate(prefix = "") {
    for (const [key, entry] of this.#entries) if (key.startsWith(prefix)) this.#outdate(entry);
  }

  /**
   * Notify a watcher of every change of this entry.
   * @param {string} key @param {(body: any) => void} watcher
   * @returns {() => void} removes the watcher
   */
  watch(key, watcher) {
    const entry = this.#entry(key);
    entry.watchers.add(watcher);
    return () => void entry.watchers.delete(watcher);
  }

  /** @param {string} key */
  #entry(key) {
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { etag: null, body: undefined, layers: new Set(), watchers: new Set(), epoch: 0 };
      this.#entries.set(key, entry);
    }
    return entry;
  }

  /** @param {Entry} entry */
  #outdate(entry) {
    entry.etag = null;
    entry.epoch += 1;
  }

  /** @param {Entry} entry */
  #notify(entry) {
    if (entry.watchers.size === 0) return;
    const view = viewOf(entry);
    for (const watcher of [...entry.watchers]) watcher(view);
  }

  #trim() {
    if (this.#entries.size <= MOST_ENTRIES) return;
    for (const [key, { watchers, layers }] of this.#entries) {
      if (watchers.size || layers.size) continue;
      this.#entries.delete(key);
      return;
    }
  }
}

/** @param {Entry} entry */
function viewOf(entry) {
  if (entry.body === undefined) return undefined;
  let view = entry.body;
  for (const { change } of entry.layers) view = change(view);
  return view;
}

/**
 * The new JSON value with every unchanged part replaced by the old object, so that `===` finds what changed.
 * @template T
 * @param {unknown} before @param {T} after @returns {T}
 */
export function shareUnchanged(before, after) {
  if (Object.is(before, after)) return after;
  if (Array.isArray(before) && Array.isArray(after)) {
    const shared = after.map((value, at) => shareUnchanged(before[at], value));
    const isEqual =
      before.length === after.length && shared.every((value, at) => value === before[at]);
    return /** @type {T} */ (isEqual ? before : shared);
  }
  if (!isPlain(before) || !isPlain(after)) return after;
  const entries = Object.entries(after).map(([key, value]) => [
    key,
    shareUnchanged(before[key], value),
  ]);
  const isEqual =
    entries.length === Object.keys(before).length &&
    entries.every(([key, value]) => Object.hasOwn(before, key) && value === before[key]);
  return isEqual ? /** @type {T} */ (before) : Object.fromEntries(entries);
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isPlain(value) {
  return (
    typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}
