/**
 * A run is the fold of its events. Any order of arrival gives the same run, and the same as in Python.
 *
 * Give each event once; the feed sees to that.
 */

import { Calls } from "./calls.js";
import { ENDS, STARTS, endingBeats, endingOf, originBeats, originOf } from "./endings.js";
import { Numbers } from "./numbers.js";
import { compareOrders, compareText, orderOf } from "./order.js";
import { numberOf, payloadOf, toolStatus } from "./payloads.js";

/** @import { CallView } from "./calls.js" */
/** @import { Ending, Origin, Status } from "./endings.js" */
/** @import { Range } from "./numbers.js" */
/** @import { Order, WireEvent } from "./order.js" */

export const SILENT_AFTER_MS = 60_000;

/**
 * @typedef {object} Condition Something worth saying about a run that is no part of its history.
 * @property {string} name `silent` or `missing`
 * @property {string} message
 *
 * @typedef {object} SummaryView One line of the list of runs, as the server gives it.
 * @property {string} run_id
 * @property {Status} status
 * @property {string} kind
 * @property {string | null} name
 * @property {string | null} parent_run_id
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {number} duration_ms
 * @property {number} events
 * @property {string[]} agents
 * @property {number} failed_calls
 * @property {string | null} error
 * @property {string} last_event_type
 * @property {number} last_event_at
 * @property {number | null} expired_before
 *
 * @typedef {object} ProducerView
 * @property {number} events
 * @property {number | null} stated
 * @property {Range[]} missing
 *
 * @typedef {object} RunDetails
 * @property {Condition[]} conditions
 * @property {Record<string, number>} counts
 * @property {Record<string, ProducerView>} producers
 * @property {CallView[]} calls
 *
 * @typedef {SummaryView & RunDetails} RunView
 */

/** Everything that the events of a run say together, growing as they come. */
export class RunFold {
  #calls = new Calls();
  /** @type {Set<string>} */
  #agents = new Set();
  /** @type {Map<string, number>} */
  #counts = new Map();
  /** @type {Map<string, {seen: Numbers, stated: number | null}>} */
  #producers = new Map();
  /** @type {Origin | null} */
  #origin = null;
  /** @type {Ending | null} */
  #ending = null;
  /** @type {Order | null} */
  #firstOrder = null;
  /** @type {Order | null} */
  #lastOrder = null;
  #lastType = "";
  #events = 0;
  #failedCalls = 0;

  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
  }

  /** @returns {Status} */
  get status() {
    return this.#ending?.status ?? "running";
  }

  get hasEnded() {
    return this.#ending !== null;
  }

  get events() {
    return this.#events;
  }

  /** How many events there are of each type. */
  get counts() {
    return /** @type {ReadonlyMap<string, number>} */ (this.#counts);
  }

  /** @param {Iterable<WireEvent>} events */
  add(events) {
    for (const event of events) this.#take(event);
    return this;
  }

  /** Agent spans, tool calls and nodes, in the order they began. */
  calls() {
    return this.#calls.ordered();
  }

  /**
   * What is true of the run at this moment and would not be at another: computed, never stored.
   *
   * @param {number} now Epoch milliseconds.
   * @param {number} [silentAfterMs]
   * @returns {Condition[]}
   */
  conditions(now, silentAfterMs = SILENT_AFTER_MS) {
    /** @type {Condition[]} */
    const found = [];
    const quietMs = now - (this.#lastOrder?.[0] ?? now);
    if (this.#ending === null && quietMs > silentAfterMs) {
      found.push({ name: "silent", message: `no event for ${Math.floor(quietMs / 1000)} s; the run is still open` });
    }
    for (const [producer, { seen, stated }] of sorted(this.#producers)) {
      for (const [low, high] of seen.gaps(stated)) {
        const span = low === high ? `${low}` : `${low}–${high}`;
        found.push({ name: "missing", message: `missing ${span} of producer ${producer}` });
      }
    }
    return found;
  }

  /**
   * @param {number} now Epoch milliseconds.
   * @returns {SummaryView | null} null before the first event
   */
  summary(now) {
    if (this.#origin === null || this.#firstOrder === null || this.#lastOrder === null) return null;
    const startedAt = this.#firstOrder[0];
    const endedAt = this.#ending?.order[0] ?? null;
    return {
      run_id: this.runId,
      status: this.status,
      kind: this.#origin.kind,
      name: this.#origin.name,
      parent_run_id: this.#origin.parentRunId,
      started_at: startedAt,
      ended_at: endedAt,
      duration_ms: Math.max(0, (endedAt ?? now) - startedAt),
      events: this.#events,
      agents: [...this.#agents].sort(compareText),
      failed_calls: this.#failedCalls,
      error: this.#ending?.error ?? null,
      last_event_type: this.#lastType,
      last_event_at: this.#lastOrder[0],
      expired_before: null, // only the journal knows
    };
  }

  /**
   * The whole run, as `GET /api/runs/{run_id}` gives it.
   *
   * @param {number} now Epoch milliseconds.
   * @returns {RunView | null} null before the first event
   */
  view(now) {
    const summary = this.summary(now);
    if (summary === null) return null;
    const producers = sorted(this.#producers).map(([name, { seen, stated }]) => {
      return /** @type {const} */ ([name, { events: seen.size, stated, missing: seen.gaps(stated) }]);
    });
    return {
      ...summary,
      conditions: this.conditions(now),
      counts: Object.fromEntries(sorted(this.#counts)),
      producers: Object.fromEntries(producers),
      calls: this.calls().map((call) => call.view()),
    };
  }

  /** @param {WireEvent} event */
  #take(event) {
    const order = orderOf(event);
    const { type } = event;
    this.#events += 1;
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1);
    if (event.agent_name != null) this.#agents.add(event.agent_name);
    if (this.#lastOrder === null || compareOrders(order, this.#lastOrder) > 0) {
      this.#lastOrder = order;
      this.#lastType = type;
    }
    const isFirst = this.#firstOrder === null || compareOrders(order, this.#firstOrder) < 0;
    if (isFirst) this.#firstOrder = order;
    if (isFirst || STARTS.has(type)) {
      const origin = originOf(event);
      if (originBeats(origin, this.#origin)) this.#origin = origin;
    }
    if (type === "tool_call" && toolStatus(payloadOf(event)) === "failed") this.#failedCalls += 1;
    if (ENDS.has(type)) {
      const ending = endingOf(event);
      if (ending !== null && endingBeats(ending, this.#ending)) this.#ending = ending;
    }
    this.#calls.add(event);
    this.#tally(event);
  }

  /** @param {WireEvent} event */
  #tally(event) {
    if (event.producer == null || event.number == null) return;
    let tally = this.#producers.get(event.producer);
    if (tally === undefined) {
      tally = { seen: new Numbers(), stated: null };
      this.#producers.set(event.producer, tally);
    }
    tally.seen.add(event.number);
    const count = event.type === "producer_closed" ? numberOf(payloadOf(event), "count") : null;
    if (count !== null) tally.stated = Math.max(tally.stated ?? 0, Math.trunc(count));
  }
}

/**
 * The run that these events tell; null for none at all.
 *
 * @param {Iterable<WireEvent>} events
 * @returns {RunFold | null}
 */
export function fold(events) {
  const all = [...events];
  return all[0] === undefined ? null : new RunFold(all[0].run_id).add(all);
}

/**
 * @template T
 * @param {ReadonlyMap<string, T>} map
 * @returns {[string, T][]}
 */
function sorted(map) {
  return [...map].sort(([one], [other]) => compareText(one, other));
}
