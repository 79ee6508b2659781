/** A recorded value as a tree. A level is drawn when it is opened, so that a large payload costs only what is shown. */

import { button, h } from "./dom.js";
import { div, span } from "./markup.js";

const LONGEST_TEXT = 2000;
const MOST_CHILDREN = 200;
const OPEN_CHILDREN = 30;
const PREVIEW = 60;

/**
 * @param {unknown} value
 * @param {{name?: string, open?: number}} [how] `open`: the number of levels that are open at first
 * @returns {HTMLElement}
 */
export function valueTree(value, { name, open = 2 } = {}) {
  return div("tree", branch(name, value, open));
}

/** The value as text for the clipboard. @param {unknown} value */
export function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * @param {string | undefined} name @param {unknown} value @param {number} open
 * @returns {HTMLElement}
 */
function branch(name, value, open) {
  const label = name === undefined ? null : span("key", `${name}: `);
  const tagged = taggedValue(value);
  if (tagged) return h("div", {}, label, tagged);
  if (value === null || typeof value !== "object") return h("div", {}, label, leaf(value));
  const entries = Array.isArray(value)
    ? value.map((each, at) => /** @type {[string, unknown]} */ ([String(at), each]))
    : Object.entries(value);
  const shape = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return h("div", {}, label, span("note", shape));
  const preview = span("note", ` ${shape} ${previewText(value)}`);
  const children = h("ul");
  const details = h("details", {}, h("summary", {}, label, preview), children);
  const shown = () => {
    if (!children.hasChildNodes()) list(children, entries, 0, open - 1);
  };
  details.addEventListener("toggle", shown);
  if (open > 0 && entries.length <= OPEN_CHILDREN) {
    shown();
    details.open = true;
  }
  return details;
}

/**
 * @param {HTMLElement} into @param {[string, unknown][]} entries @param {number} from
 * @param {number} open
 */
function list(into, entries, from, open) {
  const to = Math.min(entries.length, from + MOST_CHILDREN);
  for (const [name, value] of entries.slice(from, to))
    into.append(h("li", {}, branch(name, value, open)));
  if (to === entries.length) return;
  const showMore = () => {
    more.remove();
    list(into, entries, to, 0);
  };
  const more = h(
    "li",
    {},
    button(
      showMore,
      {},
      `Show ${Math.min(MOST_CHILDREN, entries.length - to)} more of ${entries.length - to}`,
    ),
  );
  into.append(more);
}

/** @param {unknown} value */
function leaf(value) {
  if (typeof value === "string") return longText(value);
  if (typeof value === "number") return span("number", value);
  return span("literal", String(value));
}

/** @param {string} text */
function longText(text) {
  const shown = span("text", text.length > LONGEST_TEXT ? text.slice(0, LONGEST_TEXT) : text);
  if (text.length <= LONGEST_TEXT) return shown;
  const showAll = () => {
    shown.textContent = text;
    all.remove();
  };
  const all = button(showAll, {}, `Show all ${text.length.toLocaleString("en")} characters`);
  return h("span", {}, shown, " ", all);
}

/**
 * Bytes and exact decimals, which JSON lacks, are tagged on the wire and shown as their values.
 * @param {unknown} value
 */
function taggedValue(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const entries = Object.entries(value);
  const [tag, content] = entries[0] ?? [];
  if (entries.length !== 1) return null;
  if (tag === "$decimal" && typeof content === "string") return span("number", content);
  if (tag === "$bytes" && typeof content === "string") {
    const size = Math.floor((content.replace(/=+$/, "").length * 3) / 4);
    return h("span", {}, span("note", `bytes (${size}) `), longText(content));
  }
  return null;
}

/** @param {object} value */
function previewText(value) {
  const parts = [];
  let room = PREVIEW;
  for (const [name, each] of Object.entries(value)) {
    const isObject = each !== null && typeof each === "object";
    const text = !isObject ? String(each).slice(0, 24) : Array.isArray(each) ? "[…]" : "{…}";
    const part = Array.isArray(value) ? text : `${name}: ${text}`;
    if (part.length > room) {
      parts.push("…");
      break;
    }
    room -= part.length + 2;
    parts.push(part);
  }
  return parts.join(", ").replace(/\s+/g, " ");
}
