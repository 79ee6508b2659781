/** `<lw-executions>`: the list of executions, with their stages and why they are still running. */

import { find, setText } from "./dom.js";
import { code, span } from "./markup.js";
import { conditionsOf, endingText, etaText, isOpen, nextPollText } from "./execution-text.js";
import { agoText, durationText, elapsedText, timeElement } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { includesText } from "./list-model.js";
import { defineList } from "./list-view.js";
import { executionPath } from "./router.js";
import { commandLine, state } from "./placeholders.js";
import { progressText, stageStrip } from "./stage-strip.js";

/** @import { Items, Query } from "./list-model.js" */
/** @import { List } from "./list-view.js" */
/** @import { ExecutionLine } from "./types.js" */

const ADD = "longwatch executions add --plan PLAN --wave NAME=JOB";
const WATCH = "longwatch executions watch";
const ABOUT =
  "An execution is work in another system: a recovery drill, a build, a job. Add a running one and let longwatch poll it. It appears here automatically.";

/** @type {Items<ExecutionLine>} */
const ITEMS = {
  path: "/api/executions",
  topic: "executions",
  message: "execution",
  filters: ["status", "mode", "source", "text"],
  key: ({ execution_id: id, plan_id: plan }) => `${id}\n${plan}`, // an id is unique within its plan
  matches,
  newer: (shown, received) => (received.version >= shown.version ? received : shown),
};

/** @type {List<ExecutionLine>} */
const EXECUTIONS = {
  noun: "execution",
  nouns: "executions",
  title: "Executions",
  items: ITEMS,
  filters: {
    search: { label: "Search executions", placeholder: "Search names, plans and IDs" },
    statuses: ["running", "succeeded", "partial", "failed", "cancelled"],
    choices: [
      {
        name: "mode",
        label: "Type",
        all: "All types",
        options: [
          ["DRILL", "Drills"],
          ["RECOVERY", "Recoveries"],
          ["JOB", "Jobs"],
        ],
      },
    ],
  },
  columns: [
    { label: "Execution" },
    { label: "Type" },
    { label: "Progress" },
    { label: "Time" },
    { label: "State" },
  ],
  skeleton: 8,
  href: executionPath,
  cells,
  tick,
  empty: (hint) => {
    const deploy = hint?.includes("Deploy ") ? hint : null;
    const commands = deploy ? [] : [commandLine(ADD), commandLine(WATCH)];
    return state(
      { symbol: "board", title: "No executions yet", text: deploy ?? ABOUT },
      ...commands,
    );
  },
};

defineList("lw-executions", EXECUTIONS);

/** @param {ExecutionLine} execution @param {Query} query */
function matches(execution, { status, mode, source, text }) {
  if (status && execution.status !== status) return false;
  if (mode && execution.mode !== mode) return false;
  if (source && execution.source !== source) return false;
  return includesText([execution.execution_id, execution.plan_id, execution.name], text);
}

/** @param {ExecutionLine} execution */
function cells(execution) {
  return [
    span(
      "execution-what",
      statusMark(execution.status, { quiet: true }),
      span("execution-name cut", execution.name ?? execution.plan_id),
      code("cut dim", execution.execution_id),
    ),
    span(
      "execution-type",
      span(`tag mode-${execution.mode}`, execution.mode),
      span("dim cut", execution.source),
    ),
    span(
      "execution-progress",
      stageStrip(execution),
      span("dim cut nums", progressText(execution)),
    ),
    span("execution-time nums", span("took"), span("dim", timeElement(execution.started_at))),
    span("execution-why", span("cut first"), span("cut dim nums second")),
  ];
}

/** @param {HTMLElement} row @param {ExecutionLine} execution @param {number} now */
function tick(row, execution, now) {
  const { started_at: started, ended_at: ended } = execution;
  const [took, begun, first, second] = [".took", "time", ".first", ".second"].map((selector) =>
    find(row, selector),
  );
  if (!took || !begun || !first || !second) return;
  setText(took, ended === null ? elapsedText(now - started) : durationText(ended - started));
  setText(begun, agoText(started, now));
  const [className, why, more] = stateTexts(execution, now);
  first.className = `cut first ${className}`;
  setText(first, why);
  first.title = why;
  setText(second, more);
  second.title = more;
}

/**
 * The state of an execution: a class, the main text and the text below it.
 * @param {ExecutionLine} execution @param {number} now @returns {[string, string, string]}
 */
function stateTexts(execution, now) {
  if (execution.ended_at !== null) {
    return [`is-${statusOf(execution.status)}`, endingText(execution), execution.message ?? ""];
  }
  if (!isOpen(execution)) return ["dim", "managed by another program", ""];
  // The ETA comes first: it shows whether a condition matters.
  const [condition] = conditionsOf(execution, now);
  const eta = etaText(execution.eta, now);
  const waiting = `waiting for ${execution.waiting_for ?? "its end"}`;
  const why = condition ? `${condition.name}: ${condition.message}` : waiting;
  const more = [condition ? waiting : "", nextPollText(execution, now)].filter(Boolean).join(" · ");
  return [condition ? "is-partial" : "", [eta, why].filter(Boolean).join(" · "), more];
}
