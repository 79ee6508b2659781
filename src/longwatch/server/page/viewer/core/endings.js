/** The events that start and end a run. The same tables and rules as in Python. */

import { invert } from "./groups.js";
import { compareOrders, orderOf } from "./order.js";
import { errorTextOf, isTruthy, numberOf, payloadOf, textOf } from "./payloads.js";

/** @import { Order, WireEvent } from "./order.js" */

/**
 * `died`: every process that worked on the run has exited, and none reported an outcome.
 *
 * @typedef {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} Status
 */

/** Event type → kind of run that it starts. */
export const STARTS = new Map([
  ["workflow_start", "workflow"],
  ["SESSION_INITIATED", "session"],
  ["project_added", "project"],
  ["project_created", "project"],
  ["conversation_created", "conversation"],
  ["turn_created", "turn"],
  ["execution_started", "execution"],
]);

const EXECUTION_ENDS = [
  "execution_ended",
  "execution_corrected",
  "execution_closed",
  "watch_stopped",
];

/** Event type → status of the ended run, unless the event states another one. */
export const ENDS = /** @type {Map<string, Status>} */ (
  invert({
    succeeded: [
      ...["workflow_complete", "turn_completed"],
      ...["AGENT_BACKGROUND_TASK_COMPLETED", "SESSION_SUCCEEDED"],
    ],
    failed: [
      ...["workflow_error", "turn_failed"],
      ...["AGENT_BACKGROUND_TASK_FAILED", "AGENT_ENTRYPOINT_FAILED", "SESSION_FAILED"],
    ],
    unknown: ["SESSION_UNCONFIRMED", "turn_corrected", ...EXECUTION_ENDS],
    cancelled: ["turn_cancelled"],
  })
);

/** Terminal events that correct an earlier one. */
const CORRECTIONS = new Set(["execution_corrected", "execution_closed", "turn_corrected"]);

/** Statuses of third-party producers → ours. */
export const STATUS_WORDS = /** @type {Map<string, Status>} */ (
  invert({
    succeeded: ["completed", "complete", "success", "succeeded"],
    partial: ["partial"],
    failed: ["failed", "failure", "error"],
    cancelled: ["interrupted", "cancelled", "canceled"],
    died: ["died"],
    unknown: ["unknown"],
  })
);

/** The type of the event that replaces a stored event that cannot be decoded. */
export const UNREADABLE = "unreadable_event";

/** Types written by observers of a run, not by its work: never a sign of activity. */
export const OBSERVER_TYPES = new Set([
  ...["notified", "late_batch", "producer_closed", "operator_note"],
  UNREADABLE,
  ...["execution_closed", "watch_stopped", "wave_added", "wave_count_set"], // decisions of operators
]);

const PRODUCER_DEAD = "producer_dead"; // error code of a death in older journals

/** @type {Partial<Record<Status, number>>} */
const PRECEDENCE = { succeeded: 4, partial: 3, failed: 2, cancelled: 1, unknown: 0, died: -1 };

const SESSION_PREFIXES = ["SESSION_", "AGENT_", "TASK_"];

/** Event types that occur in runs of one kind only → that kind. */
const KINDS = invert({
  project: ["conversation_added"],
  conversation: ["turn_added", "turn_numbered"],
  turn: [
    ...["turn_started", "turn_line", "turn_result", "turn_end_claimed", "block"],
    ...["turn_completed", "turn_failed", "turn_cancelled", "turn_corrected"],
  ],
  execution: [
    ...["job_transition", "server_transition", "action_transition", "execution_asked"],
    ...["wave_added", "wave_count_set", ...EXECUTION_ENDS],
  ],
});

/**
 * @typedef {object} Ending
 * @property {Status} status
 * @property {Order} order
 * @property {boolean} isOwn Whether the producer itself reported it, not an observer.
 * @property {string | null} error
 * @property {boolean} correction Whether it overrides what was reported before.
 * @property {string | null} attempt The attempt that it ends, if the event names one.
 * @property {ReadonlySet<string> | null} processes Of `died`: ids of the processes that exited; null covers all.
 * @property {number | null} notBefore Of an ending without a time of its own, such as `died`.
 * @property {number | null} notAfter
 * @property {number} [warnings] How many the event lists.
 *
 * @typedef {object} Origin
 * @property {boolean} inferred Whether it was guessed from another event than a start.
 * @property {Order} order
 * @property {string} kind
 * @property {string | null} name
 * @property {string | null} parentRunId
 */

/**
 * The ending that a terminal event states. An unreadable event states the ending stored with the run, because it may
 * have been that event's own.
 * @param {WireEvent} event @returns {Ending | null}
 */
export function endingOf(event) {
  const usual = ENDS.get(event.type);
  if (usual === undefined)
    return event.type === UNREADABLE ? storedEnding(payloadOf(event)["ending"]) : null;
  const payload = payloadOf(event);
  const hasDied = textOf(payload, "error_code") === PRODUCER_DEAD;
  const stated = STATUS_WORDS.get((textOf(payload, "status") ?? "").toLowerCase());
  const status = hasDied ? "died" : (stated ?? usual);
  const order = orderOf(event);
  const common = { status, order, error: errorTextOf(payload), attempt: attemptIdOf(event) };
  if (status === "died")
    return {
      ...common,
      ...deathOf(payload, Math.max(0, order[0] - 1)),
      isOwn: false,
      correction: false,
    };
  return {
    ...common,
    isOwn: !isTruthy(payload["written_for"]),
    correction: CORRECTIONS.has(event.type),
    processes: null,
    notBefore: null,
    notAfter: null,
    warnings: warningCount(payload),
  };
}

