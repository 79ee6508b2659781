/**
 * `<lw-runs>`: the list of runs. A row is a link, with a line that says why the run is still open.
 */

import { SILENT_AFTER_MS } from "../core/run-fold.js";
import { h, setText } from "./dom.js";
import { code, span } from "./markup.js";
import { agoText, conditionText, numberText, countText, timeElement, utcText } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { defineList } from "./list-view.js";
import { pathOf } from "./router.js";
import { endText, isOpen, lengthText, ranText } from "./run-times.js";
import { state } from "./placeholders.js";

/** @import { Items, Query } from "./list-model.js" */
/** @import { List } from "./list-view.js" */
/** @import { Summary } from "./types.js" */

const HIDDEN_KINDS = ["project", "conversation"]; // they never end; asked for by their kind only
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
  newer: (known, told) =>
    told.events >= known.events
      ? {
          ...told,
          conditions: told.conditions ?? (told.events === known.events ? known.conditions : []),
        }
      : known,
  changesSilently: isOpen, // its conditions do
};

/** @type {List<Summary>} */
const RUNS = {
  noun: "run",
  nouns: "runs",
  title: "Runs",
  items: ITEMS,
  filters: {
    search: { label: "Search runs", placeholder: "Search names and ids" },
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
  columns: ["Run", "Kind", "Agents", "Duration", "Last event", "State"],
  skeleton: 10,
  showsHint: true,
  href: pathOf,
  cells,
  tick,
  empty: () =>
    state({
      title: "No runs yet",
      text: "Record a first one: this runs a command and records it. It appears here by itself.",
      command: FIRST_COMMAND,
    }),
};

defineList("lw-runs", RUNS);

/** @param {Summary} run @param {Query} query */
function matches(run, { status, kind, text, since }) {
  if (kind ? run.kind !== kind : HIDDEN_KINDS.includes(run.kind)) return false;
  if (status && run.status !== status) return false;
  if (since && run.started_at < sinceMs(since)) return false;
  const words = text?.toLowerCase();
  return (
    !words ||
    run.run_id.toLowerCase().includes(words) ||
    (run.name ?? "").toLowerCase().includes(words)
  );
}

/**
 * A moment some time agoText, rounded to the minute so that the same question has the same address.
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
 * How the run stands in words; an open one says why it is still open, and counts on.
 * @param {Summary} run
 * @param {number} now
 */
function why(run, now) {
  const { status, ended_between } = run;
  const ended = ended_between ? endText({ status, ended_between }, now) : "";
  const said = [ended, run.error].filter(Boolean).join(" · ");
  if (said) return [h("span", { class: `is-${statusOf(status)} cut`, title: said }, said)];
  if (isOpen(run)) return [span("cut run-open")];
  return [span("dim cut", `${run.status} · ${counts(run)}`)];
}

/** @param {Element} said @param {Summary} run @param {number} now */
function tickOpen(said, run, now) {
  const found = run.conditions?.find(({ name }) => name !== "silent" && name !== "missing"); // says more than silence does
  const silent =
    now - run.last_event_at > SILENT_AFTER_MS ? { name: "silent", message: "" } : undefined;
  const condition = found ?? silent ?? run.conditions?.find(({ name }) => name === "missing");
  setText(
    said,
    condition
      ? conditionText(condition, run.last_event_at, now)
      : `open, no terminal event yet · ${counts(run)}`,
  );
  said.className = `cut run-open ${condition ? "is-partial" : "dim"}`;
}

/** @param {Summary} run */
function counts(run) {
  return `${run.warning_count ? `${countText(run.warning_count, "warning")} · ` : ""}${countText(run.events, "event")}${run.failed_calls ? ` · ${countText(run.failed_calls, "failed call")}` : ""}`;
}
