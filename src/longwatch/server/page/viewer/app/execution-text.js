/**
 * The state of an execution as text. Conditions that depend on the clock are computed here, by the rules of
 * `longwatch executions explain`, so that they hold without a new record.
 */

import { countText, elapsedText } from "./format.js";

/** @import { Condition, Eta, ExecutionLine } from "./types.js" */

const UNWATCHED_AFTER_MS = 3 * 60_000;
const LONGEST_LEASE_MS = 10 * 60_000;
const UNREACHABLE_AFTER = 3; // polls in a row without a response
const CLOCK_CONDITIONS = ["unwatched", "overdue", "silent"];

/**
 * The terms of a source for the parts of an execution. The JSON fields have the terms of DRS for every source.
 * @typedef {{stage: string, item: string, step: string, done: string}} Terms
 */

const TERMS = {
  drs: { stage: "wave", item: "server", step: "launch action", done: "launched" },
  other: { stage: "stage", item: "item", step: "step", done: "done" },
};

/** @param {string} source @returns {Terms} */
export const termsOf = (source) => (source === "drs" ? TERMS.drs : TERMS.other);

/** @param {ExecutionLine} execution */
export const isOpen = (execution) => execution.ended_at === null && !execution.closed;

/**
 * The conditions of an open execution, the most severe first.
 * @param {ExecutionLine} execution @param {number} now @returns {Condition[]}
 */
export function conditionsOf(execution, now) {
  if (!isOpen(execution)) return [];
  const found = [];
  const {
    next_poll_at: next,
    deadline_at: deadline,
    silent_at: silent,
    failures,
    last_change_at: changed,
    started_at: started,
  } = execution;
  const waited = next === null ? 0 : now - next;
  if (waited > UNWATCHED_AFTER_MS)
    found.push({
      name: "unwatched",
      message: `poll overdue by ${roundedText(waited)}; is longwatch executions watch, or a poller, running?`,
    });
  found.push(...execution.conditions.filter(({ name }) => !CLOCK_CONDITIONS.includes(name)));
  if (deadline !== null && now >= deadline)
    found.push({
      name: "overdue",
      message: `past its deadline by ${roundedText(now - deadline)}; polling continues`,
    });
  if (silent !== null && now > silent && failures < UNREACHABLE_AFTER)
    found.push({
      name: "silent",
      message: `nothing new for ${roundedText(now - Math.max(changed ?? 0, started))}`,
    });
  return found;
}

/**
 * The time left, or the text of an ETA without a range.
 * @param {Eta | null} eta @param {number} now
 */
export function etaText(eta, now) {
  if (!eta) return "";
  const { earliest_at: low, latest_at: high } = eta;
  if (low === null || high === null) return eta.text;
  if (high <= now) return "should have ended by now";
  if (low <= now) return `at most ${elapsedText(high - now)} to go`;
  const [soonest, latest] = [roundedText(low - now), roundedText(high - now)];
  return soonest === latest ? `about ${latest} to go` : `${soonest} – ${latest} to go`;
}

/**
 * How it ended: `succeeded with 2 warnings, late`.
 * @param {Pick<ExecutionLine, "status" | "warning_count" | "late">} execution
 */
export function endingText({ status, warning_count: warnings, late }) {
  return `${status}${warnings ? ` with ${countText(warnings, "warning")}` : ""}${late ? ", late" : ""}`;
}

/**
 * The next poll. While a poller holds the lease, a poll is in progress.
 * @param {ExecutionLine} execution @param {number} now
 */
export function nextPollText(execution, now) {
  const { next_poll_at: at } = execution;
  if (at === null) return "";
  if (isLeased(execution, now)) return "poll in progress";
  if (at > now) return `next poll in ${elapsedText(at - now)}`;
  return now - at < 2000 ? "next poll now" : `poll overdue by ${elapsedText(now - at)}`;
}

/**
 * The poller that holds the lease, and until when.
 * @param {ExecutionLine} execution @param {number} now
 */
export function leaseText(execution, now) {
  const { lease_holder: holder, lease_until: until } = execution;
  if (holder === null || until === null) return "none";
  if (isLeased(execution, now)) return `${holder}, expires in ${elapsedText(until - now)}`;
  return until > now
    ? `${holder}, ignored: it expires too far ahead for a correct clock`
    : `expired ${elapsedText(now - until)} ago: ${holder} did not release it`;
}

/** @param {ExecutionLine} execution @param {number} now */
function isLeased({ lease_holder: holder, lease_until: until }, now) {
  return holder !== null && until !== null && now < until && until <= now + LONGEST_LEASE_MS;
}

/** @param {number} ms */
export function roundedText(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
