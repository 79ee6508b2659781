/**
 * The events of one run in order, and the state they add up to. Views watch it; events come from a server or a file. For
 * a run that was started several times it shows one attempt: the last, unless the user chooses another.
 */

import { ABANDONED } from "../core/calls.js";
import { compareEvents } from "../core/order.js";
import { payloadOf } from "../core/payloads.js";
import { SILENT_AFTER_MS, RunFold } from "../core/run-fold.js";
import { addTo } from "../core/groups.js";
import { isOpenWait } from "../core/waits.js";
import { graphOf } from "./graph-layout.js";
import { Watchable } from "./observable.js";
import { NOTIFIED } from "./notice-text.js";
import { Pace } from "./pace.js";
import { isOpen } from "./run-times.js";
import { callCost } from "./usage-text.js";

/** @import { Call, Graph, RunEvent, Summary } from "./types.js" */
/** @typedef {{reordered: boolean}} Change */

/** Conditions that the server finds by watching processes; they do not follow from the events. */
const OBSERVED = ["unattended", "undelivered", "no heartbeat"];

const AT_ONCE = 2000; // calls that are determined again for every change

/** @extends {Watchable<Change>} */
export class RunModel extends Watchable {
  /** @type {RunEvent[]} of the shown attempt, in order */
  events = [];
  /** @type {Map<string, number>} */
  agents = new Map();

  /** @type {Set<string>} ids of events that arrived after later ones */
  late = new Set();
  /** @type {Graph | null} */
  graph = null;
  /** The last event that reports a notification, and how many there are. @type {{last: RunEvent, count: number} | null} */
  notices = null;
  caughtUp = false;
  version = 0;

  /** @type {RunEvent[]} of every attempt */
  #all = [];
  /** @type {Map<string, RunEvent>} */
  #byId = new Map();
  #pace;
  #whole;
  #fold; // of the shown attempt; the same as #whole while there is only one
  /** @type {number | null} the attempt that the user chose, from 1; null for the last */
  #chosen = null;
  #dividedAt = 0; // the version of the lifecycle by which events were assigned to attempts
  /** @type {Summary | null} from the server */
  #received = null;
  /** @type {Call[] | null} */
  #calls = null;
  /** @type {Call[]} those of tools and models */
  #toolCalls = [];
  #isCurrent = false; // whether the calls have every event
  /** @type {Map<string, Call>} */
  #callById = new Map();
  /** @type {Map<string, RunEvent[]> | null} */
  #eventsByCall = null;

  /**
   * @param {string} runId @param {() => number} [now] for a report, the time it was made
   * @param {Pace} [pace] at which the calls of a large run are determined again
   */
  constructor(runId, now = () => Date.now(), pace = new Pace()) {
    super();
    this.runId = runId;
    this.now = now;
    this.#pace = pace;
    this.#whole = this.#fold = new RunFold(runId);
  }

