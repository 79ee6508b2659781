/**
 * Answers by address, with their tags and with the changes that users made and the server has not confirmed.
 *
 * A change is a layer over the server's word, not a replacement: an answer that comes in meanwhile goes below
 * it, and taking the change back never brings back an older answer.
 */

const MOST_ENTRIES = 500; // unwatched ones are forgotten, oldest first

/**
 * @typedef {(body: any, answer?: any) => any} Change Gives the changed body; must not alter the one it gets. The
 *   answer of the action is there once the server has confirmed it.
 *
 * @typedef {object} Entry
 * @property {string | null} etag
 * @property {any} body The server's word; undefined while it is not known.
 * @property {Set<{change: Change}>} layers
 * @property {Set<(body: any) => void>} watchers
 * @property {number} epoch Grows when what is on its way has become too old to be kept.
 */

export class ResponseCache {
  /** @type {Map<string, Entry>} */
  #entries = new Map();

  /**
   * What people should see under this address; undefined if nothing is known.
   * @param {string} key
   */
  view(key) {
    const entry = this.#entries.get(key);
    return entry === undefined ? undefined : viewOf(entry);
  }

  /**
   * What the server last said, without any unconfirmed change.
   * @param {string} key
   */
  confirmed(key) {
    return this.#entries.get(key)?.body;
  }

  /**
   * The tag to ask with, and the epoch to hand back with the answer.
   * @param {string} key
   */
  asked(key) {
    const entry = this.#entries.get(key);
    return { etag: entry?.body === undefined ? null : entry.etag, epoch: entry?.epoch ?? 0 };
  }

  /**
   * Keep an answer; what equals the previous one stays the same object. False: it was asked for before something changed here, so ask again.
   * @param {string} key
   * @param {{etag: string | null, body: any, epoch: number}} answer
   */
  store(key, { etag, body, epoch }) {
    const entry = this.#entry(key);
    if (entry.epoch !== epoch) return false;
    entry.etag = etag;
    entry.body = sharing(entry.body, body);
    this.#tell(entry);
    this.#trim();
    return true;
  }

  /**
   * Show a change before the server has confirmed it.
   * @param {string} key
   * @param {Change} change
   * @returns {{confirm: (answer?: any) => void, takeBack: () => void}}
   */
  change(key, change) {
    const entry = this.#entry(key);
    const layer = { change };
    entry.layers.add(layer);
    this.#tell(entry);
    return {
      confirm: (answer) => {
        if (!entry.layers.delete(layer)) return;
        if (entry.body !== undefined) entry.body = sharing(entry.body, change(entry.body, answer));
        this.#outdate(entry);
        this.#tell(entry);
      },
      takeBack: () => {
        if (entry.layers.delete(layer)) this.#tell(entry);
      },
    };
  }

  /**
   * Ask anew for everything whose address begins so: it stays visible, but its tag is no good any more.
   * @param {string} [prefix]
   */
  invalidate(prefix = "") {
    for (const [key, entry] of this.#entries) if (key.startsWith(prefix)) this.#outdate(entry);
  }

  /**
   * Be told of every change under this address.
   * @param {string} key
   * @param {(body: any) => void} watcher
   * @returns {() => void} stops it
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
  #tell(entry) {
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
 * The new JSON value with every part that equals the old one's replaced by that part, so that `===` finds what changed.
 * @template T
 * @param {unknown} before
 * @param {T} after
 * @returns {T}
 */
export function sharing(before, after) {
  if (Object.is(before, after)) return after;
  if (Array.isArray(before) && Array.isArray(after)) {
    const shared = after.map((value, at) => sharing(before[at], value));
    const isEqual =
      before.length === after.length && shared.every((value, at) => value === before[at]);
    return /** @type {T} */ (isEqual ? before : shared);
  }
  if (!isPlain(before) || !isPlain(after)) return after;
  const entries = Object.entries(after).map(([key, value]) => [key, sharing(before[key], value)]);
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
