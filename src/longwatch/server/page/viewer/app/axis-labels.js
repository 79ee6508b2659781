/** The labels of a time axis: as exact as their distance needs, and only where they have room. */

import { share } from "./time-scale.js";

/** @import { Stretch } from "./time-scale.js" */
/** @typedef {{at: number, text: string, side: "left" | "right" | null}} AxisLabel `side` of the tick; null: no room */

const CHARACTER_PX = 6.6; // of the widest digit in the axis' size
const PADDING_PX = 10;
const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];

/**
 * @param {number[]} ticks in order @param {Stretch} view @param {number} start of the run @param {number} width in pixels
 * @returns {AxisLabel[]}
 */
export function axisLabels(ticks, view, start, width) {
  const step = (ticks[1] ?? view.to) - (ticks[0] ?? view.from);
  let taken = 0; // pixels from the left that earlier labels need
  return ticks.map((at, index) => {
    const text = tickText(at - start, step);
    const needed = text.length * CHARACTER_PX + PADDING_PX;
    const x = share(view, at) * width;
    const next = ticks[index + 1];
    const room = next === undefined ? width : share(view, next) * width;
    if (x >= taken && x + needed <= room) {
      taken = x + needed;
      return { at, text, side: "right" };
    }
    if (x - needed < taken) return { at, text, side: null };
    taken = x;
    return { at, text, side: "left" };
  });
}

/**
 * `0`, `250 ms`, `1.5 s`, `3:59`, `3:59.25`, `1:02:05`, `2 d 3:00:00`: with as many decimals as the step between two ticks.
 * @param {number} ms since the start of the run @param {number} step
 */
export function tickText(ms, step) {
  if (ms === 0) return "0";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const decimals = step >= SECOND ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  const seconds = (ms % MINUTE) / SECOND;
  if (ms < MINUTE) return `${seconds.toFixed(decimals)} s`;
  const [days, hours] = [Math.floor(ms / DAY), Math.floor((ms % DAY) / HOUR)];
  const minutes = Math.floor((ms % HOUR) / MINUTE);
  const clock = `${minutes}:${seconds.toFixed(decimals).padStart(decimals ? decimals + 3 : 2, "0")}`;
  if (!days && !hours) return clock;
  const padded = minutes < 10 ? `0${clock}` : clock;
  return days ? `${days} d ${hours}:${padded}` : `${hours}:${padded}`;
}
