/** Keeps a Yjs document and a file of the project the same: what the server has comes in, what is typed goes out. */

import * as Y from "yjs";

import { REQUEST_BACKOFF } from "../core/backoff.js";
import { ApiError, asError } from "../core/errors.js";
import { documentPath } from "../core/routes.js";
import { worldWith } from "../core/world.js";

/** @import { Api } from "../core/api.js" */
/** @import { World } from "../core/world.js" */

const EMPTY_UPDATE_BYTES = 2; // a Yjs update that says nothing

export class DocumentSync {
  #api;
  #path;
  #doc;
  #onError;
  #world;
  #backoff = REQUEST_BACKOFF;
  /** @type {Uint8Array[]} */
  #waiting = []; // typed here and not yet confirmed
  #isSending = false;
  /** @type {unknown} */
  #timer = null;
  #controller = new AbortController();
  /** @param {Uint8Array} update @param {unknown} origin */
  #typed = (update, origin) => {
    if (origin !== this) this.#queue(update);
  };

  /**
   * @param {object} options
   * @param {any} options.api
   * @param {string} options.projectId
   * @param {string} options.path
   * @param {Y.Doc} options.doc
   * @param {(error: Error) => void} [options.onError]
   * @param {Partial<World>} [options.world]
   */
  constructor({ api, projectId, path, doc, onError, world }) {
    this.#api = /** @type {Api} */ (api);
    this.#path = documentPath(projectId, path);
    this.#doc = doc;
    this.#onError = onError;
    this.#world = worldWith(world);
    doc.on("update", this.#typed);
    const known = Y.encodeStateAsUpdate(doc);
    if (known.length > EMPTY_UPDATE_BYTES) this.#queue(known);
  }

  /** Whether the server has everything that was typed here. */
  get isClean() {
    return this.#waiting.length === 0;
  }

  /** Take in what the server has and this document has not. A file that is not there yet has nothing. */
  async pull() {
    const state = toBase64Url(Y.encodeStateVector(this.#doc));
    const address = this.#api.address(this.#path, { state_vector: state });
    try {
      const { signal } = this.#controller;
      const response = await this.#api.request(address, { signal, accepts: [304] });
      if (response.status === 304) return;
      const update = new Uint8Array(await response.arrayBuffer());
      if (update.length && !signal.aborted) Y.applyUpdate(this.#doc, update, this);
    } catch (error) {
      if (this.#controller.signal.aborted || (error instanceof ApiError && error.status === 404)) return;
      this.#onError?.(asError(error));
    }
  }

  /** Leave the document alone. What was not confirmed yet stays in it, and goes out with the next sync. */
  stop() {
    this.#doc.off("update", this.#typed);
    this.#world.clearTimeout(this.#timer);
    this.#controller.abort();
  }

  /** @param {Uint8Array} update */
  #queue(update) {
    this.#waiting.push(update);
    if (!this.#isSending && this.#timer === null) this.#send();
  }

  async #send() {
    this.#isSending = true;
    this.#timer = null;
    await Promise.resolve(); // what is typed in one go goes out in one request
    while (this.#waiting.length && !this.#controller.signal.aborted) {
      const count = this.#waiting.length;
      const update = Y.mergeUpdates(this.#waiting);
      try {
        await this.#api.send("POST", this.#path, update, {
          type: "application/octet-stream",
          signal: this.#controller.signal,
        });
      } catch (error) {
        if (!this.#controller.signal.aborted) this.#tryLater(asError(error));
        break;
      }
      this.#waiting.splice(0, count);
      this.#backoff = this.#backoff.succeeded();
    }
    this.#isSending = false;
  }

  /** @param {Error} error */
  #tryLater(error) {
    this.#backoff = this.#backoff.failed();
    const { delay } = this.#backoff;
    if (delay === null) this.#backoff = this.#backoff.succeeded(); // the next thing typed tries again
    else this.#timer = this.#world.setTimeout(() => this.#send(), delay);
    this.#onError?.(error);
  }
}

/** @param {Uint8Array} bytes */
function toBase64Url(bytes) {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
