/** `<lw-runs>`: the list of runs, with why they are still open or why they failed. */

import { SILENT_AFTER_MS } from "../core/run-fold.js";
import { h, setText } from "./dom.js";
import { code, span } from "./markup.js";
import {
  agoText,
  conditionText,
  countText,
  dateTimeElement,
  dateTimeText,
  numberText,
  timeElement,
} from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { defineList } from "./list-view.js";
import "./notify-button.js";
import { pathOf } from "./router.js";
import { tagMarks } from "./run-labels.js";
import { endText, isOpen, lengthMs, lengthText, ranText } from "./run-times.js";
import { state } from "./placeholders.js";
import { costText, openWaitText, sumUsage, usageText } from "./usage-text.js";

/** @import { Items, Query } from "./list-model.js" */
/** @import { Group, List } from "./list-view.js" */
/** @import { Failure, Summary } from "./types.js" */

const HIDDEN_KINDS = ["project", "conversation"]; // they never end; listed only if their kind is chosen
const KINDS = ["workflow", "session", "turn", "execution", ...HIDDEN_KINDS];
const UNITS_MS = /** @type {Record<string, number>} */ ({ m: 60_000, h: 3_600_000, d: 86_400_000 });
export const STATUSES = [
  "running",
  "succeeded",
  "failed",
  "died",
  "partial",
  "cancelled",
  "unknown",
];
const FIRST_COMMAND = "longwatch run -- sleep 60";

/** @type {Items<Summary>} */
const ITEMS = {
  path: "/api/runs",
  topic: "runs",
  message: "run",
  filters: ["status", "kind", "q", "since"],
  parameters: ({ since, ...rest }) => ({ ...rest, since: since ? sinceMs(since) : undefined }),
  key: (run) => run.run_id,
  matches,
  newer: (shown, received) => {
    if (received.events < shown.events) return shown;
    const before = received.events === shown.events ? shown.conditions : [];
    return { ...received, conditions: received.conditions ?? before };
  },
  isFilteredByServer: ({ q }) => Boolean(q),
  changesSilently: isOpen, // its conditions do
};

/** @type {List<Summary>} */
const RUNS = {
  noun: "run",
  nouns: "runs",
  title: "Runs",
  actions: () => [h("lw-notify")],
  items: ITEMS,
  filters: {
    search: { label: "Search runs", placeholder: "Names, IDs, or tag:nightly error:Timeout …" },
    statuses: STATUSES,
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
  columns: [
    { label: "Run" },
    { label: "Kind" },
    { label: "Started", sort: "started", value: (run) => run.started_at },
    { label: "Duration", sort: "duration", value: lengthMs },
    { label: "Last event", sort: "last", value: (run) => run.last_event_at },
    { label: "Tokens", sort: "tokens", value: tokensOf },
    { label: "Cost", sort: "cost", value: (run) => run.usage?.cost ?? -1 },
    { label: "State" },
  ],
  groups: groupsOf,
  total: totalOf,
  known: knownValues,
  counted: "tag",
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

/** The values that the listed runs have, by field, the most frequent first. @param {readonly Summary[]} runs */
function knownValues(runs) {
  return {
    status: STATUSES.map((status) => /** @type {const} */ ([status, 0])),
    kind: KINDS.map((kind) => /** @type {const} */ ([kind, 0])),
    tag: countedValues(runs, ({ tags }) => tags),
    agent: countedValues(runs, ({ agents }) => agents),
    tool: countedValues(runs, ({ tools }) => tools),
    user: countedValues(runs, ({ user }) => (user ? [user] : [])),
    session: countedValues(runs, ({ session }) => (session ? [session] : [])),
    error: countedValues(runs, ({ failure }) =>
      failure?.error_class ? [failure.error_class] : [],
    ),
  };
}

/**
 * @param {readonly Summary[]} runs @param {(run: Summary) => readonly string[]} valuesOf
 * @returns {[value: string, count: number][]}
 */
function countedValues(runs, valuesOf) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const value of runs.flatMap(valuesOf)) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort(([one, n], [other, m]) => m - n || (one < other ? -1 : 1));
}

