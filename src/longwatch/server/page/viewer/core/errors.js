/** Errors between a page and its server, in the shape of the server's error responses. */

/**
 * @typedef {object} ErrorDetail
 * @property {string} field
 * @property {string} message
 */

/** An error response, or no response at all (`status` 0, code `unreachable`). */
export class ApiError extends Error {
  /**
   * @param {{status: number, code: string, message: string, details?: ErrorDetail[], position?: number | null,
   *   retryAfterMs?: number | null, cause?: unknown}} error
   */
  constructor({
    status,
    code,
    message,
    details = [],
    position = null,
    retryAfterMs = null,
    cause,
  }) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.details = details;
    this.position = position; // of the mistake in a query, from 1
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether a retry may succeed: the server was unreachable, busy or restarting. */
  get isWorthAnotherTry() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/**
 * The error of a response. A body in another shape comes from a proxy or a gateway.
 * @param {Response} response @returns {Promise<ApiError>}
 */
export async function errorOf(response) {
  const { status } = response;
  const seconds = Number(response.headers.get("Retry-After") ?? NaN);
  const retryAfterMs = Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
  const error = errorIn(await response.text().catch(() => ""));
  if (error !== null) return new ApiError({ status, retryAfterMs, ...error });
  const message = `The server responded with status ${status} and no explanation. A proxy may have sent this response.`;
  return new ApiError({ status, code: `http_${status}`, message, retryAfterMs });
}

/**
 * @param {string} text @returns {{code: string, message: string, details?: ErrorDetail[], position?: number} | null}
 */
function errorIn(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error.code === "string" && typeof error.message === "string" ? error : null;
  } catch {
    return null;
  }
}

/** @param {string} url @param {unknown} cause */
export function unreachable(url, cause) {
  const [path] = url.split("?"); // the query of a feed is long
  const message = `No response from ${path}. Check that the server is running and that this machine is online.`;
  return new ApiError({ status: 0, code: "unreachable", message, cause });
}

/** @param {unknown} error */
export function isNotFound(error) {
  return error instanceof ApiError && error.status === 404;
}

/** Whether it was deleted: the message states when and by whom. @param {unknown} error @returns {error is ApiError} */
export function isGone(error) {
  return error instanceof ApiError && error.status === 410;
}

/** @param {unknown} error */
export function isAbort(error) {
  return error instanceof Error && error.name === "AbortError";
}

/** @param {unknown} error @returns {Error} */
export function asError(error) {
  return error instanceof Error ? error : new Error(String(error));
}
