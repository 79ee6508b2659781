/**
 * The events of one run in their order, and what they say together. Views watch it; events are added from a server
 * or from a file. A run that was started several times shows one attempt, the last unless the reader chooses another.
 */

import { compareEvents } from "../core/order.js";
import { payloadOf } from "../core/payloads.js";
import { RunFold, SILENT_AFTER_MS } from "../core/run-fold.js";
import { addTo } from "../core/groups.js";
import { graphOf } from "./announced-graph.js";
import { insertEvents } from "./event-order.js";
import { Watchable } from "./observable.js";
import { isOpen } from "./run-times.js";

/** @import { Call, Graph, RunEvent, Summary } from "./types.js" */
/** @typedef {{reordered: boolean}} Change */

/** Conditions that the server finds by watching processes; the events of a run do not show them. */
const OBSERVED = ["unattended", "undelivered", "no heartbeat"];

/** @extends {Watchable<Change>} */
export class RunModel extends Watchable {
  /** @type {RunEvent[]} of the attempt that is shown, by time, then producer, then its number */
  events = [];
  /** @type {Map<string, number>} */
  agents = new Map();
  /** @type {Map<string, number>} */
  types = new Map();
  /** @type {Set<string>} ids of events that came after later ones */
  late = new Set();
  /** @type {Graph | null} */
  graph = null;
  caughtUp = false;
  version = 0;

  /** @type {RunEvent[]} of every attempt */
  #all = [];
  /** @type {Map<string, RunEvent>} */
  #byId = new Map();
  #whole;
  #fold; // of the attempt that is shown: the whole while there is only one
  /** @type {number | null} the attempt that the reader chose, from 1; null: the last */
  #chosen = null;
  #dividedAt = 0; // the version of the lifecycle by which events were given to attempts
  /** @type {Summary | null} what the server says */
  #told = null;
  /** @type {Call[] | null} */
  #calls = null;
  /** @type {Map<string, Call>} */
  #callById = new Map();
  /** @type {Map<string, RunEvent[]> | null} */
  #eventsByCall = null;

  /**
   * @param {string} runId
   * @param {() => number} [now] a report stands still at the moment it was made
   */
  constructor(runId, now = () => Date.now()) {
    super();
    this.runId = runId;
    this.now = now;
    this.#whole = this.#fold = new RunFold(runId);
  }

