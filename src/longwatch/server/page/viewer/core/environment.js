/**
 * Clock, timers and fetch of the modules. Injected, so that a test can use a fake clock.
 *
 * @typedef {object} Environment
 * @property {() => number} now Milliseconds of a monotonic clock.
 * @property {(run: () => void, ms: number) => unknown} setTimeout
 * @property {(timer: any) => void} clearTimeout
 * @property {(url: string, options?: RequestInit) => Promise<Response>} fetch
 */

/** @type {Environment} */
export const browserEnvironment = {
  now: () => performance.now(),
  setTimeout: (run, ms) => globalThis.setTimeout(run, ms),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  fetch: (url, options) => globalThis.fetch(url, options),
};

/** @param {Partial<Environment>} [overrides] @returns {Environment} */
export function environmentWith(overrides) {
  return { ...browserEnvironment, ...overrides };
}
