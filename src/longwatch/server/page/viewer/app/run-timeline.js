/**
 * `<lw-timeline>`: agents, tools, models, nodes and waits as bars over time. Zoom with the wheel or the keys, drag to pan, drag over
 * the overview to select a range. Only the visible rows are drawn.
 */

import { ABANDONED } from "../core/calls.js";
import { beforePaint, fill, h, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { durationText, timeElement } from "./format.js";
import { icon, iconButton, statusMark, statusOf, swatchOf } from "./icons.js";
import { callRows } from "./call-tree.js";
import { state } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import {
  clampStretch,
  labelSide,
  panStretch,
  share,
  tickTimes,
  zoomStretch,
} from "./time-scale.js";
import { modelCallText } from "./usage-text.js";
import "./window-list.js";

/** @import { CallRow } from "./call-tree.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { Call } from "./types.js" */

const ZOOM = 0.5;
const WHEEL = 1.0015;
const PAN = 0.25;
const TICKS = 7;
const LEAST_SHARE = 0.0015; // of the width, so that a call without a duration is visible and clickable
const OVERVIEW_LANES = 6;
const LABEL_SHARE = 0.3; // of the width, which the label of a bar needs beside it
const GLYPHS = /** @type {Record<string, string>} */ ({ model: "model", wait: "wait" });

export class Timeline extends Part {
  /** @type {RunModel} */
  model;
  /** Called with the call that the user selects. @type {(call: Call) => void} */
  onSelect = () => {};

  /** @type {Stretch | null} the visible time; null for the whole run */
  #view = null;
  /** @type {Set<string>} */
  #closed = new Set();
  /** @type {CallRow[]} */
  #rows = [];
  #version = -1;
  #shown = "";
  #draw = beforePaint(() => this.#drawNow());

  #list = h("lw-window", { class: "bars", "aria-label": "Timeline of calls" });
  #axis = h("div", { class: "axis", "aria-hidden": "true" });
  #overview = h("canvas", {
    class: "overview",
    role: "img",
    "aria-label": "Overview of the whole run; drag to select a range",
  });
  #window = div("overview-window");
  #now = h("div", { class: "now", hidden: true, "aria-hidden": "true" });
  #empty = h(
    "div",
    { hidden: true },
    state({
      title: "No calls yet",
      text: "Agents, tools, models and nodes appear here when the run records them.",
      symbol: "tool",
    }),
  );
  #label = h("span", { class: "dim nums", role: "status" });
  #frame = div(
    "timeline-frame",
    div("overview-frame", this.#overview, this.#window),
    this.#axis,
    this.#list,
    this.#now,
  );

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(
        div(
          "toolbar",
          iconButton("plus", "Zoom in (+)", () => this.zoom(ZOOM), ""),
          iconButton("minus", "Zoom out (−)", () => this.zoom(1 / ZOOM), ""),
          iconButton("fit", "Fit (0)", () => this.fit(), ""),
          spacer(),
          this.#label,
        ),
        this.#frame,
        this.#empty,
      );
      this.#list.onSelect = ({ call }) => this.onSelect(call);
      this.#list.onOpen = (row) => this.#toggle(row);
      this.#list.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
      this.#list.addEventListener("pointerdown", (event) => this.#drag(event));
      this.#overview.addEventListener("pointerdown", (event) => this.#selectRange(event));
    }
    this.onDisconnect(
      this.model.watch(this.#draw),
      everySecond(() => this.model.open && this.#draw()),
    );
    this.onResize(this.#draw);
    this.#draw();
  }

  /** @param {number} factor */
  zoom(factor, at = 0.5) {
    const whole = this.#whole();
    const next = zoomStretch(this.#view ?? whole, whole, factor, at);
    this.#view = next.to - next.from >= (whole.to - whole.from) * 0.999 ? null : next;
    this.#draw();
  }

  /** @param {number} part */
  pan(part) {
    if (!this.#view) return;
    this.#view = panStretch(this.#view, this.#whole(), part);
    this.#draw();
  }

  fit() {
    this.#view = null;
    this.#draw();
  }

  /** @param {string} key */
  press(key) {
    if (key === "+" || key === "=") this.zoom(ZOOM);
    else if (key === "-") this.zoom(1 / ZOOM);
    else if (key === "0") this.fit();
    else if (key === "ArrowLeft") this.pan(-PAN);
    else if (key === "ArrowRight") this.pan(PAN);
  }

  /** @param {string | null} callId */
  reveal(callId) {
    this.#drawNow();
    this.#list.reveal(({ call }) => call.call_id === callId);
  }

  /** @param {number} step */
  move(step) {
    this.#list.move(step);
  }

  /** @returns {Stretch} */
  #whole() {
    const { startedAt: from, lastAt, open } = this.model;
    const to = Math.max(from + 1, lastAt, open ? this.model.now() : 0);
    return { from, to: to + (to - from) * 0.02 };
  }

  /** The end of the bar of a call without an end: now, or the last time the run is known to have been alive. */
  #openEnd() {
    return this.model.open ? this.model.now() : this.model.lastAt;
  }

  #drawNow() {
    const { model } = this;
    if (!this.isConnected) return;
    if (model.version !== this.#version) {
      this.#version = model.version;
      this.#rows = callRows(model.spans(), this.#closed);
    }
    this.#empty.hidden = this.#rows.length > 0;
    this.#frame.hidden = !this.#rows.length;
    if (!this.#rows.length) return;
    const whole = this.#whole();
    const view = this.#view ? clampStretch(this.#view, whole) : whole;
    const drawn = `${view.from}/${view.to}`;
    const fresh = drawn !== this.#shown;
    this.#shown = drawn;
    const draw = (/** @type {CallRow} */ row) => this.#row(row, view);
    this.#list.show({ items: this.#rows, key: keyOf, draw }, { fresh });
    this.#drawAxis(view);
    this.#drawOverview(whole, view);
    setText(this.#label, `${durationText(view.to - view.from)} in view`);
  }

  /** @param {CallRow} row @param {Stretch} view */
  #row(row, view) {
    const { call, depth, children } = row;
    const from = share(view, call.started_at);
    const end =
      call.ended_at ??
      (call.duration_ms !== null ? call.started_at + call.duration_ms : this.#openEnd());
    const to = Math.max(share(view, end), from + LEAST_SHARE);
    const seen = to > 0 && from < 1;
    const left = Math.max(0, from);
    const running = call.kind === "wait" ? "waiting" : "running";
    const open = call.status === ABANDONED ? ABANDONED : running;
    const took = call.duration_ms === null ? open : durationText(call.duration_ms);
    const click = (/** @type {Event} */ event) => {
      event.stopPropagation();
      this.#toggle(row);
    };
    const arrow = this.#closed.has(call.call_id) ? "▸" : "▾";
    const twist = children
      ? h("span", { class: "twist", "aria-hidden": "true", on: { click } }, arrow)
      : span("twist");
    return div(
      `bar-row kind-${call.kind}`,
      h(
        "span",
        { class: "bar-name cut", style: { "--depth": depth } },
        twist,
        statusMark(call.status, { quiet: true }),
        kindMark(call.kind),
        span("cut", call.name),
        span("dim took nums", took),
      ),
      span(
        "bar-space",
        seen
          ? h("span", {
              class: `bar is-${statusOf(call.status)} swatch-${swatchOf(call.agent_name ?? call.name)}`,
              title:
                call.status === ABANDONED ? "No end recorded; running at least until here" : null,
              style: {
                left: `${left * 100}%`,
                width: `${(Math.min(1, to) - left) * 100}%`,
                "--first": `${firstTokenShare(call) * 100}%`,
              },
            })
          : null,
        seen ? barLabel(call, left, Math.min(1, to)) : null,
      ),
    );
  }

  /** @param {CallRow} row */
  #toggle({ call: { call_id: id }, children }) {
    if (!children) return;
    if (!this.#closed.delete(id)) this.#closed.add(id);
    this.#version = -1;
    this.#shown = "";
    this.#draw();
  }

  /** @param {Stretch} view */
  #drawAxis(view) {
    const start = this.model.startedAt;
    const wide = this.#axis.clientWidth > 700 ? TICKS : Math.ceil(TICKS / 2);
    const moments = tickTimes(view, start, wide);
    fill(
      this.#axis,
      ...moments.map((at, index) => {
        const side = labelSide(
          share(view, at),
          share(view, moments[index - 1] ?? view.from),
          this.#axis.clientWidth,
        );
        const label = side && timeElement(at, at === start ? "0" : `+${durationText(at - start)}`);
        return h(
          "span",
          {
            class: side === "left" ? "label-left" : "",
            style: { left: `${share(view, at) * 100}%` },
          },
          label,
        );
      }),
    );
    const now = share(view, this.model.now());
    this.#now.hidden = !this.model.open || now < 0 || now > 1;
    this.#now.style.setProperty("--at", String(now));
  }

  /** @param {Stretch} whole @param {Stretch} view */
  #drawOverview(whole, view) {
    const canvas = this.#overview;
    const scale = devicePixelRatio || 1;
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (!wide || !high) return;
    canvas.width = wide * scale;
    canvas.height = high * scale;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const colours = this.#colours();
    pen.scale(scale, scale);
    const lane = high / OVERVIEW_LANES;
    this.model.spans().forEach((call, at) => {
      const left = share(whole, call.started_at) * wide;
      const right = share(whole, call.ended_at ?? this.#openEnd()) * wide;
      const isInner = call.kind === "tool" || call.kind in GLYPHS;
      const row = isInner ? 1 + (at % (OVERVIEW_LANES - 1)) : 0;
      const colour = call.status === "completed" ? colours.get(call.kind) : undefined;
      pen.fillStyle = colour ?? colours.get(statusOf(call.status)) ?? "";
      pen.globalAlpha = call.status === "failed" ? 1 : 0.6;
      pen.fillRect(left, row * lane + 1, Math.max(1, right - left), lane - 2);
    });
    this.#window.hidden = !this.#view;
    this.#window.style.left = `${share(whole, view.from) * 100}%`;
    this.#window.style.width = `${(share(whole, view.to) - share(whole, view.from)) * 100}%`;
  }

  /** The colours of the statuses in the current theme; a canvas has no classes. */
  #colours() {
    const statuses = [
      ...["running", "succeeded", "failed", "cancelled", "unknown", "pending", "partial"],
      ABANDONED,
      ...Object.keys(GLYPHS),
    ];
    const probe = h("span", { hidden: true });
    this.append(probe);
    const found = new Map(
      statuses.map((status) => {
        probe.className = `is-${status}`;
        return [status, getComputedStyle(probe).color];
      }),
    );
    probe.remove();
    return found;
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && !sideways) return; // plain wheel scrolls the rows
    event.preventDefault();
    if (sideways || event.shiftKey) {
      this.pan((event.deltaX || event.deltaY) / Math.max(1, this.#axis.clientWidth));
      return;
    }
    const box = this.#axis.getBoundingClientRect();
    this.zoom(
      WHEEL ** event.deltaY,
      Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)),
    );
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (event.button !== 0 || event.pointerType === "touch" || !this.#view) return;
    let x = event.clientX;
    this.#trackPointer(event, this.#list, (moved) => {
      this.pan((x - moved.clientX) / Math.max(1, this.#axis.clientWidth));
      x = moved.clientX;
    });
  }

  /** @param {PointerEvent} event */
  #selectRange(event) {
    const box = this.#overview.getBoundingClientRect();
    const whole = this.#whole();
    const at = (/** @type {PointerEvent} */ each) =>
      whole.from +
      (whole.to - whole.from) * Math.min(1, Math.max(0, (each.clientX - box.left) / box.width));
    const start = at(event);
    event.preventDefault();
    this.#trackPointer(event, this.#overview, (moved) => {
      const end = at(moved);
      if (Math.abs(end - start) < (whole.to - whole.from) * 0.005) return;
      this.#view = { from: Math.min(start, end), to: Math.max(start, end) };
      this.#draw();
    });
  }

  /**
   * @param {PointerEvent} event @param {HTMLElement} element
   * @param {(event: PointerEvent) => void} moved
   */
  #trackPointer(event, element, moved) {
    const stop = new AbortController();
    element.addEventListener("pointermove", moved, { signal: stop.signal });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      element.addEventListener(end, () => stop.abort(), { signal: stop.signal });
    }
    if (element === this.#overview) element.setPointerCapture(event.pointerId);
    else addEventListener("pointerup", () => stop.abort(), { signal: stop.signal });
  }
}

