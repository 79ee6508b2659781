/** Polls the files of a project and reports what was created, modified and deleted. */

import { ApiError } from "../../core/errors.js";
import { filesPath } from "../../core/routes.js";
import { environmentWith } from "../../core/environment.js";
import { pollingManager } from "./polling-manager.js";

/** @import { Api } from "../../core/api.js" */
/** @import { PollingManager } from "./polling-manager.js" */
/** @import { Registration } from "./shared-poll.js" */
/** @import { Environment } from "../../core/environment.js" */

export const DOCUMENT_INTERVAL_MS = 3_000;
export const RESTART_MS = 30_000; // after the failure that stops the poll, while documents are open

/**
 * @typedef {object} FileEntry
 * @property {string} path
 * @property {number} version
 * @property {string} last_modified
 * @property {string} created_at
 * @property {number} size
 * @property {string} sha256
 * @property {"text" | "binary"} kind
 * @property {boolean} deleted
 *
 * @typedef {object} Listing Immutable: an unchanged listing is the same object.
 * @property {number} version
 * @property {ReadonlyMap<string, FileEntry>} files Including those deleted since the first listing.
 *
 * @typedef {object} DocumentChange
 * @property {string} filePath
 * @property {Date} lastModified
 * @property {"created" | "modified" | "deleted"} changeType
 * @property {number} version
 */

/**
 * @typedef {object} DocumentPollingOptions
 * @property {Api} api
 * @property {string} projectId
 * @property {readonly string[]} [filePaths] Only these files; without it, all of them.
 * @property {number | null} [interval] Milliseconds; null: on the ramp from 1 s to 5 s.
 * @property {(changes: DocumentChange[]) => void} [onDocumentChange] The changes since the last poll; the first poll
 *   reports none.
 * @property {(listing: Listing) => void} [onListing] After the first poll and after every change.
 * @property {(error: Error) => void} [onError]
 * @property {(state: {isPolling: boolean, error: Error | null}) => void} [onState] After each poll, and when polling
 *   is paused or resumed.
 * @property {() => boolean} [hasOpenDocuments] While true, an outage of any length does not end the polling.
 * @property {PollingManager} [manager]
 * @property {Partial<Environment>} [environment]
 */

export class DocumentPolling {
  #options;
  #paths;
  #manager;
  #environment;
  /** @type {Registration | null} */
  #registration;
  /** @type {unknown} */
  #restart = null;

  /** @param {DocumentPollingOptions} options */
  constructor(options) {
    const {
      api,
      projectId,
      filePaths,
      interval = DOCUMENT_INTERVAL_MS,
      manager = pollingManager,
    } = options;
    this.#options = options;
    this.#manager = manager;
    this.#environment = environmentWith(options.environment);
    this.#paths = filePaths ? new Set(filePaths) : null;
    /** @type {Listing | null} */
    this.listing = null;
    /** @type {Error | null} */
    this.error = null;
    const files = projectFiles(api, projectId);
    this.#registration = manager.register(
      filesKey(options),
      (options) => files.poll(options),
      interval,
      {
        onResult: (listing) => this.#onResult(listing),
        onError: (error) => this.#onFailure(error),
        onActivity: () => this.#notifyState(),
      },
    );
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
  #onResult(listing) {
    this.error = null;
    this.#cancelRestart();
    const before = this.listing;
    this.#notifyState();
    if (listing === before) return;
    this.listing = listing;
    this.#options.onListing?.(listing);
    const changes = before ? changesBetween(before, listing, this.#paths) : [];
    if (changes.length) this.#options.onDocumentChange?.(changes);
  }

  /** @param {Error} error */
  #onFailure(error) {
    this.error = error;
    this.#cancelRestart();
    const isTemporary = error instanceof ApiError && error.isWorthAnotherTry;
    if (isTemporary && this.#registration?.state.stopped && this.#options.hasOpenDocuments?.()) {
      this.#restart = this.#environment.setTimeout(
        () => this.#manager.touch(filesKey(this.#options)),
        RESTART_MS,
      );
    }
    this.#notifyState();
    this.#options.onError?.(error);
  }

  #cancelRestart() {
    this.#environment.clearTimeout(this.#restart);
    this.#restart = null;
  }

  #notifyState() {
    this.#options.onState?.({ isPolling: this.isPolling, error: this.error });
  }
}

/** @param {{api: Api, projectId: string}} which */
export function filesKey({ api, projectId }) {
  return api.url(filesPath(projectId));
}

/** The files of a project: the server's last list, updated with later changes. */
export class ProjectFiles {
  #api;
  #path;
  /** @type {string | null} */
  #etag = null;
  /** @type {Listing | null} */
  #listing = null;

  /**
   * @param {Api} api
   * @param {string} projectId
   */
  constructor(api, projectId) {
    this.#api = api;
    this.#path = filesPath(projectId);
  }

  /**
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Listing>}
   */
  async poll({ signal } = {}) {
    const before = this.#listing;
    const url = this.#api.url(this.#path, { since: before?.version });
    const headers = before && this.#etag ? { "If-None-Match": this.#etag } : undefined;
    const response = await this.#api.request(url, { headers, signal, accepts: [304] });
    if (response.status === 304 && before) return this.#listing ?? before;
    /** @type {{version: number, files: FileEntry[]}} */
    const { version, files } = await response.json();
    if (this.#listing !== before) return this.poll({ signal }); // another poll was faster
    if (before && version < before.version) {
      this.#listing = null; // another store, or one that was emptied: start again
      return this.poll({ signal });
    }
    this.#etag = response.headers.get("ETag");
    if (before && version === before.version) return before;
    const entries = new Map(before?.files);
    for (const file of files) entries.set(file.path, file);
    this.#listing = { version, files: entries };
    return this.#listing;
  }
}

/** @type {WeakMap<Api, Map<string, ProjectFiles>>} */
const filesByApi = new WeakMap();

/**
 * The files of a project, shared by all users of this API.
 *
 * @param {Api} api
 * @param {string} projectId
 */
export function projectFiles(api, projectId) {
  const projects = filesByApi.get(api) ?? new Map();
  filesByApi.set(api, projects);
  const files = projects.get(projectId) ?? new ProjectFiles(api, projectId);
  projects.set(projectId, files);
  return files;
}

/**
 * The changes between two listings, of these files or of all.
 *
 * @param {Listing} before
 * @param {Listing} after
 * @param {ReadonlySet<string> | null} [paths]
 * @returns {DocumentChange[]}
 */
export function changesBetween(before, after, paths = null) {
  /** @type {DocumentChange[]} */
  const changes = [];
  for (const [path, file] of after.files) {
    const was = before.files.get(path);
    if ((paths && !paths.has(path)) || was?.version === file.version) continue;
    const changeType = file.deleted ? "deleted" : !was || was.deleted ? "created" : "modified";
    if (changeType === "deleted" && (!was || was.deleted)) continue; // created and deleted between two polls
    changes.push({
      filePath: path,
      lastModified: new Date(file.last_modified),
      changeType,
      version: file.version,
    });
  }
  for (const [path, was] of before.files) {
    if (after.files.has(path) || was.deleted || (paths && !paths.has(path))) continue;
    const lastModified = new Date(was.last_modified);
    changes.push({ filePath: path, lastModified, changeType: "deleted", version: was.version });
  }
  return changes;
}
