/** One row of a timeline: the name of a call or of repeated calls, and its bar. */

import { ABANDONED } from "../core/calls.js";
import { barParts } from "./bar-parts.js";
import { endAt } from "./call-tree.js";
import { h } from "./dom.js";
import { durationText, numberText } from "./format.js";
import { highlight } from "./highlight.js";
import { icon, statusMark, statusOf, swatchOf } from "./icons.js";
import { div, span } from "./markup.js";
import { share } from "./time-scale.js";
import { modelCallText } from "./usage-text.js";

/** @import { Child } from "./dom.js" */
/** @import { Repeats } from "./repeats.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { TimelineFacts } from "./timeline-facts.js" */
/** @import { Row } from "./timeline-rows.js" */
/** @import { Call } from "./types.js" */

const LEAST_SHARE = 0.0015; // of the width, so that a call without a duration is visible and clickable
const LABEL_SHARE = 0.2; // of the width, which a label needs beside its bar
const GLYPHS = /** @type {Record<string, string>} */ ({ model: "model", wait: "wait" });

/**
 * @typedef {object} Chart What rows have in common.
 * @property {TimelineFacts} facts
 * @property {Stretch} view
 * @property {number} openEnd
 * @property {boolean} showsPath
 * @property {RegExp | null} pattern of the words of a search, to be marked
 * @property {(row: Row) => void} onToggle
 * @property {(call: Call) => void} onSelect
 */

/** Everything that the drawing of a row depends on, except the visible time and the search. @param {Row} row @param {Chart} chart */
export function rowKey(
  { id, call, at, depth, hasMore, isOpen, repeats, failedBelow },
  { facts, ...chart },
) {
  const grows = call.ended_at === null && !repeats ? chart.openEnd : "";
  const members = repeats ? `${repeats.members.length} ${repeats.failed} ${repeats.abandoned}` : "";
  const path = chart.showsPath && isOnPath({ at, repeats }, facts);
  const tries = facts.retries.get(at)?.number;
  const row = [id, call.status, depth, hasMore, isOpen, failedBelow, call.cost];
  return [...row, members, grows, path, tries].join("/");
}

/** @param {Row} row @param {Chart} chart */
export function drawRow(row, chart) {
  const { call, depth, hasMore, isOpen, repeats } = row;
  const path = chart.showsPath && isOnPath(row, chart.facts);
  const element = div(
    `bar-row kind-${call.kind}${path ? " on-path" : ""}`,
    h(
      "span",
      { class: "bar-name cut", style: { "--depth": Math.min(depth, DEEPEST) } },
      twist(row, chart),
      depth > DEEPEST ? span("level dim nums", `${numberText(depth)}›`) : null,
      statusMark(repeats ? repeatedStatus(repeats) : call.status, { quiet: true }),
      kindMark(call.kind),
      span("cut", ...highlight(call.name, chart.pattern)),
      ...(repeats
        ? repeatsText(repeats, belowMark(row))
        : [retryMark(row, chart), belowMark(row), span("dim took nums", took(call))]),
      path ? span("unseen", "on the critical path") : null,
    ),
    h(
      "span",
      { class: "bar-space" },
      ...(repeats ? repeatedBars(repeats, row, chart) : bar(row, chart)),
    ),
  );
  element.setAttribute("aria-level", String(depth + 1));
  if (hasMore) element.setAttribute("aria-expanded", String(isOpen));
  return element;
}

const DEEPEST = 12; // levels of indentation; a deeper row shows its level

/** The symbol of a call that is neither an agent, a tool nor a node. @param {string} kind */
export function kindMark(kind) {
  const glyph = GLYPHS[kind];
  if (!glyph) return null;
  return h("span", { class: `kind is-${kind}`, title: kind }, icon(glyph), span("unseen", kind));
}

/** @param {Row} row @param {Chart} chart */
function twist(row, { onToggle }) {
  if (!row.hasMore) return span("twist");
  const click = (/** @type {Event} */ event) => {
    event.stopPropagation();
    onToggle(row);
  };
  return h(
    "span",
    { class: "twist", "aria-hidden": "true", on: { click } },
    row.isOpen ? "▾" : "▸",
  );
}

/** @param {Call} call */
function took({ kind, status, duration_ms: ms }) {
  if (ms !== null) return durationText(ms);
  if (status === ABANDONED) return ABANDONED;
  return kind === "wait" ? "waiting" : "running";
}

/** `3 failed below`: the failures that a closed row hides, unless its own mark is one. @param {Row} row */
function belowMark({ call, isOpen, repeats, failedBelow }) {
  if (isOpen || !failedBelow || (repeats ? repeats.failed : call.status === "failed")) return null;
  const text = numberText(failedBelow);
  const title = `${text} failed below`;
  return h(
    "span",
    { class: "failed-below is-failed nums", title },
    text,
    span("", " failed below"),
  );
}

/**
 * `× 212`, `9 failed`, `1 abandoned`, `p50 1.2 s`
 * @param {Repeats} repeats @param {Child} below
 */
