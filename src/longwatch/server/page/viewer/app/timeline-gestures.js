/** The wheel and the pointer on the rows of a timeline: they pan and zoom; a plain wheel scrolls. */

import { trackPointer } from "./timeline-overview.js";

const WHEEL = 1.0015;

/**
 * @typedef {object} Gestures
 * @property {(part: number) => void} pan by a part of the visible time
 * @property {(factor: number, at: number) => void} zoom around a point from 0 to 1
 * @property {() => boolean} isZoomed whether there is time to drag into view
 */

/**
 * @param {HTMLElement} rows @param {HTMLElement} axis as wide as the visible time
 * @param {Gestures} gestures
 */
export function addGestures(rows, axis, { pan, zoom, isZoomed }) {
  const width = () => Math.max(1, axis.clientWidth);

  /** @param {WheelEvent} event */
  const wheel = (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && !sideways) return;
    event.preventDefault();
    if (sideways || event.shiftKey) return pan((event.deltaX || event.deltaY) / width());
    const { left } = axis.getBoundingClientRect();
    zoom(WHEEL ** event.deltaY, Math.min(1, Math.max(0, (event.clientX - left) / width())));
  };

  /** @param {PointerEvent} event */
  const drag = (event) => {
    if (event.button !== 0 || event.pointerType === "touch" || !isZoomed()) return;
    let x = event.clientX;
    trackPointer(rows, (moved) => {
      const part = (x - moved.clientX) / width();
      if (part) pan(part);
      x = moved.clientX;
    });
  };

  rows.addEventListener("wheel", wheel, { passive: false });
  rows.addEventListener("pointerdown", drag);
}
