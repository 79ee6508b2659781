/**
 * One run as a row of the list: a link, with a line that says why it is still open.
 */

import { SILENT_AFTER_MS } from "../core/run-fold.js";
import { fill, h, say } from "./dom.js";
import { ago, conditionText, count, counted, isoTime } from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { pathOf } from "./router.js";
import { endText, isOpen, lengthText, ranText } from "./run-times.js";

/** @typedef {import("./types.js").Summary} Summary */

/** @type {WeakMap<HTMLElement, Summary>} */
const shown = new WeakMap();

/**
 * @param {Summary} run
 * @param {number} now
 */
export function runRow(run, now) {
  const row = h("li", {}, h("a", { class: "run-row", href: pathOf(run) }));
  updateRow(row, run, now);
  return row;
}

/**
 * @param {HTMLElement} row
 * @param {Summary} run
 * @param {number} now
 */
export function updateRow(row, run, now) {
  if (shown.get(row) === run) return;
  shown.set(row, run);
  const link = /** @type {HTMLElement} */ (row.firstElementChild);
  const utc = isoTime(run.started_at);
  fill(
    link,
    h("span", { class: "run-what" }, statusMark(run.status, { quiet: true }), h("span", { class: "run-name cut" }, run.name ?? run.run_id), run.name ? h("code", { class: "cut dim" }, run.run_id) : null, run.attempts.length > 1 ? h("span", { class: "tag" }, `attempt ${run.attempts.length}`) : null),
    h("span", { class: "run-kind" }, h("span", { class: "tag" }, run.kind)),
    h("span", { class: "nums run-agents", title: run.agents.join(", ") }, run.agents.length ? count(run.agents.length) : "–", h("span", { class: "unit" }, run.agents.length === 1 ? " agent" : " agents")),
    h("span", { class: "nums run-length", title: `${run.duration_between ? `${ranText(run.duration_between)}, ` : ""}started ${utc} (UTC)` }),
    h("span", { class: "run-last cut" }, h("code", {}, run.last_event_type), " ", h("time", { class: "dim", datetime: isoTime(run.last_event_at), title: `${isoTime(run.last_event_at)} (UTC)` })),
    h("span", { class: "run-why cut" }, ...why(run, now)),
  );
  tickRow(row, now);
}

/**
 * Only the texts that count: nothing is made anew.
 * @param {HTMLElement} row
 * @param {number} now
 */
export function tickRow(row, now) {
  const run = shown.get(row);
  if (!run) return;
  const took = row.querySelector(".run-length");
  const last = row.querySelector("time");
  if (took) say(took, lengthText(run, now));
  if (last) say(last, ago(run.last_event_at, now));
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
  if (isOpen(run)) return [h("span", { class: "cut run-open" })];
  return [h("span", { class: "dim cut" }, `${run.status} · ${counts(run)}`)];
}

/**
 * @param {Element} said
 * @param {Summary} run
 * @param {number} now
 */
function tickOpen(said, run, now) {
  const found = run.conditions?.find(({ name }) => name !== "silent" && name !== "missing"); // says more than silence does
  const silent = now - run.last_event_at > SILENT_AFTER_MS ? { name: "silent", message: "" } : undefined;
  const condition = found ?? silent ?? run.conditions?.find(({ name }) => name === "missing");
  say(said, condition ? conditionText(condition, run.last_event_at, now) : `open, no terminal event yet · ${counts(run)}`);
  said.className = `cut run-open ${condition ? "is-partial" : "dim"}`;
}

/** @param {Summary} run */
function counts(run) {
  return `${run.warning_count ? `${counted(run.warning_count, "warning")} · ` : ""}${counted(run.events, "event")}${run.failed_calls ? ` · ${counted(run.failed_calls, "failed call")}` : ""}`;
}
