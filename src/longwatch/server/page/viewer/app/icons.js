/** The icons: one shape for every status, and the symbols of the buttons. All are 16 × 16. */

import { button, h, svg } from "./dom.js";
import { span } from "./markup.js";

const RING = "M8 1.75a6.25 6.25 0 1 1 0 12.5a6.25 6.25 0 0 1 0-12.5z";

/** Paths by name; a leading `*` means filled. No icon is animated, so that an idle page stays idle. */
const SHAPES = /** @type {Record<string, string[]>} */ ({
  pending: [
    "M8 1.75a6.25 6.25 0 0 1 3.1.83M13.5 5.1a6.25 6.25 0 0 1 .7 3.9M12.9 11.9a6.25 6.25 0 0 1-3.3 2.1M6.3 14a6.25 6.25 0 0 1-3.4-2.4M1.8 8.9a6.25 6.25 0 0 1 .9-4.2M4.9 2.6",
  ],
  running: [
    "M8 1.75a6.25 6.25 0 0 1 6.25 6.25M8 14.25a6.25 6.25 0 0 1-6.25-6.25",
    "*M8 5.4a2.6 2.6 0 1 1 0 5.2a2.6 2.6 0 0 1 0-5.2z",
  ],
  succeeded: [RING, "M5.2 8.2l2 2l3.7-4.1"],
  failed: [
    "M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4z",
    "M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2",
  ],
  partial: [RING, "*M8 1.75a6.25 6.25 0 0 1 0 12.5z"],
  cancelled: [RING, "M3.7 12.3L12.3 3.7"],
  unknown: [RING, "M6.2 6.3c0-2.4 3.7-2.3 3.7-.1c0 1.5-1.8 1.6-1.8 2.9M8.1 11.3v.1"],
  died: ["M8 1.3l6.7 6.7L8 14.7L1.3 8z", "M4.9 8h6.2"],
  abandoned: [
    "M8 1.75a6.25 6.25 0 0 0 0 12.5",
    "M11.5 2.9v.1M13.9 6v.1M13.9 10v.1M11.5 13v.1",
    "M5.2 8h5.2",
  ],
  skipped: [RING, "M5 8h6"],
  copy: [
    "M5.5 5.5V3.2c0-.6.4-1 1-1h6.3c.6 0 1 .4 1 1v6.3c0 .6-.4 1-1 1h-2.3",
    "M3.2 5.5h6.3c.6 0 1 .4 1 1v6.3c0 .6-.4 1-1 1H3.2c-.6 0-1-.4-1-1V6.5c0-.6.4-1 1-1z",
  ],
  search: ["M7 2.2a4.8 4.8 0 1 1 0 9.6a4.8 4.8 0 0 1 0-9.6z", "M10.6 10.6l3.2 3.2"],
  link: [
    "M6.7 9.3a2.7 2.7 0 0 0 3.9 0l2.3-2.3a2.8 2.8 0 0 0-3.9-3.9l-.8.8",
    "M9.3 6.7a2.7 2.7 0 0 0-3.9 0L3.1 9a2.8 2.8 0 0 0 3.9 3.9l.8-.8",
  ],
  download: ["M8 2.2v8M4.9 7.3L8 10.4l3.1-3.1M2.6 13.4h10.8"],
  compare: ["M2.4 2.8h4v10.4h-4zM9.6 2.8h4v10.4h-4z"],
  pause: ["M5.5 3.2v9.6M10.5 3.2v9.6"],
  play: ["*M4.6 2.8l8.2 5.2l-8.2 5.2z"],
  down: ["M8 2.6v10M4 8.8l4 4l4-4"],
  next: ["M3.6 6l4.4 4.4L12.4 6"],
  previous: ["M3.6 10.4L8 6l4.4 4.4"],
  longest: ["M2 4v8M14 4v8M2 8h12M4.6 5.8L2.4 8l2.2 2.2M11.4 5.8L13.6 8l-2.2 2.2"],
  sun: [
    "M8 5.1a2.9 2.9 0 1 1 0 5.8a2.9 2.9 0 0 1 0-5.8z",
    "M8 1.2v1.5M8 13.3v1.5M1.2 8h1.5M13.3 8h1.5M3.2 3.2l1 1M11.8 11.8l1 1M12.8 3.2l-1 1M4.2 11.8l-1 1",
  ],
  moon: ["M13.6 9.6A6 6 0 0 1 6.4 2.4a6 6 0 1 0 7.2 7.2z"],
  auto: [RING, "*M8 1.75a6.25 6.25 0 0 0 0 12.5z"],
  help: [RING, "M6.2 6.3c0-2.4 3.7-2.3 3.7-.1c0 1.5-1.8 1.6-1.8 2.9M8.1 11.3v.1"],
  close: ["M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8"],
  plus: ["M8 3v10M3 8h10"],
  minus: ["M3 8h10"],
  fit: ["M2.4 6V2.4H6M10 2.4h3.6V6M13.6 10v3.6H10M6 13.6H2.4V10"],
  stop: ["*M4 4h8v8H4z"],
  file: ["M4 1.9h5.2L12.6 5.3v8.8H4z", "M9 2v3.4h3.4"],
  folder: ["M1.9 12.8V3.4h4.3l1.4 1.7h6.5v7.7z"],
  tool: [
    "M10.3 2.1a3.6 3.6 0 0 0-3.9 5L2.2 11.3l2.5 2.5l4.2-4.2a3.6 3.6 0 0 0 5-3.9L11.6 8L8 7.9L8 4.4z",
  ],
  model: ["*M8 1.6l1.6 4.8l4.8 1.6l-4.8 1.6L8 14.4l-1.6-4.8L1.6 8l4.8-1.6z"],
  wait: [
    "M4 2.2h8M4 13.8h8M4.8 2.2v2.3c0 2 2.6 2.4 2.6 3.5c0 1.1-2.6 1.5-2.6 3.5v2.3M11.2 2.2v2.3c0 2-2.6 2.4-2.6 3.5c0 1.1 2.6 1.5 2.6 3.5v2.3",
  ],
  thought: ["M3.4 10.6C.6 7 3.4 2.2 8 2.2s7.3 3.9 5.2 7c-1.5 2.3-4.2 2.6-6.1 2.3L3.3 13.4z"],
  lost: [
    "M2 2l12 12M4.9 10.4a4.4 4.4 0 0 1 5.2-.7M2.6 8a7.4 7.4 0 0 1 3-1.9M8.6 5.6a7.4 7.4 0 0 1 4.8 2.4M8 13v.1",
  ],
  bell: [
    "M8 2a3.9 3.9 0 0 0-3.9 3.9c0 3.5-1.5 4.9-1.5 4.9h10.8s-1.5-1.4-1.5-4.9A3.9 3.9 0 0 0 8 2z",
    "M6.6 13.2a1.5 1.5 0 0 0 2.8 0",
  ],
  inbox: ["M1.9 9.2l2.2-6h7.8l2.2 6v3.9H1.9z", "M2.2 9.2h3.2l1 1.6h3.2l1-1.6h3.2"],
  board: ["M2.2 3.4h5.2M2.2 8h8.6M2.2 12.6h6.6M10.4 3.4h3.4M13 8h.8M11.6 12.6h2.2"],
  live: ["*M8 4a4 4 0 1 1 0 8a4 4 0 0 1 0-8z"],
  square: ["*M4 4h8v8H4z"],
  triangle: ["*M8 3.4l5 9H3z"],
  cross: ["M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8"],
});

