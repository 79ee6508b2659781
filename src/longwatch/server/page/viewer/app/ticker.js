/**
 * One timer for all texts that count seconds. It stops without listeners and while the page is hidden, so that an idle
 * page costs nothing, and while the page's data are stale, because the state since then is unknown.
 */

import { stale } from "./connection.js";

const STEP_MS = 1000;

/** @type {Set<(now: number) => void>} */
const listeners = new Set();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/**
 * Call a function about once a second until the returned function is called.
 * @param {(now: number) => void} listener @returns {() => void}
 */
export function everySecond(listener) {
  listeners.add(listener);
  startOrStop();
  return () => {
    listeners.delete(listener);
    startOrStop();
  };
}

/**
 * The same, every so many seconds.
 * @param {number} seconds @param {(now: number) => void} listener
 */
export function everySeconds(seconds, listener) {
  let passed = 0;
  return everySecond((now) => {
    passed += 1;
    if (passed % seconds === 0) listener(now);
  });
}

function startOrStop() {
  const wanted =
    listeners.size > 0 && document.visibilityState === "visible" && stale.value === null;
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
  const wasStopped = timer === undefined;
  startOrStop();
  if (wasStopped && timer !== undefined) tick();
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
stale.watch(resume);
