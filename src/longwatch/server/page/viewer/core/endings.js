/** Which event says what a run is, and which one says how it ended. The same tables and rules as in Python. */

import { compareOrders, orderOf } from "./order.js";
import { errorTextOf, numberOf, payloadOf, saysSomething, textOf } from "./payloads.js";

/** @import { Order, WireEvent } from "./order.js" */

/**
 * `died`: every process that worked on the run is gone, and none reported an outcome.
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

/** Event type → how the run ended, unless the event itself says more. */
export const ENDS = new Map(
  /** @type {[string, Status][]} */ ([
    ["workflow_complete", "succeeded"],
    ["workflow_error", "failed"],
    ["AGENT_BACKGROUND_TASK_COMPLETED", "succeeded"],
    ["AGENT_BACKGROUND_TASK_FAILED", "failed"],
    ["AGENT_ENTRYPOINT_FAILED", "failed"],
    ["SESSION_SUCCEEDED", "succeeded"],
    ["SESSION_FAILED", "failed"],
    ["SESSION_UNCONFIRMED", "unknown"],
    ["turn_completed", "succeeded"],
    ["turn_failed", "failed"],
    ["turn_cancelled", "cancelled"],
    ["turn_corrected", "unknown"],
    ["execution_ended", "unknown"],
    ["execution_corrected", "unknown"],
    ["execution_closed", "unknown"],
    ["watch_stopped", "unknown"],
  ]),
);

/** Terminal events that say what an earlier one had wrong. */
const CORRECTIONS = new Set(["execution_corrected", "execution_closed", "turn_corrected"]);

/** Words of other producers, translated at the door. */
export const STATUS_WORDS = new Map(
  /** @type {[string, Status][]} */ ([
    ["completed", "succeeded"],
    ["complete", "succeeded"],
    ["success", "succeeded"],
    ["succeeded", "succeeded"],
    ["partial", "partial"],
    ["failed", "failed"],
    ["failure", "failed"],
    ["error", "failed"],
    ["interrupted", "cancelled"],
    ["cancelled", "cancelled"],
    ["canceled", "cancelled"],
    ["died", "died"],
    ["unknown", "unknown"],
  ]),
);

/** The type of what stands for a stored event that cannot be decoded. */
export const UNREADABLE = "unreadable_event";

/** Types that observers of a run write, not its work: never a sign of activity. */
export const OBSERVER_TYPES = new Set([
  ...["notified", "late_batch", "producer_closed", "operator_note"],
  UNREADABLE,
  ...["execution_closed", "watch_stopped", "wave_added", "wave_count_set"], // decisions of operators
]);

const PRODUCER_DEAD = "producer_dead"; // error code of a death in journals of before

/** @type {Partial<Record<Status, number>>} */
const PRECEDENCE = { succeeded: 4, partial: 3, failed: 2, cancelled: 1, unknown: 0, died: -1 };

const SESSION_PREFIXES = ["SESSION_", "AGENT_", "TASK_"];

/** Types that only occur in runs of one kind → that kind. */
const KINDS = new Map([
  ["conversation_added", "project"],
  ["turn_added", "conversation"],
  ["turn_numbered", "conversation"],
  ["turn_started", "turn"],
  ["turn_line", "turn"],
  ["turn_result", "turn"],
  ["turn_end_claimed", "turn"],
  ["block", "turn"],
  ["turn_completed", "turn"],
  ["turn_failed", "turn"],
  ["turn_cancelled", "turn"],
  ["turn_corrected", "turn"],
  ["job_transition", "execution"],
  ["server_transition", "execution"],
  ["action_transition", "execution"],
  ["execution_asked", "execution"],
  ["execution_ended", "execution"],
  ["execution_corrected", "execution"],
  ["execution_closed", "execution"],
  ["watch_stopped", "execution"],
  ["wave_added", "execution"],
  ["wave_count_set", "execution"],
]);

/**
 * @typedef {object} Ending
 * @property {Status} status
 * @property {Order} order
 * @property {boolean} ownWord False: written for a producer that did not say it itself.
 * @property {string | null} error
 * @property {boolean} correction True: later truth, whatever was said before.
 * @property {string | null} attempt The attempt that it ends, if the event names it.
 * @property {ReadonlySet<string> | null} processes Of `died`: ids of those that are gone; null covers all.
 * @property {number | null} notBefore Of an ending whose order is a place and not a time, as that of `died`.
 * @property {number | null} notAfter
 * @property {number} [warnings] How many the event lists.
 *
 * @typedef {object} Origin
 * @property {boolean} inferred True: no start event seen yet, guessed from another one.
 * @property {Order} order
 * @property {string} kind
 * @property {string | null} name
 * @property {string | null} parentRunId
 */

/**
 * The ending that this event states, if it is a terminal one. An unreadable event states the ending that is stored
 * with the run: it may have been that event's own.
 * @param {WireEvent} event
 * @returns {Ending | null}
 */
