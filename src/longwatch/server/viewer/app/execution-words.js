/**
 * Why an execution stands as it does, in a line. What depends on the clock alone is worked out here, by the rules of
 * `longwatch executions explain`, so that it is true though nothing was written.
 */

import { counted, ticking } from "./format.js";

/** @typedef {import("./types.js").Condition} Condition */
/** @typedef {import("./types.js").ExecutionLine} ExecutionLine */

const SILENT_AFTER_MS = 10 * 60_000;
const UNWATCHED_AFTER_MS = 3 * 60_000;
const UNREACHABLE_AFTER = 3; // polls in a row without an answer
const BY_THE_CLOCK = ["unwatched", "overdue", "silent"];

/** @param {ExecutionLine} execution */
export const isOpen = (execution) => execution.ended_at === null && !execution.closed;

/**
 * Everything that is to be said of an open execution, the gravest first.
 * @param {ExecutionLine} execution
 * @param {number} now
 * @returns {Condition[]}
 */
export function conditionsAt(execution, now) {
  if (!isOpen(execution)) return [];
  const found = [];
  const { next_poll_at: next, deadline_at: deadline, failures, last_change_at: changed, started_at: started } = execution;
  const waited = next === null ? 0 : now - next;
  if (waited > UNWATCHED_AFTER_MS) found.push({ name: "unwatched", message: `nobody has asked for ${rounded(waited)} beyond its time. Is longwatch executions watch, or a poller, running?` });
  found.push(...execution.conditions.filter(({ name }) => !BY_THE_CLOCK.includes(name)));
  if (deadline !== null && now >= deadline) found.push({ name: "overdue", message: `past its deadline for ${rounded(now - deadline)}; it is asked about on` });
  const quiet = now - Math.max(changed ?? 0, started);
  if (quiet > SILENT_AFTER_MS && failures < UNREACHABLE_AFTER) found.push({ name: "silent", message: `nothing new for ${rounded(quiet)}` });
  return found;
}

/**
 * What an open execution waits for.
 * @param {ExecutionLine} execution
 */
export function waitingFor(execution) {
  const { progress, total_waves: total, servers, servers_ended: ended } = execution;
  if (!servers) return "no server is listed yet";
  if (ended < servers) return `waiting for ${servers - ended} of ${counted(servers, "server")}`;
  if (total === null) return "nobody has said whether more waves come";
  if (progress.length < total) return `waiting for wave ${progress.length + 1} of ${total}`;
  return execution.mode === "RECOVERY" ? "waiting for launch actions" : "all servers have ended, its jobs have not";
}

/**
 * When it will probably have ended, or what its past says.
 * @param {import("./types.js").Eta | null} eta
 * @param {number} now
 */
export function etaText(eta, now) {
  if (!eta) return "";
  const { earliest_at: low, latest_at: high } = eta;
  if (low === null || high === null) return eta.text;
  if (high <= now) return "should have ended by now";
  if (low <= now) return `at most ${ticking(high - now)} to go`;
  const [soonest, latest] = [rounded(low - now), rounded(high - now)];
  return soonest === latest ? `about ${latest} to go` : `${soonest} – ${latest} to go`;
}

/**
 * How it ended: `succeeded with 2 warnings, late`.
 * @param {Pick<ExecutionLine, "status" | "warning_count" | "late">} execution
 */
export function endingText({ status, warning_count: warnings, late }) {
  return `${status}${warnings ? ` with ${counted(warnings, "warning")}` : ""}${late ? ", late" : ""}`;
}

/**
 * When somebody asks next.
 * @param {number | null} at
 * @param {number} now
 */
export function nextLook(at, now) {
  if (at === null) return "";
  return at > now ? `next look in ${ticking(at - now)}` : now - at < 2000 ? "next look now" : `a look is due since ${ticking(now - at)}`;
}

/** @param {number} ms */
export function rounded(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
