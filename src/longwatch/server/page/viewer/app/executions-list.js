/**
 * `<lw-executions>`: the list of executions. A row is a link, with its stages, and a line that says why it still runs.
 */

import { setText } from "./dom.js";
import { code, span } from "./markup.js";
import { conditionsOf, endingText, etaText, isOpen, nextPollText } from "./execution-text.js";
import { agoText, durationText, elapsedText, timeElement } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
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
  "An execution is work that runs in another system: a recovery drill, a build, a job. Add one that is under way, and let longwatch ask about it. It appears here by itself.";

/** @type {Items<ExecutionLine>} */
const ITEMS = {
  path: "/api/executions",
  topic: "executions",
  message: "execution",
  filters: ["status", "mode", "source", "text"],
  key: ({ execution_id: id, plan_id: plan }) => `${id}\n${plan}`, // an id is one of its plan's
  matches,
  newer: (known, told) => (told.version >= known.version ? told : known),
};

/** @type {List<ExecutionLine>} */
const EXECUTIONS = {
  noun: "execution",
  nouns: "executions",
  title: "Executions",
  items: ITEMS,
  filters: {
    search: { label: "Search executions", placeholder: "Search names, plans and ids" },
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
  columns: ["Execution", "Type", "Progress", "Time", "State"],
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
  const words = text?.toLowerCase();
  return (
    !words ||
    [execution.execution_id, execution.plan_id, execution.name ?? ""].some((name) =>
      name.toLowerCase().includes(words),
    )
  );
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
  const [took, begun, first, second] = [".took", "time", ".first", ".second"].map(
    (name) => /** @type {HTMLElement} */ (row.querySelector(name)),
  );
  if (!took || !begun || !first || !second) return;
  setText(took, ended === null ? elapsedText(now - started) : durationText(ended - started));
  setText(begun, agoText(started, now));
  const [look, why, more] = standing(execution, now);
  first.className = `cut first ${look}`;
  setText(first, why);
  first.title = why;
  setText(second, more);
  second.title = more;
}

/**
 * How it stands: a look, why, and what else there is to know.
 * @param {ExecutionLine} execution
 * @param {number} now
 * @returns {[string, string, string]}
 */
function standing(execution, now) {
  if (execution.ended_at !== null) {
    return [`is-${statusOf(execution.status)}`, endingText(execution), execution.message ?? ""];
  }
  if (!isOpen(execution)) return ["dim", "kept by another program", ""];
  // What is usual comes first: it tells whether a condition is worth a worry.
  const [condition] = conditionsOf(execution, now);
  const eta = etaText(execution.eta, now);
  const waits = `waiting for ${execution.waiting_for ?? "its end"}`;
  const said = condition ? `${condition.name}: ${condition.message}` : waits;
  const more = [condition ? waits : "", nextPollText(execution, now)].filter(Boolean).join(" · ");
  return [condition ? "is-partial" : "", [eta, said].filter(Boolean).join(" · "), more];
}
