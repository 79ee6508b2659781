/** What can go wrong between a page and its server, in the words of the server's one error shape. */

/**
 * @typedef {object} ErrorDetail
 * @property {string} field
 * @property {string} message
 */

/** An answer that is an error, or no answer at all (`status` 0, code `unreachable`). */
export class ApiError extends Error {
  /**
   * @param {object} told
   * @param {number} told.status
   * @param {string} told.code
   * @param {string} told.message
   * @param {ErrorDetail[]} [told.details]
   * @param {number | null} [told.retryAfterMs]
   * @param {unknown} [told.cause]
   */
  constructor({ status, code, message, details = [], retryAfterMs = null, cause }) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may be answered later: the server was away, busy or restarting. */
  get isWorthAnotherTry() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/**
 * The error that an answer tells. One that is not in our shape comes from something in between, a proxy mostly.
 * @param {Response} response
 * @returns {Promise<ApiError>}
 */
export async function errorOf(response) {
  const { status } = response;
  const seconds = Number(response.headers.get("Retry-After") ?? NaN);
  const retryAfterMs = Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
  const told = errorIn(await response.text().catch(() => ""));
  if (told !== null) return new ApiError({ status, retryAfterMs, ...told });
  const message = `The server answered ${status} without saying why. Something between it and this page may have.`;
  return new ApiError({ status, code: `http_${status}`, message, retryAfterMs });
}

/**
 * @param {string} text
 * @returns {{code: string, message: string, details?: ErrorDetail[]} | null}
 */
function errorIn(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error.code === "string" && typeof error.message === "string" ? error : null;
  } catch {
    return null;
  }
}

/** @param {string} address @param {unknown} cause */
export function unreachable(address, cause) {
  const message = `No answer from ${address}. Check that the server runs and that this machine is online.`;
  return new ApiError({ status: 0, code: "unreachable", message, cause });
}

/**
 * Whether the server responded that there is no such thing.
 * @param {unknown} error
 */
export function isNotFound(error) {
  return error instanceof ApiError && error.status === 404;
}

/** @param {unknown} error */
export function isAbort(error) {
  return error instanceof Error && error.name === "AbortError";
}

/** @param {unknown} error @returns {Error} */
export function asError(error) {
  return error instanceof Error ? error : new Error(String(error));
}