/** @param {Summary} run @param {Query} query */
function matches(run, { status, kind, since }) {
  if (kind ? run.kind !== kind : HIDDEN_KINDS.includes(run.kind)) return false;
  if (status && run.status !== status) return false;
  return !since || run.started_at >= sinceMs(since);
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

/** @param {Summary} run */
function tokensOf({ usage }) {
  return usage ? usage.input_tokens + usage.output_tokens : -1;
}

/** The usage of the listed runs together; empty without a model call. @param {readonly Summary[]} runs */
function totalOf(runs) {
  const usage = sumUsage(runs.map((run) => run.usage));
  return usage ? `Usage of ${countText(runs.length, "listed run")}: ${usageText(usage)}` : "";
}

/**
 * Runs that failed alike, the largest groups first.
 * @param {readonly Summary[]} runs @param {number} now @returns {Group[]}
 */
function groupsOf(runs, now) {
  /** @type {Map<string, [Summary & {failure: Failure}, ...Summary[]]>} */
  const groups = new Map();
  for (const run of runs) {
    const { failure } = run;
    if (!failure) continue;
    const group = groups.get(failure.group);
    if (group) group.push(run);
    else groups.set(failure.group, [{ ...run, failure }]);
  }
  return [...groups]
    .filter(([, alike]) => alike.length > 1)
    .sort(([, one], [, other]) => other.length - one.length)
    .map(([key, alike]) => ({ key, text: groupText(alike, now) }));
}

/**
 * `14 runs failed with FeedTimeout in fetch_prices since 09:10:00`
 * @param {[Summary & {failure: Failure}, ...Summary[]]} runs @param {number} now
 */
function groupText(runs, now) {
  const { status, failure } = runs[0];
  const since = Math.min(...runs.map((run) => run.ended_at ?? run.ended_between?.[0] ?? now));
  const verb = status === "partial" ? "ended partial" : status;
  const where = failure.call ? ` in ${failure.call}` : "";
  const error = failure.error_class ?? `“${failure.error}”`;
  return `${countText(runs.length, "run")} ${verb} with ${error}${where} since ${dateTimeText(since, now)}`;
}

/** @param {Summary} run @param {number} now */
function cells(run, now) {
  const { usage } = run;
  const all = usage?.model_calls ?? 0;
  return [
    span(
      "run-what",
      statusMark(run.status, { quiet: true }),
      h("bdi", { class: "run-name cut", title: run.name ?? run.run_id }, run.name ?? run.run_id),
      run.name ? code("cut dim", run.run_id) : null,
      run.attempts.length > 1 ? span("tag", `attempt ${run.attempts.length}`) : null,
      tagMarks(run.tags),
    ),
    span("run-kind", span("tag", run.kind)),
    span("nums run-started", dateTimeElement(run.started_at, now)),
    h("span", {
      class: "nums run-length",
      title: run.duration_between ? ranText(run.duration_between) : null,
    }),
    span(
      "run-last cut",
      h("code", {}, run.last_event_type),
      " ",
      span("dim", timeElement(run.last_event_at)),
    ),
    h(
      "span",
      { class: "nums run-tokens", title: usage ? usageText(usage) : null },
      usage?.calls_with_tokens
        ? partial(numberText(tokensOf(run)), usage.calls_with_tokens < all)
        : span("dim", usage ? "?" : "–"),
    ),
    h(
      "span",
      {
        class: `nums run-cost${usage?.cost == null ? "" : " has-cost"}`,
        title: usage ? usageText(usage) : null,
      },
      usage && usage.cost !== null
        ? partial(costText(usage.cost), usage.priced_calls < all)
        : span("dim", "–"),
    ),
    span("run-why cut", ...why(run, now)),
    run.failure ? failureLine(run.failure) : null,
  ];
}

/** A `+` marks a sum that lacks some calls. @param {string} sum @param {boolean} lacksSome */
const partial = (sum, lacksSome) => (lacksSome ? `${sum}+` : sum);

/** The first line of the error, and where it occurred. @param {Failure} failure */
function failureLine({ error, call, agent_name: agent }) {
  const where = call ? (agent && agent !== call ? `${call} of ${agent}` : call) : "";
  return h(
    "span",
    { class: "run-failure", title: where ? `${error} (in ${where})` : error },
    h("bdi", { class: "cut is-failed" }, error),
    where ? span("dim", " in ", h("bdi", {}, where)) : null,
  );
}

/** @param {HTMLElement} row @param {Summary} run @param {number} now */
function tick(row, run, now) {
  const took = row.querySelector(".run-length");
  const last = row.querySelector(".run-last time");
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
  const text = [ended, run.failure ? "" : run.error].filter(Boolean).join(" · ");
  if (text) return [h("span", { class: `is-${statusOf(status)} cut`, title: text }, text)];
  if (isOpen(run)) return [span("cut run-open")];
  return [span("dim cut", statusText(run))];
}

/** @param {Element} element @param {Summary} run @param {number} now */
function tickOpen(element, run, now) {
  // The other conditions explain more than silence does, and silence more than missing events.
  const found = run.conditions?.find(({ name }) => name !== "silent" && name !== "missing");
  const isSilent = now - run.last_event_at > SILENT_AFTER_MS;
  const silent = isSilent ? { name: "silent", message: "" } : undefined;
  const condition = found ?? silent ?? run.conditions?.find(({ name }) => name === "missing");
  const wait = condition?.name === "waiting" ? run.waiting[0] : undefined;
  const text = condition ? conditionText(condition, run.last_event_at, now) : statusText(run);
  setText(element, wait ? openWaitText(wait, now) : text);
  element.className = `cut run-open ${condition ? "is-partial" : "dim"}`;
}

/** `succeeded · 10 events · 1 agent` @param {Summary} run */
function statusText({ status, warning_count: warnings, events, failed_calls: failed, agents }) {
  const texts = [
    status,
    failed ? countText(failed, "failed call") : "",
    warnings ? countText(warnings, "warning") : "",
    countText(events, "event"),
    agents.length ? countText(agents.length, "agent") : "",
  ];
  return texts.filter(Boolean).join(" · ");
}