/**
 * How many warnings an ending has. A list that was cut ends with `… and 1,500 more`.
 * @param {Record<string, unknown>} payload
 */
export function warningCount(payload) {
  const warnings = payload["warnings"];
  if (!Array.isArray(warnings)) return 0;
  const cut = /^… and ([0-9,]{1,12}) more$/.exec(String(warnings.at(-1)));
  return cut ? warnings.length - 1 + Number(cut[1]?.replaceAll(",", "")) : warnings.length;
}

/**
 * The attempt that an event names. For a session, the execution of its state machine.
 * @param {WireEvent} event
 */
export function attemptIdOf(event) {
  const payload = payloadOf(event);
  return (
    textOf(payload, "attempt") ?? (isSession(event.type) ? textOf(payload, "execution") : null)
  );
}

/** @param {string} type */
const isSession = (type) => SESSION_PREFIXES.some((prefix) => type.startsWith(prefix));

/**
 * The ending that the journal put into an unreadable event; null for anything else.
 * @param {any} stored @returns {Ending | null}
 */
function storedEnding(stored) {
  if (typeof stored !== "object" || stored === null || Array.isArray(stored)) return null;
  const { status, order } = stored;
  if (!(status in PRECEDENCE) || !isOrder(order)) return null;
  return {
    status,
    order,
    ...deathOf(stored),
    isOwn: stored["own_word"] === true,
    error: textOf(stored, "error"),
    correction: stored["correction"] === true,
    attempt: textOf(stored, "attempt"),
    warnings: Math.trunc(numberOf(stored, "warnings") ?? 0),
  };
}

/** @param {any} order */
function isOrder(order) {
  const types = Array.isArray(order) ? order.map((part) => typeof part).join() : "";
  return (
    types === "number,string,number,string" &&
    Number.isInteger(order[0]) &&
    Number.isInteger(order[2])
  );
}

/**
 * @param {Record<string, any>} payload
 * @param {number | null} [earliest] Lower bound of an event that states none: such events sort just after the last activity.
 */
function deathOf(payload, earliest = null) {
  const named = payload["processes"];
  const [notBefore = null, notAfter = null] = ["not_before", "not_after"].map((name) => {
    const at = numberOf(payload, name);
    return at === null ? null : Math.trunc(at);
  });
  const processes = Array.isArray(named)
    ? new Set(named.filter((each) => typeof each === "string"))
    : null;
  return { processes, notBefore: notBefore ?? earliest, notAfter };
}

/**
 * The time of an ending in epoch milliseconds; null if only an interval is known.
 * @param {Ending} ending
 */
export function endedAt(ending) {
  return ending.status === "died" || ending.notBefore !== null ? null : ending.order[0];
}

/**
 * Whether an event shows that the run is making progress; events of observers do not.
 * @param {WireEvent} event
 */
export function isActivity(event) {
  if (OBSERVER_TYPES.has(event.type)) return false;
  return event.type !== "workflow_error" || endingOf(event)?.status !== "died";
}

/**
 * Whether this ending takes precedence: the latest correction, else a producer's own report, then the better status,
 * then the earlier event.
 * @param {Ending} ending @param {Ending | null} other
 */
export function endingBeats(ending, other) {
  if (other === null) return true;
  if (ending.correction !== other.correction) return ending.correction;
  if (ending.correction) return compareOrders(ending.order, other.order) > 0;
  if (ending.isOwn !== other.isOwn) return ending.isOwn;
  const ahead = (PRECEDENCE[ending.status] ?? 0) - (PRECEDENCE[other.status] ?? 0);
  return ahead !== 0 ? ahead > 0 : compareOrders(ending.order, other.order) < 0;
}

/**
 * Kind, name and parent of the run, as far as this event states them.
 * @param {WireEvent} event @returns {Origin}
 */
export function originOf(event) {
  const kind = STARTS.get(event.type);
  const order = orderOf(event);
  if (kind === undefined) {
    const guess = isSession(event.type) ? "session" : (KINDS.get(event.type) ?? "workflow");
    return { inferred: true, order, kind: guess, name: null, parentRunId: null };
  }
  const payload = payloadOf(event);
  return {
    inferred: false,
    order,
    kind: textOf(payload, "kind") ?? kind,
    name: textOf(payload, "name", "workflow_name"),
    parentRunId: textOf(payload, "parent_run_id"),
  };
}

/**
 * Whether this origin takes precedence: a start over a guess, then the earlier one.
 * @param {Origin} origin @param {Origin | null} other
 */
export function originBeats(origin, other) {
  if (other === null) return true;
  if (origin.inferred !== other.inferred) return !origin.inferred;
  return compareOrders(origin.order, other.order) < 0;
}
