/** Requests to the server: JSON in and out, ETags cached, one kind of error. */

import { ResponseCache } from "./response-cache.js";
import { errorOf, isAbort, unreachable } from "./errors.js";
import { browserEnvironment } from "./environment.js";

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | readonly string[]>} Query
 *
 * @typedef {object} Update
 * @property {(before: any) => Query} query What to add to the request, given the body of the last response.
 * @property {(before: any, received: any) => any} merge The whole body.
 *
 * @typedef {object} ApiOptions
 * @property {string} [baseUrl] URL of the server; without it, the origin of the page.
 * @property {(url: string, options?: RequestInit) => Promise<Response>} [fetch]
 * @property {Record<string, string>} [headers] Sent with every request, such as `Authorization`.
 * @property {RequestCredentials} [credentials]
 */

export class Api {
  #baseUrl;
  #fetch;
  #headers;
  #credentials;

  /** @param {ApiOptions} [options] */
  constructor({
    baseUrl = "",
    fetch = browserEnvironment.fetch,
    headers = {},
    credentials = "same-origin",
  } = {}) {
    this.#baseUrl = baseUrl.replace(/\/+$/, "");
    this.#fetch = fetch;
    this.#headers = headers;
    this.#credentials = credentials;
    this.cache = new ResponseCache();
  }

  /** @param {string} path @param {Query} [query] */
  url(path, query = {}) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== null && each !== undefined) search.append(name, String(each));
      }
    }
    const encoded = search.toString();
    return `${this.#baseUrl}${path}${encoded && `?${encoded}`}`;
  }

  /**
   * The body at this path, with the user's unconfirmed changes unless `confirmed` is set. A body that has not changed is
   * the same object.
   * @param {string} path
   * @param {{query?: Query, signal?: AbortSignal, wait?: number, confirmed?: boolean, update?: Update}} [options]
   *   `wait`: seconds for a long poll. `update`: request only what has changed in the body.
   * @returns {Promise<any>}
   */
  async get(path, { query, signal, wait, confirmed = false, update } = {}) {
    const key = this.url(path, query);
    const cached = () => (confirmed ? this.cache.confirmed(key) : this.cache.view(key));
    for (;;) {
      const { etag, epoch } = this.cache.validatorsOf(key);
      const headers = etag === null ? undefined : { "If-None-Match": etag };
      const before = this.cache.confirmed(key);
      const changes = before === undefined ? {} : update?.query(before);
      const url = this.url(path, {
        ...query,
        ...changes,
        wait: wait || undefined,
      });
      const response = await this.request(url, {
        headers,
        signal,
        accepts: [304],
      });
      if (response.status === 304) return cached();
      const received = await bodyOf(response, url);
      const body = update ? update.merge(before, received) : received;
      if (
        this.cache.store(key, {
          etag: response.headers.get("ETag"),
          body,
          epoch,
        })
      )
        return cached();
    }
  }

  /**
   * Send a body (JSON, or bytes and text as they are) and return the body of the response.
   * @param {string} method @param {string} path @param {unknown} [body]
   * @param {{query?: Query, signal?: AbortSignal, type?: string, keepalive?: boolean}} [options] `keepalive`: the
   *   request outlives the page.
   * @returns {Promise<any>}
   */
  async send(method, path, body, { query, signal, type, keepalive } = {}) {
    const url = this.url(path, query);
    const isRaw = typeof body === "string" || body instanceof Uint8Array;
    const response = await this.request(url, {
      method,
      signal,
      keepalive,
      body:
        body === undefined
          ? undefined
          : isRaw
            ? /** @type {BodyInit} */ (body)
            : JSON.stringify(body),
      headers: body === undefined ? undefined : { "Content-Type": type ?? "application/json" },
    });
    return response.status === 204 ? undefined : bodyOf(response, url);
  }

  /**
   * The response itself. Throws unless its status is 2xx or one of `accepts`.
   * @param {string} url
   * @param {RequestInit & {headers?: Record<string, string>, accepts?: number[]}} [options]
   * @returns {Promise<Response>}
   */
  async request(url, { headers, accepts = [], ...options } = {}) {
    let response;
    try {
      response = await this.#fetch(url, {
        method: "GET",
        ...options,
        headers: { ...this.#headers, ...headers },
        credentials: this.#credentials,
        cache: "no-store",
      });
    } catch (error) {
      throw isAbort(error) || options.signal?.aborted ? error : unreachable(url, error);
    }
    if (response.ok || accepts.includes(response.status)) return response;
    throw await errorOf(response);
  }
}

/** @param {Response} response @param {string} url */
async function bodyOf(response, url) {
  try {
    return await response.json();
  } catch (error) {
    throw isAbort(error) ? error : unreachable(url, error); // truncated, or not JSON
  }
}
