/**
 * Keeps a Yjs document in sync with a file of the project.
 *
 * Edits are sent until the server confirms them, however long it is unreachable, even after `stop()`. A failed pull is
 * retried. Edits that the server refuses (413, 403, …) are reported, stay in the document and are sent again with the
 * next edit. Deleting the file on the server empties the document.
 */

import * as Y from "yjs";

import { Backoff } from "../core/backoff.js";
import { ApiError, asError } from "../core/errors.js";
import { documentPath, filesPath } from "../core/routes.js";
import { childOf } from "../core/sleep.js";
import { environmentWith } from "../core/environment.js";

/** @import { Api } from "../core/api.js" */
/** @import { FileEntry } from "./polling/documents.js" */
/** @import { Environment } from "../core/environment.js" */

/** 2, 4, 8, 16, 30, 30 … seconds, each up to a quarter less, without end: edits must reach the server. */
const BACKOFF = new Backoff({ first: 2_000, factor: 2, most: 30_000, jitter: 0.25 });
const EMPTY_UPDATE_BYTES = 2; // a Yjs update without any change
const KEEPALIVE_BYTES = 60_000; // browsers refuse to outlive the page with more than 64 KiB
const TIMEOUT_MS = 120_000; // of one request; an update can be large

/**
 * What to do next: edits first, so that a pull is compared with a server that has them.
 *
 * @param {{hasEdits: boolean, areRefused: boolean, needsPull: boolean, isPaused: boolean, isStopped: boolean}} state
 * @returns {"push" | "pull" | null}
 */
export function nextStep({ hasEdits, areRefused, needsPull, isPaused, isStopped }) {
  if (hasEdits && !areRefused) return "push";
  return needsPull && !isPaused && !isStopped ? "pull" : null;
}

