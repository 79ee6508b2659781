/** Looks at the files of a project and tells what was created, modified and deleted (document 003). */

import { ApiError } from "./errors.js";
import { pollingManager } from "./polling-manager.js";
import { changesBetween, projectFiles } from "./project-files.js";
import { filesPath } from "./routes.js";
import { worldWith } from "./world.js";

/** @import { Api } from "./api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { DocumentChange, Listing } from "./project-files.js" */
/** @import { Registration } from "./registration.js" */
/** @import { World } from "./world.js" */

export const DOCUMENT_INTERVAL_MS = 3_000;
export const RESTART_MS = 30_000; // after the failure that stops the poll, while documents are open

/**
 * @typedef {object} DocumentPollingOptions
 * @property {Api} api
 * @property {string} projectId
 * @property {readonly string[]} [filePaths] Only these files; without it, all of them.
 * @property {number | null} [interval] Milliseconds; null: on the ramp from 1 s to 5 s.
 * @property {(changes: DocumentChange[]) => void} [onDocumentChange] What changed since the last look; the first
 *   look is what later ones are compared with.
 * @property {(listing: Listing) => void} [onListing] With the first look and every change.
 * @property {(error: Error) => void} [onError]
 * @property {(state: {isPolling: boolean, error: Error | null}) => void} [onState] After each look, and when polling
 *   is paused or resumed.
 * @property {() => boolean} [hasOpenDocuments] While true, an outage of any length does not end the polling.
 * @property {PollingManager} [manager]
 * @property {Partial<World>} [world]
 */

export class DocumentPolling {
  #options;
  #paths;
  #manager;
  #world;
  /** @type {Registration | null} */
  #registration;
  /** @type {unknown} */
  #restart = null;

  /** @param {DocumentPollingOptions} options */
  constructor(options) {
    const { api, projectId, filePaths, interval = DOCUMENT_INTERVAL_MS, manager = pollingManager } = options;
    this.#options = options;
    this.#manager = manager;
    this.#world = worldWith(options.world);
    this.#paths = filePaths ? new Set(filePaths) : null;
    /** @type {Listing | null} */
    this.listing = null;
    /** @type {Error | null} */
    this.error = null;
    const files = projectFiles(api, projectId);
    this.#registration = manager.register(filesKey(options), (asked) => files.look(asked), interval, {
      onResult: (listing) => this.#take(listing),
      onError: (error) => this.#fail(error),
      onActivity: () => this.#tellState(),
    });
  }

  /** Whether another poll will be sent: not during a pause, nor after too many failures unless documents are open. */
  get isPolling() {
    if (this.#registration === null || this.#manager.isPaused) return false;
    return this.#registration.isPolling || this.#restart !== null;
  }

  stop() {
    this.#cancelRestart();
    this.#registration?.dispose();
    this.#registration = null;
  }

  /** @param {Listing} listing */
  #take(listing) {
    this.error = null;
    this.#cancelRestart();
    const before = this.listing;
    this.#tellState();
    if (listing === before) return;
    this.listing = listing;
    this.#options.onListing?.(listing);
    const changes = before ? changesBetween(before, listing, this.#paths) : [];
    if (changes.length) this.#options.onDocumentChange?.(changes);
  }

  /** @param {Error} error */
  #fail(error) {
    this.error = error;
    this.#cancelRestart();
    const isTemporary = error instanceof ApiError && error.isWorthAnotherTry;
    if (isTemporary && this.#registration?.state.stopped && this.#options.hasOpenDocuments?.()) {
      this.#restart = this.#world.setTimeout(() => this.#manager.touch(filesKey(this.#options)), RESTART_MS);
    }
    this.#tellState();
    this.#options.onError?.(error);
  }

  #cancelRestart() {
    this.#world.clearTimeout(this.#restart);
    this.#restart = null;
  }

  #tellState() {
    this.#options.onState?.({ isPolling: this.isPolling, error: this.error });
  }
}

/** @param {{api: Api, projectId: string}} which */
export function filesKey({ api, projectId }) {
  return api.address(filesPath(projectId));
}
