/** Looks at the files of a project and tells what was created, modified and deleted (document 003). */

import { pollingManager } from "./polling-manager.js";
import { changesBetween, projectFiles } from "./project-files.js";
import { filesPath } from "./routes.js";

/** @import { Api } from "./api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { DocumentChange, Listing } from "./project-files.js" */
/** @import { Registration } from "./registration.js" */

export const DOCUMENT_INTERVAL_MS = 3_000;

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
 * @property {(state: {isPolling: boolean, error: Error | null}) => void} [onState] After each look.
 * @property {PollingManager} [manager]
 */

export class DocumentPolling {
  #options;
  #paths;
  /** @type {Registration | null} */
  #registration;

  /** @param {DocumentPollingOptions} options */
  constructor(options) {
    const { api, projectId, filePaths, interval = DOCUMENT_INTERVAL_MS, manager = pollingManager } = options;
    this.#options = options;
    this.#paths = filePaths ? new Set(filePaths) : null;
    /** @type {Listing | null} */
    this.listing = null;
    /** @type {Error | null} */
    this.error = null;
    const files = projectFiles(api, projectId);
    this.#registration = manager.register(filesKey(options), (asked) => files.look(asked), interval, {
      onResult: (listing) => this.#take(listing),
      onError: (error) => this.#fail(error),
    });
  }

  /** Whether it will look again: not after too many failures. */
  get isPolling() {
    return this.#registration !== null && !this.#registration.state.stopped;
  }

  stop() {
    this.#registration?.dispose();
    this.#registration = null;
  }

  /** @param {Listing} listing */
  #take(listing) {
    this.error = null;
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
    this.#tellState();
    this.#options.onError?.(error);
  }

  #tellState() {
    this.#options.onState?.({ isPolling: this.isPolling, error: this.error });
  }
}

/** @param {{api: Api, projectId: string}} which */
export function filesKey({ api, projectId }) {
  return api.address(filesPath(projectId));
}