export class DocumentSync {
  #api;
  #projectId;
  #path;
  #doc;
  #isPaused;
  #onError;
  #onUnsaved;
  #environment;
  #window;
  #document;
  #backoff = BACKOFF;
  /** @type {Uint8Array[]} */
  #unsent = []; // edits that the server has not confirmed
  #edits = 0; // number of local edits
  #pushed = 0; // number of edits in the last request
  #inFlight = 0; // the same, while that request is in flight
  #refused = 0; // number of edits when the server refused them
  #confirmed = Y.encodeStateVector(new Y.Doc()); // the state that the server has confirmed
  #needsPull = false;
  #isRunning = false;
  #isStopped = false;
  /** @type {unknown} */
  #timer = null;
  #pulls = new AbortController();
  /** @param {Uint8Array} update @param {unknown} origin */
  #onEdit = (update, origin) => {
    if (origin !== this) this.#queue(update);
  };
  #onVisibility = () =>
    this.#document?.visibilityState === "hidden" ? this.flush() : this.retry();
  #onOnline = () => this.retry();
  #onLeave = () => this.flush();

  /**
   * @param {object} options
   * @param {any} options.api
   * @param {string} options.projectId
   * @param {string} options.path
   * @param {Y.Doc} options.doc
   * @param {() => boolean} [options.isPaused] Whether pulls must wait. Edits are sent regardless.
   * @param {(error: Error) => void} [options.onError]
   * @param {(hasUnsaved: boolean, sync: DocumentSync) => void} [options.onUnsaved] When that changes.
   * @param {Partial<Environment>} [options.environment]
   * @param {EventTarget} [options.window]
   * @param {EventTarget & {visibilityState: string}} [options.document]
   */
  constructor({
    api,
    projectId,
    path,
    doc,
    isPaused = () => false,
    onError,
    onUnsaved,
    environment,
    window = globalThis.window,
    document = globalThis.document,
  }) {
    this.#api = /** @type {Api} */ (api);
    this.#projectId = projectId;
    this.#path = path;
    this.#doc = doc;
    this.#isPaused = isPaused;
    this.#onError = onError;
    this.#onUnsaved = onUnsaved;
    this.#environment = environmentWith(environment);
    this.#window = window;
    this.#document = document;
    this.#listen();
    const initial = Y.encodeStateAsUpdate(doc);
    if (initial.length > EMPTY_UPDATE_BYTES) this.#queue(initial);
  }

  /** Whether the document has edits that the server has not confirmed. */
  get hasUnsavedChanges() {
    return this.#unsent.length > 0;
  }

  /** Fetch the changes that this document lacks. A file that does not exist yet has none. */
  pull() {
    this.#needsPull = true;
    this.#start();
  }

  /** Resume a pull that a pause deferred. A backoff keeps running. */
  resume() {
    this.#start();
  }

  /** Retry now what waits for its backoff: the network may be back. */
  retry() {
    this.#environment.clearTimeout(this.#timer);
    this.#timer = null;
    this.#start();
  }

  /** Send unsent edits at once, in a request that outlives the page. The usual retries continue beside it. */
  flush() {
    if (!this.#hasEditsToSend() || this.#inFlight === this.#edits) return;
    this.#push().catch(() => {}); // the loop holds the same edits, and reports
  }

  /** Leave the document. Edits that are still unsent are sent now, and retried until the server has them. */
  stop() {
    this.#isStopped = true;
    this.#doc.off("update", this.#onEdit);
    this.#pulls.abort();
    this.retry();
  }

  #listen() {
    this.#doc.on("update", this.#onEdit);
    this.#document?.addEventListener("visibilitychange", this.#onVisibility);
    this.#window?.addEventListener("online", this.#onOnline);
    this.#window?.addEventListener("pageshow", this.#onOnline);
    this.#window?.addEventListener("pagehide", this.#onLeave);
  }

  #unlisten() {
    this.#document?.removeEventListener("visibilitychange", this.#onVisibility);
    this.#window?.removeEventListener("online", this.#onOnline);
    this.#window?.removeEventListener("pageshow", this.#onOnline);
    this.#window?.removeEventListener("pagehide", this.#onLeave);
  }

  /** @param {Uint8Array} update */
  #queue(update) {
    this.#unsent.push(update);
    this.#edits += 1;
    if (this.#unsent.length === 1) this.#onUnsaved?.(true, this);
    this.#start();
  }

  #hasEditsToSend() {
    return this.hasUnsavedChanges && this.#refused !== this.#edits;
  }

  #start() {
    if (!this.#isRunning && this.#timer === null) this.#run();
  }

  async #run() {
    this.#isRunning = true;
    await Promise.resolve(); // edits of one turn of the event loop share a request
    for (let step = this.#next(); step !== null; step = this.#next()) {
      try {
        await (step === "push" ? this.#push() : this.#pull());
        this.#backoff = this.#backoff.succeeded();
      } catch (error) {
        if (step === "pull" && this.#isStopped) continue;
        if (this.#failed(step, asError(error))) break;
      }
    }
    this.#isRunning = false;
    if (this.#isStopped && this.#timer === null) this.#end();
  }

  #next() {
    return nextStep({
      hasEdits: this.hasUnsavedChanges,
      areRefused: this.#refused === this.#edits,
      needsPull: this.#needsPull,
      isPaused: this.#isPaused(),
      isStopped: this.#isStopped,
    });
  }

  async #push() {
    const edits = this.#edits;
    const vector = Y.encodeStateVector(this.#doc);
    // Refused edits are sent as the current document, without text that was typed and removed since.
    const update = this.#refused
      ? Y.encodeStateAsUpdate(this.#doc, this.#confirmed)
      : Y.mergeUpdates(this.#unsent);
    this.#inFlight = this.#pushed = edits;
    try {
      await this.#callWithTimeout(new AbortController().signal, (signal) =>
        this.#api.send("POST", documentPath(this.#projectId, this.#path), update, {
          type: "application/octet-stream",
          keepalive: update.length <= KEEPALIVE_BYTES,
          signal,
        }),
      );
    } finally {
      if (this.#inFlight === edits) this.#inFlight = 0;
    }
    this.#confirm(edits, vector);
  }

  /**
   * @param {number} edits
   * @param {Uint8Array} vector
   */
  #confirm(edits, vector) {
    this.#confirmed = vector;
    this.#refused = 0;
    const hadUnsaved = this.hasUnsavedChanges;
    this.#unsent.splice(0, Math.max(0, this.#unsent.length - (this.#edits - edits)));
    if (hadUnsaved && !this.hasUnsavedChanges) this.#onUnsaved?.(false, this);
  }

  async #pull() {
    this.#needsPull = false; // a pull requested meanwhile follows this one
    const edits = this.#edits;
    const vector = toBase64Url(Y.encodeStateVector(this.#doc));
    const url = this.#api.url(documentPath(this.#projectId, this.#path), {
      state_vector: vector,
    });
    await this.#callWithTimeout(this.#pulls.signal, async (signal) => {
      const response = await this.#api.request(url, { signal, accepts: [304, 404] });
      if (response.status === 304) return;
      if (response.status === 404) return this.#whenMissing(edits, signal);
      const update = new Uint8Array(await response.arrayBuffer());
      if (update.length && !signal.aborted) Y.applyUpdate(this.#doc, update, this);
    });
  }

  /**
   * Handle a missing file. Only a tombstone empties the document: a server that never had the file, or lost its store,
   * must not destroy the last copy. Edits newer than the request stay and create the file again.
   *
   * @param {number} edits The number of edits at the time of the request.
   * @param {AbortSignal} signal
   */
  async #whenMissing(edits, signal) {
    const url = this.#api.url(filesPath(this.#projectId), { prefix: this.#path, since: 0 });
    /** @type {{files: FileEntry[]}} */
    const { files } = await (await this.#api.request(url, { signal })).json();
    const entry = files.find(({ path }) => path === this.#path);
    if (entry === undefined || signal.aborted) return;
    if (!entry.deleted || this.#edits !== edits) this.#needsPull = true;
    else if (!this.hasUnsavedChanges) this.#empty();
  }

  /** Empty the document with a Yjs change, so that later edits create the file again without the old text. */
  #empty() {
    const [text, file] = [this.#doc.getText("content"), this.#doc.getMap("file")];
    this.#doc.transact(() => {
      if (text.length) text.delete(0, text.length);
      if (file.has("bytes")) file.delete("bytes");
    }, this);
  }

  /**
   * @param {"push" | "pull"} step
   * @param {Error} error
   * @returns {boolean} whether to wait before anything else
   */
  #failed(step, error) {
    queueMicrotask(() => this.#onError?.(error)); // an error in the callback must not end the retries
    const response = error instanceof ApiError ? error : null; // null if a response was truncated
    if (response && !response.isWorthAnotherTry) {
      if (step === "push") this.#refused = this.#pushed;
      return false;
    }
    if (step === "pull") this.#needsPull = true;
    this.#backoff = this.#backoff.failed();
    const delay = Math.max(this.#backoff.delay ?? 0, response?.retryAfterMs ?? 0);
    this.#timer = this.#environment.setTimeout(() => this.retry(), delay);
    return true;
  }

  /** Nothing is left to send, or the server refuses it. */
  #end() {
    this.#unlisten();
    if (this.hasUnsavedChanges) this.#onUnsaved?.(false, this);
  }

  /**
   * @template T
   * @param {AbortSignal} signal
   * @param {(signal: AbortSignal) => Promise<T>} call
   */
  async #callWithTimeout(signal, call) {
    const { controller, release } = childOf(signal);
    const timer = this.#environment.setTimeout(
      () => controller.abort(timeoutError(this.#path)),
      TIMEOUT_MS,
    );
    try {
      return await call(controller.signal);
    } catch (error) {
      throw controller.signal.aborted ? controller.signal.reason : error;
    } finally {
      this.#environment.clearTimeout(timer);
      release();
    }
  }
}

/** @param {string} path */
function timeoutError(path) {
  const message = `No response for document ${path} within ${TIMEOUT_MS / 1000} s. The request is retried.`;
  return new ApiError({ status: 0, code: "timeout", message });
}

/** @param {Uint8Array} bytes */
function toBase64Url(bytes) {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
