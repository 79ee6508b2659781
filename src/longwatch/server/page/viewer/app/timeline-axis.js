/** The axis of a timeline: round times, the time now, and the times in which no call ran. */

import { axisLabels } from "./axis-labels.js";
import { fill, h } from "./dom.js";
import { durationText, timeElement } from "./format.js";
import { quietInView } from "./quiet-times.js";
import { share, tickTimes } from "./time-scale.js";

/** @import { Quiet } from "./quiet-times.js" */
/** @import { Stretch } from "./time-scale.js" */

const TICK_PX = 110;
const LEAST_TICKS = 3; // on a narrow axis: of fewer, only the one at the start may be in view
const CHARACTER_PX = 6.2; // of the labels of the strip, which have 16 pixels of padding

export class Axis {
  ticks = h("div", { class: "axis", "aria-hidden": "true" });
  /** The strip with the times in which no call ran. */
  quiet = h("div", {
    class: "quiet-times",
    role: "group",
    "aria-label": "Times in which no call ran",
  });
  /** The same times behind the rows. */
  bands = h("div", { class: "quiet-bands", "aria-hidden": "true" });
  now = h("div", { class: "now", hidden: true, "aria-hidden": "true" });

  /**
   * @param {Stretch} view @param {number} start of the run @param {Quiet[]} quiet
   * @param {number | null} now null for a run that is over
   */
  draw(view, start, quiet, now) {
    const width = this.ticks.clientWidth;
    const moments = tickTimes(view, start, Math.max(LEAST_TICKS, Math.floor(width / TICK_PX)));
    fill(
      this.ticks,
      ...axisLabels(moments, view, start, width).map(({ at, text, side }) =>
        h(
          "span",
          {
            class: side === "left" ? "label-left" : "",
            style: { left: `${share(view, at) * 100}%` },
          },
          side && timeElement(at, text),
        ),
      ),
    );
    this.#drawQuiet(view, quiet, now, width);
    const position = now === null ? -1 : share(view, now);
    this.now.hidden = position < 0 || position > 1;
    this.now.style.setProperty("--at", String(position));
  }

  /** @param {Stretch} view @param {Quiet[]} quiet @param {number | null} now @param {number} width */
  #drawQuiet(view, quiet, now, width) {
    const shown = quietInView(quiet, { from: view.from, to: Math.min(view.to, now ?? Infinity) });
    this.quiet.hidden = !shown.length;
    const parts = shown.map(({ kind, from, to }) => {
      const [left, right] = [Math.max(0, share(view, from)), share(view, Math.min(to, now ?? to))];
      const wide = Math.min(1, right) - left;
      const style = { left: `${left * 100}%`, width: `${wide * 100}%` };
      const length = durationText(Math.min(to, now ?? to) - from);
      const text = `${kind} ${length}`;
      const label = [text, length].find((each) => each.length * CHARACTER_PX + 16 <= wide * width);
      return {
        strip: h(
          "span",
          { class: `quiet-time ${kind}`, style, title: text },
          label ? h("span", {}, label) : null,
        ),
        band: h("span", { class: `quiet-time ${kind}`, style }),
      };
    });
    fill(this.quiet, ...parts.map(({ strip }) => strip));
    fill(this.bands, ...parts.map(({ band }) => band));
  }
}
