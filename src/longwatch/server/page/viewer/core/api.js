/** The server's routes from a page: JSON in and out, tags kept, one kind of error. */

import { ResponseCache } from "./response-cache.js";
import { errorOf, isAbort, unreachable } from "./errors.js";
import { browserEnvironment } from "./environment.js";

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | readonly string[]>} Query
 *
 * @typedef {object} ApiOptions
 * @property {string} [baseUrl] Where the server is; without it, where the page came from.
 * @property {(address: string, options?: RequestInit) => Promise<Response>} [fetch]
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
  address(path, query = {}) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== null && each !== undefined) search.append(name, String(each));
      }
    }
    const text = search.toString();
    return `${this.#baseUrl}${path}${text && `?${text}`}`;
  }

  /**
   * The body under this path, with users' unconfirmed changes unless it has to be `confirmed`. One that has not
   * changed is the same object.
   * @param {string} path
   * @param {{query?: Query, signal?: AbortSignal, wait?: number, confirmed?: boolean}} [options] `wait`: seconds
   *   for a long poll.
   * @returns {Promise<any>}
   */
  async get(path, { query, signal, wait, confirmed = false } = {}) {
    const key = this.address(path, query);
    const address = wait ? this.address(path, { ...query, wait }) : key;
    const found = () => (confirmed ? this.cache.confirmed(key) : this.cache.view(key));
    for (;;) {
      const { etag, epoch } = this.cache.asked(key);
      const headers = etag === null ? undefined : { "If-None-Match": etag };
      const response = await this.request(address, { headers, signal, accepts: [304] });
      if (response.status === 304) return found();
      const body = await bodyOf(response, address);
      if (this.cache.store(key, { etag: response.headers.get("ETag"), body, epoch }))
        return found();
    }
  }

  /**
   * Send a body (JSON, or bytes and text as they are) and give the answer's.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {{query?: Query, signal?: AbortSignal, type?: string, keepalive?: boolean}} [options] `keepalive`: the
   *   request outlives the page.
   * @returns {Promise<any>}
   */
  async send(method, path, body, { query, signal, type, keepalive } = {}) {
    const address = this.address(path, query);
    const raw = typeof body === "string" || body instanceof Uint8Array;
    const response = await this.request(address, {
      method,
      signal,
      keepalive,
      body:
        body === undefined
          ? undefined
          : raw
            ? /** @type {BodyInit} */ (body)
            : JSON.stringify(body),
      headers: body === undefined ? undefined : { "Content-Type": type ?? "application/json" },
    });
    return response.status === 204 ? undefined : bodyOf(response, address);
  }

  /**
   * The bare answer; an error unless it is a good one or one of `accepts`.
   * @param {string} address
   * @param {object} [options]
   * @param {string} [options.method]
   * @param {Record<string, string>} [options.headers]
   * @param {BodyInit} [options.body]
   * @param {AbortSignal} [options.signal]
   * @param {number[]} [options.accepts]
   * @param {boolean} [options.keepalive]
   * @returns {Promise<Response>}
   */
  async request(
    address,
    { method = "GET", headers = {}, body, signal, accepts = [], keepalive = false } = {},
  ) {
    let response;
    try {
      response = await this.#fetch(address, {
        method,
        body,
        signal,
        keepalive,
        headers: { ...this.#headers, ...headers },
        credentials: this.#credentials,
        cache: "no-store",
      });
    } catch (error) {
      throw isAbort(error) || signal?.aborted ? error : unreachable(address, error);
    }
    if (response.ok || accepts.includes(response.status)) return response;
    throw await errorOf(response);
  }
}

/** @param {Response} response @param {string} address */
async function bodyOf(response, address) {
  try {
    return await response.json();
  } catch (error) {
    throw isAbort(error) ? error : unreachable(address, error); // cut off in the middle, or no JSON at all
  }
}
