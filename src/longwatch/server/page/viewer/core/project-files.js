/** The files of a project as the server last listed them, brought up to date with what changed since. */

import { filesPath } from "./routes.js";

/** @import { Api } from "./api.js" */

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
 * @typedef {object} Listing Never changed: one that has not changed is the same object.
 * @property {number} version
 * @property {ReadonlyMap<string, FileEntry>} files With those that were deleted while somebody looked.
 *
 * @typedef {object} DocumentChange
 * @property {string} filePath
 * @property {Date} lastModified
 * @property {"created" | "modified" | "deleted"} changeType
 * @property {number} version
 */

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
   * @param {{signal?: AbortSignal}} [asked]
   * @returns {Promise<Listing>}
   */
  async look({ signal } = {}) {
    const before = this.#listing;
    const address = this.#api.address(this.#path, { since: before?.version });
    const headers = before && this.#etag ? { "If-None-Match": this.#etag } : undefined;
    const response = await this.#api.request(address, { headers, signal, accepts: [304] });
    if (response.status === 304 && before) return this.#listing ?? before;
    /** @type {{version: number, files: FileEntry[]}} */
    const { version, files } = await response.json();
    if (this.#listing !== before) return this.look({ signal }); // somebody else was quicker
    if (before && version < before.version) {
      this.#listing = null; // another store, or one that was emptied: begin again
      return this.look({ signal });
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
const known = new WeakMap();

/**
 * The one that everybody shares who asks through this api.
 *
 * @param {Api} api
 * @param {string} projectId
 */
export function projectFiles(api, projectId) {
  const projects = known.get(api) ?? new Map();
  known.set(api, projects);
  const files = projects.get(projectId) ?? new ProjectFiles(api, projectId);
  projects.set(projectId, files);
  return files;
}

/**
 * What happened between two listings, to these files or to all.
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
    if (changeType === "deleted" && (!was || was.deleted)) continue; // it came and went between two looks
    changes.push({ filePath: path, lastModified: new Date(file.last_modified), changeType, version: file.version });
  }
  for (const [path, was] of before.files) {
    if (after.files.has(path) || was.deleted || (paths && !paths.has(path))) continue;
    const lastModified = new Date(was.last_modified);
    changes.push({ filePath: path, lastModified, changeType: "deleted", version: was.version });
  }
  return changes;
}
