/**
 * One execution as a row of the board: a link, with its waves, and a line that says why it is still running.
 */

import { fill, h, say } from "./dom.js";
import { conditionsAt, endingText, etaText, isOpen, nextPoll } from "./execution-words.js";
import { ago, isoTime, length, ticking } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { executionPath } from "./router.js";
import { progressText, waveStrip } from "./wave-strip.js";

/** @typedef {import("./types.js").ExecutionLine} ExecutionLine */

/** @type {WeakMap<HTMLElement, ExecutionLine>} */
const shown = new WeakMap();

/**
 * @param {ExecutionLine} execution
 * @param {number} now
 */
export function executionRow(execution, now) {
  const row = h("li", {}, h("a", { class: "execution-row", href: executionPath(execution) }));
  updateRow(row, execution, now);
  return row;
}

/**
 * @param {HTMLElement} row
 * @param {ExecutionLine} execution
 * @param {number} now
 */
export function updateRow(row, execution, now) {
  if (shown.get(row) === execution) return;
  shown.set(row, execution);
  const utc = isoTime(execution.started_at);
  fill(
    /** @type {HTMLElement} */ (row.firstElementChild),
    h(
      "span",
      { class: "execution-what" },
      statusMark(execution.status, { quiet: true }),
      h("span", { class: "execution-name cut" }, execution.name ?? execution.plan_id),
      h("code", { class: "cut dim" }, execution.execution_id),
    ),
    h("span", { class: "execution-type" }, h("span", { class: `tag mode-${execution.mode}` }, execution.mode), h("span", { class: "dim cut" }, execution.source)),
    h("span", { class: "execution-waves" }, waveStrip(execution), h("span", { class: "dim cut nums" }, progressText(execution))),
    h("span", { class: "execution-time nums" }, h("span", { class: "took" }), h("time", { class: "dim", datetime: utc, title: `started ${utc} (UTC)` })),
    h("span", { class: "execution-why" }, h("span", { class: "cut first" }), h("span", { class: "cut dim nums second" })),
  );
  tickRow(row, now);
}

/**
 * Only the texts that count: nothing is made anew.
 * @param {HTMLElement} row
 * @param {number} now
 */
export function tickRow(row, now) {
  const execution = shown.get(row);
  if (!execution) return;
  const { started_at: started, ended_at: ended } = execution;
  const [took, begun, first, second] = [".took", "time", ".first", ".second"].map((name) => /** @type {HTMLElement} */ (row.querySelector(name)));
  if (!took || !begun || !first || !second) return;
  say(took, ended === null ? ticking(now - started) : length(ended - started));
  say(begun, ago(started, now));
  const [look, why, more] = state(execution, now);
  first.className = `cut first ${look}`;
  say(first, why);
  first.title = why;
  say(second, more);
  second.title = more;
}

/**
 * How it stands: a look, why, and what else there is to know.
 * @param {ExecutionLine} execution
 * @param {number} now
 * @returns {[string, string, string]}
 */
function state(execution, now) {
  if (execution.ended_at !== null) {
    return [`is-${statusOf(execution.status)}`, endingText(execution), execution.message ?? ""];
  }
  if (!isOpen(execution)) return ["dim", "kept by another program", ""];
  // What is usual comes first: it tells whether a condition is worth a worry.
  const [condition] = conditionsAt(execution, now);
  const eta = etaText(execution.eta, now);
  const waits = `waiting for ${execution.waiting_for ?? "its end"}`;
  const said = condition ? `${condition.name}: ${condition.message}` : waits;
  const more = [condition ? waits : "", nextPoll(execution, now)].filter(Boolean).join(" · ");
  return [condition ? "is-partial" : "", [eta, said].filter(Boolean).join(" · "), more];
}
