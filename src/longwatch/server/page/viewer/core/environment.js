/**
 * What the modules take from their surroundings. Handed in, so that a test brings a clock of its own.
 *
 * @typedef {object} Environment
 * @property {() => number} now Milliseconds of a clock that only grows.
 * @property {(run: () => void, ms: number) => unknown} setTimeout
 * @property {(timer: any) => void} clearTimeout
 * @property {(address: string, options?: RequestInit) => Promise<Response>} fetch
 */

/** @type {Environment} */
export const browserEnvironment = {
  now: () => performance.now(),
  setTimeout: (run, ms) => globalThis.setTimeout(run, ms),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  fetch: (address, options) => globalThis.fetch(address, options),
};

/**
 * The browser's own surroundings, with what is given instead.
 * @param {Partial<Environment>} [given]
 * @returns {Environment}
 */
export function environmentWith(given) {
  return given ? { ...browserEnvironment, ...given } : browserEnvironment;
}