/** @param {string} name @returns {SVGElement} */
export function icon(name) {
  const paths = (SHAPES[name] ?? SHAPES["unknown"] ?? []).map((path) => {
    const filled = path.startsWith("*");
    return svg("path", {
      d: filled ? path.slice(1) : path,
      fill: filled ? "currentColor" : "none",
      stroke: filled ? "none" : "currentColor",
    });
  });
  return svg(
    "svg",
    {
      class: "glyph",
      viewBox: "0 0 16 16",
      "aria-hidden": "true",
      "stroke-width": 1.5,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    },
    ...paths,
  );
}

/** The statuses that have a shape and a colour. */
const SHAPED = [
  ...["pending", "running", "succeeded", "failed", "partial", "cancelled", "died"],
  "abandoned",
];
/** Statuses of turns and calls → theirs. */
const ALIASES = /** @type {Record<string, string>} */ ({
  started: "running",
  completed: "succeeded",
  skipped: "cancelled",
});

/** @param {string} status */
export function statusOf(status) {
  return ALIASES[status] ?? (SHAPED.includes(status) ? status : "unknown");
}

/**
 * A status as a shape and text. `quiet` shows the text to screen readers only.
 * @param {string} status @param {{badge?: boolean, quiet?: boolean}} [how]
 */
export function statusMark(status, { badge = false, quiet = false } = {}) {
  const shape = statusOf(status);
  return h(
    "span",
    { class: `status is-${shape}${badge ? " badge" : ""}`, title: quiet ? status : null },
    icon(status === "skipped" ? "skipped" : shape),
    h("span", { class: quiet ? "unseen" : null }, status),
  );
}

/** Text that names an agent, with the agent's swatch. @param {string} name */
export function agentMark(name) {
  return span(`agent swatch-${swatchOf(name)}`, span("cut", name));
}

const SWATCHES = 8;
/** @type {Map<string, number>} */
const swatches = new Map();

/**
 * A colour from 0 to 7, in the order in which names appear, so that the first eight names differ.
 * @param {string} name
 */
export function swatchOf(name) {
  let found = swatches.get(name);
  if (found === undefined) {
    found = swatches.size % SWATCHES;
    swatches.set(name, found);
  }
  return found;
}

/**
 * A button with only a symbol. Its name is the label and the tooltip.
 * @param {string} symbol @param {string} name @param {(event: MouseEvent) => void} click
 * @param {string} [className]
 */
export function iconButton(symbol, name, click, className = "quiet") {
  return button(
    click,
    { class: `icon ${className}`, "aria-label": name, title: name },
    icon(symbol),
  );
}

/**
 * A link that looks like a button.
 * @param {string} href @param {string} symbol @param {string} label @param {string} title
 * @param {boolean} [download]
 */
export function linkTo(href, symbol, label, title, download = false) {
  return h("a", { class: "button", href, title, download }, icon(symbol), label);
}
