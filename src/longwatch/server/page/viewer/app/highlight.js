/** Marks the words of a search in a text. */

import { h } from "./dom.js";

/** @import { Child } from "./dom.js" */

const BEFORE = 30; // characters of an excerpt before the match
const EXCERPT = 160;

/** The words of a search; each may occur anywhere. @param {string} text */
export function searchWords(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** A pattern that finds any of the words; null without one. @param {string[]} words */
export function wordPattern(words) {
  if (!words.length) return null;
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(${escaped.join("|")})`, "giu");
}

/**
 * The text with every match marked.
 * @param {string} text @param {RegExp | null} pattern of `wordPattern` @returns {Child[]}
 */
export function highlight(text, pattern) {
  if (!pattern) return [text];
  // The pattern has one group, so that every second part is a match.
  return text.split(pattern).map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}

/** The text around the first match; empty without one. @param {string} text @param {RegExp} pattern */
export function excerpt(text, pattern) {
  const at = text.search(pattern);
  if (at < 0) return "";
  const from = Math.max(0, at - BEFORE);
  const shown = text.slice(from, from + EXCERPT).replace(/\s+/g, " ");
  return `${from > 0 ? "…" : ""}${shown}${from + EXCERPT < text.length ? "…" : ""}`;
}
