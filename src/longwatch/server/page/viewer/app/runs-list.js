/** `<lw-runs>`: the list of runs, with why they are still open. */

import { SILENT_AFTER_MS } from "../core/run-fold.js";
import { h, setText } from "./dom.js";
import { code, span } from "./markup.js";
import { agoText, conditionText, countText, numberText, timeElement, utcText } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { includesText } from "./list-model.js";
import { defineList } from "./list-view.js";
import { pathOf } from "./router.js";
import { endText, isOpen, lengthText, ranText } from "./run-times.js";
import { state } from "./placeholders.js";
import { openWaitText, usageBrief, usageText } from "./usage-text.js";

/** @import { Items, Query } from "./list-model.js" */
/** @import { List } from "./list-view.js" */
/** @import { Summary } from "./types.js" */

const HIDDEN_KINDS = ["project", "conversation"]; // they never end; listed only if their kind is chosen
const KINDS = ["workflow", "session", "turn", "execution", ...HIDDEN_KINDS];
const UNITS_MS = /** @type {Record<string, number>} */ ({ m: 60_000, h: 3_600_000, d: 86_400_000 });
const FIRST_COMMAND = "longwatch run -- sleep 60";

/** @type {Items<Summary>} */
const ITEMS = {
  path: "/api/runs",
  topic: "runs",
  message: "run",
  filters: ["status", "kind", "text", "since"],
  parameters: ({ since, ...rest }) => ({ ...rest, since: since ? sinceMs(since) : undefined }),
  key: (run) => run.run_id,
  matches,
  newer: (shown, received) => {
    if (received.events < shown.events) return shown;
    const before = received.events === shown.events ? shown.conditions : [];
    return { ...received, conditions: received.conditions ?? before };
  },
  changesSilently: isOpen, // its conditions do
};

/** @type {List<Summary>} */
const RUNS = {
  noun: "run",
  nouns: "runs",
  title: "Runs",
  items: ITEMS,
  filters: {
    search: { label: "Search runs", placeholder: "Search names and IDs" },
    statuses: ["running", "succeeded", "failed", "died", "partial", "cancelled", "unknown"],
    choices: [
      { name: "kind", label: "Kind", all: "All kinds", options: KINDS.map((kind) => [kind, kind]) },
      {
        name: "since",
        label: "Time",
        all: "Any time",
        options: [
          ["1h", "Last hour"],
          ["24h", "Last 24 hours"],
          ["7d", "Last 7 days"],
          ["30d", "Last 30 days"],
        ],
      },
    ],
  },
  columns: ["Run", "Kind", "Agents", "Duration", "Usage", "Last event", "State"],
  skeleton: 10,
  showsHint: true,
  href: pathOf,
  cells,
  tick,
  empty: () =>
    state({
      title: "No runs yet",
      text: "Record your first run with this command. It appears here automatically.",
      command: FIRST_COMMAND,
    }),
};

defineList("lw-runs", RUNS);

/** @param {Summary} run @param {Query} query */
function matches(run, { status, kind, text, since }) {
  if (kind ? run.kind !== kind : HIDDEN_KINDS.includes(run.kind)) return false;
  if (status && run.status !== status) return false;
  if (since && run.started_at < sinceMs(since)) return false;
  return includesText([run.run_id, run.name], text);
}

/**
 * A time in the past, rounded to the minute so that the same query has the same URL.
 * @param {string} text such as `1h` or `7d`, or epoch milliseconds
 */
function sinceMs(text) {
  const found = /^(\d+)([mhd])$/.exec(text);
  if (!found) return Number(text) || 0;
  const ms = Date.now() - Number(found[1]) * (UNITS_MS[found[2] ?? ""] ?? 0);
  return Math.floor(ms / 60_000) * 60_000;
}

/** @param {Summary} run @param {number} now */
function cells(run, now) {
  return [
    span(
      "run-what",
      statusMark(run.status, { quiet: true }),
      span("run-name cut", run.name ?? run.run_id),
      run.name ? code("cut dim", run.run_id) : null,
      run.attempts.length > 1 ? span("tag", `attempt ${run.attempts.length}`) : null,
    ),
    span("run-kind", span("tag", run.kind)),
    h(
      "span",
      { class: "nums run-agents", title: run.agents.join(", ") },
      run.agents.length ? numberText(run.agents.length) : "–",
      span("unit", run.agents.length === 1 ? " agent" : " agents"),
    ),
    h("span", {
      class: "nums run-length",
      title: `${run.duration_between ? `${ranText(run.duration_between)}, ` : ""}started ${utcText(run.started_at)}`,
    }),
    h(
      "span",
      { class: "nums run-usage cut", title: run.usage ? usageText(run.usage) : null },
      run.usage ? usageBrief(run.usage) : span("dim", "–"),
    ),
    span(
      "run-last cut",
      h("code", {}, run.last_event_type),
      " ",
      span("dim", timeElement(run.last_event_at)),
    ),
    span("run-why cut", ...why(run, now)),
  ];
}

/** @param {HTMLElement} row @param {Summary} run @param {number} now */
function tick(row, run, now) {
  const took = row.querySelector(".run-length");
  const last = row.querySelector("time");
  if (took) setText(took, lengthText(run, now));
  if (last) setText(last, agoText(run.last_event_at, now));
  const open = row.querySelector(".run-open");
  if (open) tickOpen(open, run, now);
}

/**
 * The state of the run as text; for an open one, why it is still open.
 * @param {Summary} run @param {number} now
 */
function why(run, now) {
  const { status, ended_between } = run;
  const ended = ended_between ? endText({ status, ended_between }, now) : "";
  const text = [ended, run.error].filter(Boolean).join(" · ");
  if (text) return [h("span", { class: `is-${statusOf(status)} cut`, title: text }, text)];
  if (isOpen(run)) return [span("cut run-open")];
  return [span("dim cut", `${run.status} · ${counts(run)}`)];
}

/** @param {Element} element @param {Summary} run @param {number} now */
function tickOpen(element, run, now) {
  // The other conditions explain more than silence does, and silence more than missing events.
  const found = run.conditions?.find(({ name }) => name !== "silent" && name !== "missing");
  const isSilent = now - run.last_event_at > SILENT_AFTER_MS;
  const silent = isSilent ? { name: "silent", message: "" } : undefined;
  const condition = found ?? silent ?? run.conditions?.find(({ name }) => name === "missing");
  const open = `open, no terminal event yet · ${counts(run)}`;
  const wait = condition?.name === "waiting" ? run.waiting[0] : undefined;
  const text = condition ? conditionText(condition, run.last_event_at, now) : open;
  setText(element, wait ? openWaitText(wait, now) : text);
  element.className = `cut run-open ${condition ? "is-partial" : "dim"}`;
}

/** @param {Summary} run */
function counts({ warning_count: warnings, events, failed_calls: failed }) {
  const texts = [
    warnings ? countText(warnings, "warning") : "",
    countText(events, "event"),
    failed ? countText(failed, "failed call") : "",
  ];
  return texts.filter(Boolean).join(" · ");
}