  /** The summary of the shown attempt: from its events, or from the server while these are still being read. */
  get summary() {
    const received = this.#received;
    // Of several attempts, the server counts the events of the last one only.
    const isRead = received?.attempts.length === 1 && received.events <= this.#all.length;
    if (received && this.#chosen === null && !this.caughtUp && !isRead) return received;
    const found = this.#fold.summary(this.now());
    if (!found) return null;
    const whole = this.#fold === this.#whole ? found : (this.#whole.summary(this.now()) ?? found);
    const { name, kind, parent_run_id, attempts } = whole;
    const { expired_before = null, usage = null, failure = null } = received ?? {};
    const shown = { ...found, name, kind, parent_run_id, attempts, expired_before, usage, failure };
    // The server need not have recorded a death that it has observed.
    const hasDied =
      received?.status === "died" && isOpen(shown) && received.events >= this.events.length;
    return hasDied ? { ...shown, ...deathOf(received) } : shown;
  }

  /** Number of shown events of each type. */
  get types() {
    return this.#fold.counts;
  }

  /** Number of the shown attempt, from 1. */
  get attempt() {
    const last = this.#whole.lifecycle.attempts.length;
    return this.#chosen !== null && this.#chosen <= last ? this.#chosen : last;
  }

  get open() {
    return this.summary !== null && isOpen(this.summary);
  }

  /** Whether the server can observe more than the events state. */
  get hasProcesses() {
    return this.#whole.lifecycle.hasProcesses;
  }

  get startedAt() {
    return this.summary?.started_at ?? this.events[0]?.occurred_at ?? 0;
  }

  /** The last time at which the run is known to have been alive. */
  get lastAt() {
    const { summary } = this;
    return Math.max(
      summary?.last_event_at ?? 0,
      summary?.ended_at ?? 0,
      summary?.ended_between?.[0] ?? 0,
    );
  }

  /** Calls of tools and models. */
  get toolCalls() {
    this.calls();
    return this.#toolCalls;
  }

  /**
   * Set the server's summary: shown before the events are read, and for what only the server can observe.
   * @param {Summary} summary
   */
  setSummary(summary) {
    this.#received = summary;
    this.#resetCalls();
    this.notify({ reordered: false });
  }

  /** Show another attempt; null for the last. @param {number | null} number from 1 */
  choose(number) {
    if (number === this.#chosen) return;
    this.#chosen = number;
    if (this.#whole.lifecycle.attempts.length > 1) this.notify({ reordered: this.#divide() });
  }

  /**
   * Add events, except those already added.
   * @param {RunEvent[]} given @param {{late?: boolean}} [how]
   */
  add(given, { late = false } = {}) {
    const fresh = given.filter((event) => !this.#byId.has(event.event_id));
    if (!fresh.length) return;
    const last = this.#all.at(-1);
    // A live event that belongs before shown ones is late; a resumed feed cannot know that.
    const isLate = (/** @type {RunEvent} */ event) =>
      late || (this.caughtUp && last !== undefined && compareEvents(last, event) > 0);
    for (const event of fresh) {
      this.#byId.set(event.event_id, event);
      if (isLate(event)) this.late.add(event.event_id);
    }
    this.#whole.add(fresh);
    this.notify({ reordered: this.#insert(fresh) });
  }

  /** Note that the whole history has been read. */
  markCaughtUp() {
    if (this.caughtUp) return;
    this.caughtUp = true;
    this.#resetCalls();
    this.notify({ reordered: false });
  }

  /** @param {string} id */
  event(id) {
    return this.#byId.get(id);
  }

  /** Calls in the order they began. Those of a large live run are brought up to date now and then. */
  calls() {
    if (this.#calls && this.#isCurrent) return this.#calls;
    const mayWait = this.#calls && this.#calls.length > AT_ONCE && (this.open || !this.caughtUp);
    if (!mayWait || this.#pace.isDue) return this.#currentCalls();
    this.#pace.later(() => {
      this.version += 1;
      this.notify({ reordered: false });
    });
    return this.#calls ?? [];
  }

  /** @returns {Call[]} */
  #currentCalls() {
    if (this.#calls && this.#isCurrent) return this.#calls;
    const calls = this.#pace.run(() => {
      const hasEnded = this.#fold.hasEnded || (this.caughtUp && !this.open);
      const rates = this.#received?.usage?.rates ?? [];
      return this.#fold
        .calls()
        .map((call) => call.view(hasEnded))
        .map((call) => (call.kind === "model" ? { ...call, cost: callCost(call, rates) } : call));
    });
    this.#toolCalls = calls.filter(({ kind }) => kind === "tool" || kind === "model");
    this.#callById = new Map([...calls, ...this.waits()].map((call) => [call.call_id, call]));
    this.#isCurrent = true;
    return (this.#calls = calls);
  }

  /** Waits as calls of the kind `wait`, for the timeline. @returns {Call[]} */
  waits() {
    return this.#fold.waits().map((wait) => ({
      call_id: wait.callId,
      kind: "wait",
      name: wait.detail ? `${wait.reason}: ${wait.detail}` : wait.reason,
      agent_name: wait.agentName,
      parent_call_id: wait.parentCallId,
      status: isOpenWait(wait) ? (this.open ? "started" : ABANDONED) : "completed",
      started_at: wait.since ?? 0,
      ended_at: isOpenWait(wait) ? null : wait.endedAt,
      duration_ms: isOpenWait(wait) ? null : (wait.endedAt ?? 0) - (wait.since ?? 0),
      error: null,
      input_preview: null,
      output_preview: null,
    }));
  }

  /** Calls and waits in the order they began. @returns {Call[]} */
  spans() {
    const waits = this.waits();
    if (!waits.length) return this.calls();
    return [...this.calls(), ...waits].sort((one, other) => one.started_at - other.started_at);
  }

  /** @param {string} id */
  call(id) {
    this.calls();
    if (!this.#callById.has(id)) this.#currentCalls();
    return this.#callById.get(id);
  }

  /** The call that this event starts or ends. @param {RunEvent} event */
  callOf(event) {
    if (event.call_id) return this.call(event.call_id);
    this.#currentCalls();
    return this.#calls?.find((call) => this.eventsOf(call).includes(event));
  }

  /** The events of a call, in order. @param {Call} call @returns {RunEvent[]} */
  eventsOf(call) {
    if (!this.#eventsByCall) {
      this.#eventsByCall = new Map();
      for (const event of this.events)
        if (event.call_id) addTo(this.#eventsByCall, event.call_id, event);
    }
    const named = this.#eventsByCall.get(call.call_id);
    if (named) return named;
    // A call without an id is named by its first event.
    const first = this.#byId.get(call.call_id.slice(call.kind.length + 1));
    return first ? [first] : [];
  }

  /** @param {number} now */
  conditions(now) {
    const received = this.open ? (this.#received?.conditions ?? []) : [];
    if (!this.caughtUp) return received;
    return [
      ...this.#fold.conditions(now, SILENT_AFTER_MS, this.#whole),
      ...received.filter(({ name }) => OBSERVED.includes(name)),
    ];
  }

  /** @param {RunEvent[]} fresh @returns {boolean} whether shown events have moved */
  #insert(fresh) {
    const { lifecycle } = this.#whole;
    const isDivided = this.#fold !== this.#whole;
    const [all, moved] = insertEvents(this.#all, fresh);
    this.#all = all;
    if ((isDivided || lifecycle.attempts.length > 1) && lifecycle.version !== this.#dividedAt)
      return this.#divide();
    if (isDivided) {
      const mine = fresh.filter((event) => lifecycle.attemptOf(event) === this.attempt - 1);
      this.#fold.add(mine);
      this.#show(mine);
      const [events, reordered] = insertEvents(this.events, mine);
      this.events = events;
      return reordered;
    }
    this.events = all;
    this.#show(fresh);
    return moved;
  }

  /** Assign every event to its attempt again, and show those of the chosen one. */
  #divide() {
    const { lifecycle } = this.#whole;
    const at = this.attempt - 1;
    this.#dividedAt = lifecycle.version;
    if (lifecycle.attempts.length > 1) {
      this.events = this.#all.filter((event) => lifecycle.attemptOf(event) === at);
      this.#fold = new RunFold(this.runId, lifecycle.attempts[at]).add(this.events);
    } else {
      this.events = this.#all;
      this.#fold = this.#whole;
    }
    this.agents = new Map();
    this.graph = null;
    this.notices = null;
    this.#calls = null;
    this.#show(this.events);
    return true;
  }

  /** @param {RunEvent[]} events that are shown from now on */
  #show(events) {
    for (const event of events) {
      if (event.agent_name)
        this.agents.set(event.agent_name, (this.agents.get(event.agent_name) ?? 0) + 1);
      if (event.type === NOTIFIED) this.#notice(event);
      if (event.type === "graph_structure") this.graph = graphOf(payloadOf(event)) ?? this.graph;
    }
    this.#eventsByCall = null;
    this.#resetCalls();
  }

  /** @param {RunEvent} event */
  #notice(event) {
    const { last = event, count = 0 } = this.notices ?? {};
    this.notices = { last: compareEvents(last, event) > 0 ? last : event, count: count + 1 };
  }

  #resetCalls() {
    this.#isCurrent = false;
    this.version += 1;
  }
}

/**
 * Insert new events; usually they are appended to the same list.
 * @param {RunEvent[]} events in order
 * @param {RunEvent[]} fresh
 * @returns {[RunEvent[], boolean]} the events in order, and whether earlier ones have moved
 */
function insertEvents(events, fresh) {
  const sorted = [...fresh].sort(compareEvents);
  const [last, first] = [events.at(-1), sorted[0]];
  if (last && first && compareEvents(last, first) > 0)
    return [[...events, ...sorted].sort(compareEvents), true];
  for (const event of sorted) events.push(event);
  return [events, false];
}

/** @param {Summary} summary */
function deathOf({ status, ended_between, duration_ms, duration_between, error, attempts }) {
  return { status, ended_between, duration_ms, duration_between, error, attempts };
}
