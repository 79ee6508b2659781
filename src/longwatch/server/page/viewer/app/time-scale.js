/** The stretch of time that a timeline shows, and how it zooms and pans. Pure: every change is a new value. */

const LEAST_MS = 1;
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5,
  36e5, 72e5, 216e5, 432e5, 864e5,
];

/** @typedef {{from: number, to: number}} Stretch epoch milliseconds */

/**
 * Zoom around a point, `at` from 0 to 1. A factor below 1 zooms in.
 * @param {Stretch} view @param {Stretch} whole @param {number} factor @param {number} at
 * @returns {Stretch}
 */
export function zoomStretch(view, whole, factor, at = 0.5) {
  const span = Math.min(whole.to - whole.from, Math.max(LEAST_MS, (view.to - view.from) * factor));
  const point = view.from + (view.to - view.from) * at;
  return clampStretch({ from: point - span * at, to: point + span * (1 - at) }, whole);
}

/**
 * Move by a part of the visible stretch.
 * @param {Stretch} view @param {Stretch} whole @param {number} part
 */
export function panStretch(view, whole, part) {
  const by = (view.to - view.from) * part;
  return clampStretch({ from: view.from + by, to: view.to + by }, whole);
}

/**
 * The stretch, moved or shortened to lie within the whole.
 * @param {Stretch} view @param {Stretch} whole @returns {Stretch}
 */
export function clampStretch(view, whole) {
  const span = Math.min(view.to - view.from, whole.to - whole.from);
  const from = Math.min(Math.max(view.from, whole.from), whole.to - span);
  return { from, to: from + span };
}

/**
 * The position of a time in the stretch, 0 to 1 inside it.
 * @param {Stretch} view @param {number} at
 */
export function share(view, at) {
  return (at - view.from) / Math.max(LEAST_MS, view.to - view.from);
}

/**
 * The stretch, moved to these times if they are not in it; the times in its middle.
 * @param {Stretch} view @param {Stretch} times @returns {Stretch}
 */
export function stretchAround(view, { from, to }) {
  if (from <= view.to && to >= view.from) return view;
  const half = Math.max(view.to - view.from, (to - from) * 1.25) / 2;
  const middle = (from + to) / 2;
  return { from: middle - half, to: middle + half };
}

/**
 * Round times for the ticks of an axis, counted from the start of the run.
 * @param {Stretch} view @param {number} start @param {number} most @returns {number[]}
 */
export function tickTimes(view, start, most) {
  const span = view.to - view.from;
  const step =
    STEPS_MS.find((each) => span / each <= most) ?? Math.ceil(span / most / 864e5) * 864e5;
  const found = [];
  for (let at = start + Math.ceil((view.from - start) / step) * step; at <= view.to; at += step)
    found.push(at);
  return found;
}