export function endingOf(event) {
  const usual = ENDS.get(event.type);
  if (usual === undefined)
    return event.type === UNREADABLE ? keptEnding(payloadOf(event)["ending"]) : null;
  const said = payloadOf(event);
  const word = textOf(said, "status");
  const isDead = textOf(said, "error_code") === PRODUCER_DEAD;
  const status = isDead ? "died" : (word !== null && STATUS_WORDS.get(word.toLowerCase())) || usual;
  const stated = {
    status,
    order: orderOf(event),
    error: errorTextOf(said),
    attempt: attemptNamed(event),
  };
  if (status === "died")
    return {
      ...stated,
      ...deathOf(said, Math.max(0, orderOf(event)[0] - 1)),
      ownWord: false,
      correction: false,
    };
  return {
    ...stated,
    ownWord: !saysSomething(said["written_for"]),
    correction: CORRECTIONS.has(event.type),
    processes: null,
    notBefore: null,
    notAfter: null,
    warnings: Array.isArray(said["warnings"]) ? said["warnings"].length : 0,
  };
}

/**
 * The attempt that an event names. Of a session it is the execution of its state machine.
 * @param {WireEvent} event
 */
export function attemptNamed(event) {
  const said = payloadOf(event);
  const isSession = SESSION_PREFIXES.some((prefix) => event.type.startsWith(prefix));
  return textOf(said, "attempt") ?? (isSession ? textOf(said, "execution") : null);
}

/**
 * The ending that the journal has put into an unreadable event; null for anything else.
 * @param {any} kept
 * @returns {Ending | null}
 */
function keptEnding(kept) {
  if (typeof kept !== "object" || kept === null || Array.isArray(kept)) return null;
  const { status, order } = kept;
  if (!(status in PRECEDENCE) || !isOrder(order)) return null;
  return {
    status,
    order,
    ...deathOf(kept),
    ownWord: kept["own_word"] === true,
    error: textOf(kept, "error"),
    correction: kept["correction"] === true,
    attempt: textOf(kept, "attempt"),
    warnings: Math.trunc(numberOf(kept, "warnings") ?? 0),
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
 * @param {Record<string, any>} said
 * @param {number | null} [placedAfter] Lower bound of an event that states none: it is placed just after the last activity.
 */
function deathOf(said, placedAfter = null) {
  const named = said["processes"];
  const [notBefore = null, notAfter = null] = ["not_before", "not_after"].map((name) => {
    const at = numberOf(said, name);
    return at === null ? null : Math.trunc(at);
  });
  const processes = Array.isArray(named)
    ? new Set(named.filter((each) => typeof each === "string"))
    : null;
  return { processes, notBefore: notBefore ?? placedAfter, notAfter };
}

/**
 * When the run ended, in epoch milliseconds; null if only an interval is known.
 * @param {Ending} ending
 */
export function endedAt(ending) {
  return ending.status === "died" || ending.notBefore !== null ? null : ending.order[0];
}

/**
 * Whether an event shows that the run's work is going on: what observers write does not.
 * @param {WireEvent} event
 */
export function isActivity(event) {
  if (OBSERVER_TYPES.has(event.type)) return false;
  return event.type !== "workflow_error" || endingOf(event)?.status !== "died";
}

/**
 * Whether this ending counts rather than the other: the latest correction, else a producer's own word, then the
 * better one, then the earlier.
 * @param {Ending} ending
 * @param {Ending | null} other
 */
export function endingBeats(ending, other) {
  if (other === null) return true;
  if (ending.correction !== other.correction) return ending.correction;
  if (ending.correction) return compareOrders(ending.order, other.order) > 0;
  if (ending.ownWord !== other.ownWord) return ending.ownWord;
  const ahead = (PRECEDENCE[ending.status] ?? 0) - (PRECEDENCE[other.status] ?? 0);
  return ahead !== 0 ? ahead > 0 : compareOrders(ending.order, other.order) < 0;
}

/**
 * What this event tells about where the run comes from.
 * @param {WireEvent} event
 * @returns {Origin}
 */
export function originOf(event) {
  const kind = STARTS.get(event.type);
  const order = orderOf(event);
  if (kind === undefined) {
    return { inferred: true, order, kind: guessedKind(event.type), name: null, parentRunId: null };
  }
  const said = payloadOf(event);
  return {
    inferred: false,
    order,
    kind: textOf(said, "kind") ?? kind,
    name: textOf(said, "name", "workflow_name"),
    parentRunId: textOf(said, "parent_run_id"),
  };
}

/** @param {string} type */
function guessedKind(type) {
  if (SESSION_PREFIXES.some((prefix) => type.startsWith(prefix))) return "session";
  return KINDS.get(type) ?? "workflow";
}

/**
 * Whether this origin counts rather than the other: a start rather than a guess, then the earlier.
 * @param {Origin} origin
 * @param {Origin | null} other
 */
export function originBeats(origin, other) {
  if (other === null) return true;
  if (origin.inferred !== other.inferred) return !origin.inferred;
  return compareOrders(origin.order, other.order) < 0;
}
