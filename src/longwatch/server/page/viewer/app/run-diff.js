/** What two compared runs differ in, as text. */

import { countText, numberText } from "./format.js";

/** @import { Comparison, DiffRow } from "./types.js" */

/** `2 of 14 calls differ.` as `longwatch diff` states it. @param {Comparison} found */
export function summaryText({ rows, left_out, differing }) {
  const total = rows.length + left_out;
  if (!differing) return `${countText(total, "call")}, all alike except for their times.`;
  return `${numberText(differing)} of ${countText(total, "call")} differ.`;
}

/** `6 more calls alike.` or `48 more calls, 17 of them differ.` @param {Comparison} found */
export function leftOutText({ rows, left_out, differing }) {
  const more = countText(left_out, "more call");
  const hidden = differing - rows.filter(({ differences }) => differences.length).length;
  return hidden ? `${more}, ${numberText(hidden)} of them differ.` : `${more} alike.`;
}

/** The numbers of the rows that differ, and of their callers. @param {readonly DiffRow[]} rows */
export function differing(rows) {
  const kept = new Set();
  /** @type {number[]} */
  const path = [];
  for (const [at, { depth, differences }] of rows.entries()) {
    while (path.length && /** @type {DiffRow} */ (rows[path[path.length - 1] ?? 0]).depth >= depth)
      path.pop();
    path.push(at);
    if (differences.length) for (const each of path) kept.add(each);
  }
  return kept;
}

/** What differs, as `longwatch diff` states it. @param {DiffRow} row */
export function differenceText({ a, b, differences }) {
  if (!a || !b) {
    const error = (a ?? b)?.error;
    return `only in ${a ? "A" : "B"}${error ? `: ${error}` : ""}`;
  }
  /** @type {Record<string, string>} */
  const texts = {
    status: `${a.status} → ${b.status}`,
    error: changeText("error", a.error, b.error),
    arguments: changeText("arguments", a.input_preview, b.input_preview),
    result: changeText("result", a.output_preview, b.output_preview),
  };
  return differences.map((each) => texts[each]).join(", ");
}

/** @param {string} what @param {string | null} before @param {string | null} after */
const changeText = (what, before, after) =>
  before === after ? what : `${what}: ${before ?? "–"} → ${after ?? "–"}`;
