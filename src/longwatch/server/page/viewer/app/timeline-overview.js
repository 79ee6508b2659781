/** The overview of a timeline: the whole run on a canvas, its failures marked. Drag over it to select a range. */

import { h } from "./dom.js";
import { div } from "./markup.js";
import { binCalls } from "./overview-bins.js";
import { share } from "./time-scale.js";

/** @import { Bins } from "./overview-bins.js" */
/** @import { TimelineFacts } from "./timeline-facts.js" */
/** @import { Stretch } from "./time-scale.js" */

const LANES = 5;
const MARK_PX = 5; // height of the strip with the failures
const MOST_LINES = 0.08; // of the columns: more lines for failures would hide the calls
const LEAST_ALPHA = 0.3; // of a mark in the strip
const LEAST_RANGE = 0.005; // of the width: a shorter drag is a click
/** Classes of the colours, by what the bins state. */
const LOOKS = /** @type {Record<string, string>} */ ({
  completed: "succeeded",
  started: "running",
  model: "model",
  wait: "wait",
  failed: "failed",
  abandoned: "abandoned",
  skipped: "cancelled",
});

export class Overview {
  /** Called with the range that the user selects. @type {(range: Stretch) => void} */
  onRange = () => {};

  #canvas = h("canvas", {
    class: "overview",
    role: "img",
    "aria-label": "Overview of the whole run; drag to select a range",
  });
  #window = div("overview-window");
  element = div("overview-frame", this.#canvas, this.#window);
  /** @type {Stretch} */
  #whole = { from: 0, to: 1 };
  /** @type {TimelineFacts | null} */
  #facts = null;
  #painted = "";

  constructor() {
    this.#canvas.addEventListener("pointerdown", (event) => this.#selectRange(event));
  }

  /**
   * @param {TimelineFacts} facts @param {Stretch} whole @param {Stretch | null} view null: the whole run
   * @param {number} openEnd
   */
  draw(facts, whole, view, openEnd) {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scheme = matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = `${document.documentElement.dataset["theme"]} ${scheme}`;
    const painted = `${width} ${height} ${whole.from} ${whole.to} ${theme} ${devicePixelRatio}`;
    if (facts !== this.#facts || painted !== this.#painted) {
      this.#facts = facts;
      this.#whole = whole;
      this.#painted = painted;
      if (width && height) this.#paint(facts, whole, openEnd, width, height);
    }
    this.#window.hidden = !view;
    if (!view) return;
    this.#window.style.left = `${share(whole, view.from) * 100}%`;
    this.#window.style.width = `${(share(whole, view.to) - share(whole, view.from)) * 100}%`;
  }

  /**
   * @param {TimelineFacts} facts @param {Stretch} whole @param {number} openEnd
   * @param {number} width @param {number} height
   */
  #paint({ tree }, whole, openEnd, width, height) {
    const scale = devicePixelRatio || 1;
    const canvas = this.#canvas;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.scale(scale, scale);
    const size = { columns: Math.max(1, Math.round(width)), lanes: LANES };
    const { blocks, failures } = binCalls(tree, whole, openEnd, size);
    const colours = this.#colours();
    const lane = (height - MARK_PX) / LANES;
    pen.globalAlpha = 0.6;
    for (const block of blocks) {
      pen.fillStyle = colours.get(LOOKS[block.look] ?? "unknown") ?? "";
      pen.fillRect(block.from, MARK_PX + block.lane * lane + 1, block.to - block.from, lane - 1.5);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colours.get("failed") ?? "";
    paintFailures(pen, failures, { columns: size.columns, height });
  }

  /** The colours of the current theme; a canvas has no classes. */
  #colours() {
    const probe = h("span", { hidden: true });
    this.element.append(probe);
    const found = new Map(
      [...Object.values(LOOKS), "unknown"].map((look) => {
        probe.className = `is-${look}`;
        return [look, getComputedStyle(probe).color];
      }),
    );
    probe.remove();
    return found;
  }

  /** @param {PointerEvent} event */
  #selectRange(event) {
    const box = this.#canvas.getBoundingClientRect();
    const whole = this.#whole;
    const timeAt = (/** @type {PointerEvent} */ each) =>
      whole.from +
      (whole.to - whole.from) * Math.min(1, Math.max(0, (each.clientX - box.left) / box.width));
    const start = timeAt(event);
    event.preventDefault();
    this.#canvas.setPointerCapture(event.pointerId);
    trackPointer(this.#canvas, (moved) => {
      const end = timeAt(moved);
      if (Math.abs(end - start) < (whole.to - whole.from) * LEAST_RANGE) return;
      this.onRange({ from: Math.min(start, end), to: Math.max(start, end) });
    });
  }
}

/**
 * Few failures are lines through the whole height. Many would hide what is below them: then only the strip shows where they
 * are dense.
 * @param {CanvasRenderingContext2D} pen @param {Bins["failures"]} failures
 * @param {{columns: number, height: number}} size
 */
function paintFailures(pen, failures, { columns, height }) {
  if (failures.length <= columns * MOST_LINES) {
    for (const { column } of failures) {
      pen.fillRect(column - 1, 0, 3, MARK_PX);
      pen.fillRect(column, MARK_PX, 1, height - MARK_PX);
    }
    return;
  }
  const most = failures.reduce((found, { count }) => Math.max(found, count), 1);
  for (const { column, count } of failures) {
    pen.globalAlpha = LEAST_ALPHA + (1 - LEAST_ALPHA) * (count / most);
    pen.fillRect(column, 0, 1, MARK_PX);
  }
  pen.globalAlpha = 1;
}

/**
 * Report the moves of a pointer until it is released.
 * @param {HTMLElement} element @param {(event: PointerEvent) => void} moved
 */
export function trackPointer(element, moved) {
  const stop = new AbortController();
  const { signal } = stop;
  element.addEventListener("pointermove", moved, { signal });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    const target = end === "pointerup" ? window : element;
    target.addEventListener(end, () => stop.abort(), { signal });
  }
}