function repeatsText({ members, failed, abandoned, medianMs }, below) {
  return [
    span("repeat-count nums", `× ${numberText(members.length)}`),
    failed ? span("failed-count is-failed nums", `${numberText(failed)} failed`) : below,
    abandoned
      ? span("abandoned-count is-abandoned nums cut", `${numberText(abandoned)} ${ABANDONED}`)
      : null,
    medianMs === null ? null : span("dim took nums", `p50 ${durationText(medianMs)}`),
  ];
}

/** Failed if all failed, else abandoned if one is, else partial if one failed. @param {Repeats} repeats */
export function repeatedStatus({ members, failed, abandoned }) {
  if (failed === members.length) return "failed";
  if (abandoned) return ABANDONED;
  return failed ? "partial" : "completed";
}

/** `try 2`, which selects the first one. @param {Row} row @param {Chart} chart */
function retryMark({ at }, { facts, onSelect }) {
  const retry = facts.retries.get(at);
  const first = facts.tree.calls[retry?.first ?? -1];
  if (!retry || !first) return null;
  const click = (/** @type {Event} */ event) => {
    event.stopPropagation();
    onSelect(first);
  };
  const title = `Try ${retry.number} of ${first.name}; select the first one (t)`;
  return h("span", { class: "retry nums", title, on: { click } }, `try ${retry.number}`);
}

/** @param {Pick<Row, "at" | "repeats">} row @param {TimelineFacts} facts */
function isOnPath({ at, repeats }, { criticalPath }) {
  return repeats ? repeats.members.some((each) => criticalPath.has(each)) : criticalPath.has(at);
}

/** @param {Row} row @param {Chart} chart */
function bar({ call, at }, { facts, view, openEnd, pattern }) {
  const { tree, retries } = facts;
  const from = share(view, call.started_at);
  const to = Math.max(share(view, endAt(tree, at, openEnd)), from + LEAST_SHARE);
  if (to <= 0 || from >= 1) return [];
  const [left, right] = [Math.max(0, from), Math.min(1, to)];
  const title = call.status === ABANDONED ? "No end recorded" : null;
  const style = {
    ...place(left, right),
    "--first": `${firstTokenShare(call) * 100}%`,
  };
  const swatch = swatchOf(call.agent_name ?? call.name);
  const before = retries.get(at)?.before;
  return [
    before === undefined ? null : lead(share(view, endAt(tree, before, openEnd)), left),
    h("span", { class: `bar is-${statusOf(call.status)} swatch-${swatch}`, title, style }),
    label(highlight(labelText(call), pattern), left, right, call.status),
  ];
}

/** The error, what distinguishes the call, and the numbers of a model call. @param {Call} call */
function labelText(call) {
  const { error, kind, input_preview: given, output_preview: result } = call;
  if (error) return error;
  const numbers = kind === "model" ? modelCallText(call) : "";
  const previews = [given, result && `→ ${result}`].filter(Boolean).join(" ");
  return [numbers, previews].filter(Boolean).join(" · ");
}

/** The time between the end of a try and the next one. @param {number} from @param {number} to */
function lead(from, to) {
  const left = Math.max(0, from);
  return left < to ? h("span", { class: "retry-lead", style: place(left, to) }) : null;
}

/** @param {Repeats} repeats @param {Row} row @param {Chart} chart */
function repeatedBars({ members }, { call }, { facts, view, openEnd }) {
  const swatch = swatchOf(call.agent_name ?? call.name);
  return barParts(facts.tree, members, view, openEnd).map(({ from, to, hasFailed }) =>
    h("span", {
      class: `bar part is-${hasFailed ? "failed" : "succeeded"} swatch-${swatch}`,
      style: place(from, to),
    }),
  );
}

/** @param {number} from @param {number} to shares of the width */
function place(from, to) {
  return { left: `${from * 100}%`, width: `${(to - from) * 100}%` };
}

/**
 * A text on the side of the bar that has room, else inside the bar.
 * @param {Child[]} text @param {number} from @param {number} to of the bar, 0 to 1 @param {string} status
 */
function label(text, from, to, status) {
  if (!text.some(Boolean)) return null;
  const kind = `bar-label nums cut${status === "failed" ? " is-failed" : ""}`;
  if (1 - to >= LABEL_SHARE || from < LABEL_SHARE) {
    const isInside = 1 - to < LABEL_SHARE;
    const style = isInside ? place(from, to) : place(to, 1);
    return h(
      "span",
      { class: `${kind}${isInside ? " inside" : ""}`, style },
      h("span", {}, ...text),
    );
  }
  return h("span", { class: `${kind} before`, style: place(0, from) }, h("span", {}, ...text));
}

/** The part of a model call before its first token, 0 to 1. @param {Call} call */
function firstTokenShare({ time_to_first_token_ms: first, duration_ms: ms }) {
  return first && ms ? Math.min(1, first / ms) : 0;
}