  /** How the attempt that is shown stands: by its events, or by the server's word while they are still being read. */
  get summary() {
    const told = this.#told;
    // Of several attempts the server counts the events of the last one only.
    const isRead = told !== null && told.attempts.length === 1 && told.events <= this.#all.length;
    if (told && this.#chosen === null && !this.caughtUp && !isRead) return told;
    const found = this.#fold.summary(this.now());
    if (!found) return null;
    const whole = this.#fold === this.#whole ? found : (this.#whole.summary(this.now()) ?? found);
    const { name, kind, parent_run_id, attempts } = whole;
    const shown = {
      ...found,
      name,
      kind,
      parent_run_id,
      attempts,
      expired_before: told?.expired_before ?? null,
    };
    return this.#isDead(shown) ? { ...shown, ...deathOf(/** @type {Summary} */ (told)) } : shown;
  }

  /** Number of the attempt that is shown, from 1. */
  get attempt() {
    const last = this.#whole.lifecycle.attempts.length;
    return this.#chosen !== null && this.#chosen <= last ? this.#chosen : last;
  }

  get open() {
    return this.summary !== null && isOpen(this.summary);
  }

  /** Whether the server can say more about the run than its events do. */
  get hasProcesses() {
    return this.#whole.lifecycle.hasProcesses;
  }

  get startedAt() {
    return this.summary?.started_at ?? this.events[0]?.occurred_at ?? 0;
  }

  /** The last moment at which the run is known to have lived. */
  get lastAt() {
    const { summary } = this;
    return Math.max(
      summary?.last_event_at ?? 0,
      summary?.ended_at ?? 0,
      summary?.ended_between?.[0] ?? 0,
    );
  }

  get toolCalls() {
    return this.calls().reduce((sum, call) => sum + Number(call.kind === "tool"), 0);
  }

  /**
   * What the server says of the run: shown before its events are here, and for what only the server can observe.
   * @param {Summary} summary
   */
  tell(summary) {
    this.#told = summary;
    this.#forgetCalls();
    this.notify({ reordered: false });
  }

  /**
   * Show another attempt; null is the last.
   * @param {number | null} number from 1
   */
  choose(number) {
    if (number === this.#chosen) return;
    this.#chosen = number;
    if (this.#whole.lifecycle.attempts.length > 1) this.notify({ reordered: this.#divide() });
  }

  /**
   * Add events; those known already are left out.
   * @param {RunEvent[]} given
   * @param {{late?: boolean}} [how]
   */
  add(given, { late = false } = {}) {
    const fresh = given.filter((event) => !this.#byId.has(event.event_id));
    if (!fresh.length) return;
    const last = this.#all.at(-1);
    // Told live, and belonging before what is shown already: a feed that was taken up again cannot know that.
    const isLate = (/** @type {RunEvent} */ event) =>
      late || (this.caughtUp && last !== undefined && compareEvents(last, event) > 0);
    for (const event of fresh) {
      this.#byId.set(event.event_id, event);
      if (isLate(event)) this.late.add(event.event_id);
    }
    this.#whole.add(fresh);
    this.notify({ reordered: this.#place(fresh) });
  }

  /** Everything that was there has been read. */
  caught() {
    if (this.caughtUp) return;
    this.caughtUp = true;
    this.notify({ reordered: false });
  }

  /** @param {string} id */
  event(id) {
    return this.#byId.get(id);
  }

  /** Calls in the order they began. */
  calls() {
    if (!this.#calls) {
      const hasEnded = this.#fold.hasEnded || (this.caughtUp && !this.open);
      this.#calls = this.#fold.calls().map((call) => call.view(hasEnded));
      this.#callById = new Map(this.#calls.map((call) => [call.call_id, call]));
    }
    return this.#calls;
  }

  /** @param {string} id */
  call(id) {
    this.calls();
    return this.#callById.get(id);
  }

  /**
   * The call that this event starts or ends.
   * @param {RunEvent} event
   */
  callOf(event) {
    this.calls();
    if (event.call_id) return this.#callById.get(event.call_id);
    return this.#calls?.find((call) => this.eventsOf(call).includes(event));
  }

  /**
   * The events that tell of a call, in order.
   * @param {Call} call
   * @returns {RunEvent[]}
   */
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
    const told = this.#told?.conditions ?? [];
    if (!this.caughtUp) return this.open ? told : [];
    return [
      ...this.#fold.conditions(now, SILENT_AFTER_MS, this.#whole),
      ...(this.open ? told.filter(({ name }) => OBSERVED.includes(name)) : []),
    ];
  }

  /**
   * Whether the server has found that the run died, and nothing has come since: it need not have written that.
   * @param {Summary} found
   */
  #isDead(found) {
    const told = this.#told;
    return told?.status === "died" && isOpen(found) && told.events >= this.events.length;
  }

  /**
   * Put new events where they belong.
   * @param {RunEvent[]} fresh
   * @returns {boolean} whether events that were shown have moved
   */
  #place(fresh) {
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
    const { attempts, version } = this.#whole.lifecycle;
    const at = this.attempt - 1;
    this.#dividedAt = version;
    this.events =
      attempts.length > 1
        ? this.#all.filter((event) => this.#whole.lifecycle.attemptOf(event) === at)
        : this.#all;
    this.#fold =
      attempts.length > 1 ? new RunFold(this.runId, attempts[at]).add(this.events) : this.#whole;
    this.agents = new Map();
    this.types = new Map();
    this.graph = null;
    this.#show(this.events);
    return true;
  }

  /** @param {RunEvent[]} events that are shown from now on */
  #show(events) {
    for (const event of events) {
      this.types.set(event.type, (this.types.get(event.type) ?? 0) + 1);
      if (event.agent_name)
        this.agents.set(event.agent_name, (this.agents.get(event.agent_name) ?? 0) + 1);
      if (event.type === "graph_structure") this.graph = graphOf(payloadOf(event)) ?? this.graph;
    }
    this.#eventsByCall = null;
    this.#forgetCalls();
  }

  #forgetCalls() {
    this.#calls = null;
    this.version += 1;
  }
}

/**
 * What the server has found about the death of a run.
 * @param {Summary} told
 */
function deathOf({ status, ended_between, duration_ms, duration_between, error, attempts }) {
  return { status, ended_between, duration_ms, duration_between, error, attempts };
}
