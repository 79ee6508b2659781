/**
 * One execution of the server: its record as it stands, and the transitions that led there.
 */

import { executionPath, runPath } from "../core/routes.js";
import { Spans } from "./execution-spans.js";
import { api, follow } from "./live.js";

/** @typedef {import("./types.js").Execution} Execution */
/** @typedef {import("./types.js").RunEvent} RunEvent */

const PAGE = 5000;
const NOT_FOUND = 404;

export class ExecutionModel {
  /** @type {Execution | null} */
  execution = null;
  spans = new Spans();
  /** @type {Set<() => void>} */
  #watchers = new Set();

  /** @param {string} executionId */
  constructor(executionId) {
    this.executionId = executionId;
  }

  /** @param {() => void} watcher */
  watch(watcher) {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /**
   * Read it, and follow it until the returned function is called.
   * @param {AbortSignal} signal
   * @returns {Promise<() => void>}
   */
  async open(signal) {
    this.execution = await api.get(executionPath(this.executionId), { signal });
    const cursor = await this.#readTransitions(signal);
    if (signal.aborted) return () => {};
    const record = follow(`execution:${this.executionId}`, { onMessage: ({ event, data }) => event === "execution" && this.#take(data.execution) });
    const events = follow(`run:${this.executionId}`, { after: cursor, onMessage: ({ event, data }) => event === "event" && this.#add([data.event]) });
    return () => {
      record();
      events();
    };
  }

  /**
   * All that the journal has. An execution that another program added has no run before it is first asked about.
   * @param {AbortSignal} signal
   */
  async #readTransitions(signal) {
    let cursor = "";
    try {
      for (let more = true; more && !signal.aborted; ) {
        const response = await api.request(api.address(`${runPath(this.executionId)}/events`, { after: cursor || null, limit: PAGE }), { signal });
        const page = await response.json();
        this.spans.add(page.events);
        ({ cursor, more } = page);
      }
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    return cursor;
  }

  /** @param {Execution} told */
  #take(told) {
    if (this.execution && told.version < this.execution.version) return; // an older telling, of before the page was read
    this.execution = told;
    this.#told();
  }

  /** @param {RunEvent[]} events */
  #add(events) {
    this.spans.add(events);
    this.#told();
  }

  #told() {
    for (const watcher of this.#watchers) watcher();
  }
}

/**
 * Whether the server says that there is no such thing.
 * @param {unknown} error
 */
export function isMissing(error) {
  return error instanceof Error && "status" in error && error.status === NOT_FOUND;
}
