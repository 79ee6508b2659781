/** Sleeping that an abort signal ends. */

/** @import { Environment } from "./environment.js" */

/**
 * Resolves after so many milliseconds, or as soon as the signal is aborted.
 * @param {Environment} environment @param {number} ms @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function sleep(environment, ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const wake = () => {
      environment.clearTimeout(timer);
      signal.removeEventListener("abort", wake);
      resolve();
    };
    const timer = environment.setTimeout(wake, ms);
    signal.addEventListener("abort", wake);
  });
}

/**
 * A controller that is aborted with the signal. Call `release` at the end, or the signal keeps a reference to it.
 * @param {AbortSignal} signal
 */
export function childOf(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort);
  return { controller, release: () => signal.removeEventListener("abort", abort) };
}