/** The symbol of a call that is neither an agent, a tool nor a node. @param {string} kind */
export function kindMark(kind) {
  const glyph = GLYPHS[kind];
  if (!glyph) return null;
  return h("span", { class: `kind is-${kind}`, title: kind }, icon(glyph), span("unseen", kind));
}

/** The part of a model call before its first token, 0 to 1. @param {Call} call */
function firstTokenShare({ time_to_first_token_ms: first, duration_ms: took }) {
  return first && took ? Math.min(1, first / took) : 0;
}

/**
 * Tokens, cost and time to the first token of a model call, on the side of its bar that has room.
 * @param {Call} call @param {number} from @param {number} to of the bar, 0 to 1
 */
function barLabel(call, from, to) {
  const text = call.kind === "model" ? modelCallText(call) : "";
  if (!text || (1 - to < LABEL_SHARE && from < LABEL_SHARE)) return null;
  const [side, at] = 1 - to >= LABEL_SHARE ? ["left", to] : ["right", 1 - from];
  return h("span", { class: "bar-label nums", style: { [side]: `${at * 100}%` } }, text);
}

/** @param {CallRow} row */
function keyOf({ call, depth, children }) {
  return `${call.call_id}/${call.status}/${depth}/${children}/${call.cost}`;
}

define("lw-timeline", Timeline);
