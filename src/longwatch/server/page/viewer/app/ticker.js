/**
 * One clock for every text that counts seconds. It stands still while nobody listens or the page is hidden,
 * so that an idle page costs nothing, and while the server does not answer: nothing is known of the time since.
 */

import { offline } from "./connection.js";

const STEP_MS = 1000;

/** @type {Set<(now: number) => void>} */
const listeners = new Set();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/**
 * Be called about once a second until the returned function is called.
 * @param {(now: number) => void} listener
 * @returns {() => void}
 */
export function everySecond(listener) {
  listeners.add(listener);
  arrange();
  return () => {
    listeners.delete(listener);
    arrange();
  };
}

function arrange() {
  const wanted = listeners.size > 0 && document.visibilityState === "visible" && !offline.value;
  if (wanted && timer === undefined) timer = setInterval(tick, STEP_MS);
  if (!wanted && timer !== undefined) {
    clearInterval(timer);
    timer = undefined;
  }
}

function tick() {
  const now = Date.now();
  for (const listener of [...listeners]) listener(now);
}

function resume() {
  const stood = timer === undefined;
  arrange();
  if (stood && timer !== undefined) tick();
}

/**
 * Call a function whenever the page becomes visible, until the returned function is called.
 * @param {() => void} run
 */
export function whenVisible(run) {
  const changed = () => document.visibilityState === "visible" && run();
  document.addEventListener("visibilitychange", changed);
  return () => document.removeEventListener("visibilitychange", changed);
}

document.addEventListener("visibilitychange", resume);
offline.watch(resume);
