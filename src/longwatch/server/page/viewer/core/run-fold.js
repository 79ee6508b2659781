/**
 * A run is the fold of its events: the same for any order of arrival, and the same as in Python.
 *
 * Each event must be added once; the feed ensures that.
 */

import { Lifecycle } from "./attempts.js";
import { Calls } from "./calls.js";
import { STARTS, UNREADABLE, endedAt, isActivity, originBeats, originOf } from "./endings.js";
import { Labels } from "./labels.js";
import { NumberSet } from "./number-set.js";
import { compareOrders, compareText, orderOf } from "./order.js";
import { numberOf, payloadOf, toolStatus } from "./payloads.js";
import { Waits, waitText } from "./waits.js";

/** @import { Attempt } from "./attempts.js" */
/** @import { Ending, Origin, Status } from "./endings.js" */
/** @import { Order, WireEvent } from "./order.js" */
/** @import { WaitView } from "./waits.js" */

export const SILENT_AFTER_MS = 60_000;
const LINE_TYPES = new Set(["block", "block_delta", "turn_line", "turn_result", "output"]); // of an agent's output

/**
 * @typedef {object} Condition A property of a run at this moment that is not part of its history.
 * @property {string} name `waiting`, `silent`, `unreadable` or `missing`; of the server also `unattended`, `undelivered` or `no heartbeat`
 * @property {string} message
 *
 * @typedef {[notBefore: number, notAfter: number | null]} Interval
 *
 * @typedef {object} AttemptView
 * @property {number} number From 1.
 * @property {string | null} attempt
 * @property {Status} status
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {Interval | null} ended_between
 * @property {string | null} error
 *
 * @typedef {object} SummaryView One line of the list of runs, as the server gives it.
 * @property {string} run_id
 * @property {Status} status
 * @property {string} kind
 * @property {string | null} name
 * @property {string | null} parent_run_id
 * @property {number} started_at
 * @property {number | null} ended_at null while it is open, and if only an interval is known
 * @property {Interval | null} ended_between when a run died: epoch milliseconds
 * @property {number | null} duration_ms of the last attempt; null if only an interval is known
 * @property {Interval | null} duration_between how long a run took that died: at least, at most
 * @property {number} events
 * @property {string[]} agents
 * @property {string[]} tools names of called tools
 * @property {string[]} tags
 * @property {string | null} user
 * @property {string | null} session as the program names it
 * @property {number} failed_calls
 * @property {string | null} error
 * @property {number} warning_count of the terminal event
 * @property {string} last_event_type
 * @property {number} last_event_at
 * @property {number | null} expired_before
 * @property {AttemptView[]} attempts the earliest first; there is always one
 * @property {WaitView[]} waiting open waits, the longest first
 * @property {Record<string, number>} waiting_ms reason → milliseconds of the waits that ended
 */

/** The state of a run, updated with every event. */
export class RunFold {
  #calls = new Calls();
  #waits = new Waits();
  #labels = new Labels();
  /** @type {Set<string>} */
  #agents = new Set();
  /** @type {Map<string, number>} */
  #counts = new Map();
  /** @type {Map<string, {seen: NumberSet, stated: number | null}>} */
  #producers = new Map();
  #lines = new NumberSet(); // of the agent's output, fed to a turn
  /** @type {Attempt[] | null} */
  #attempts;
  /** @type {Origin | null} */
  #origin = null;
  #lifecycle = new Lifecycle();
  /** @type {Order | null} */
  #firstOrder = null;
  /** @type {Order | null} of the last sign of activity */
  #lastOrder = null;
  #lastType = "";
  #isActive = false; // while false, only observers have written, and the last order is theirs
  #events = 0;
  #failedCalls = 0;

  /**
   * @param {string} runId
   * @param {Attempt | null} [attempt] the attempt, if only its events are folded
   */
  constructor(runId, attempt = null) {
    this.runId = runId;
    this.#attempts = attempt === null ? null : [attempt];
  }

  get #shown() {
    return this.#attempts ?? this.#lifecycle.attempts;
  }

  get #current() {
    return /** @type {Attempt} */ (this.#shown.at(-1));
  }

  /** @returns {Status} */
  get status() {
    return this.#current.status;
  }

  get hasEnded() {
    return this.#current.ending !== null || this.#current.isSuperseded;
  }

  get lifecycle() {
    return this.#lifecycle;
  }

  /** Number of events of each type. */
  get counts() {
    return /** @type {ReadonlyMap<string, number>} */ (this.#counts);
  }

  /** The producers by name, with the ranges of missing numbers. */
  get producers() {
    return sortedEntries(this.#producers).map(([name, { seen, stated }]) => {
      return { name, events: seen.size, stated, missing: seen.gaps(stated) };
    });
  }

  /** @param {Iterable<WireEvent>} events */
  add(events) {
    for (const event of events) this.#add(event);
    return this;
  }

  /** Agent spans, tool calls and nodes of the last attempt, in the order they began. */
  calls() {
    const last = this.#shown.length - 1;
    const isShown = (/** @type {Order} */ order) => this.#lifecycle.attemptAt(order) === last;
    return this.#calls.select(last === 0 ? () => true : isShown);
  }

  /** Every wait, in the order they began. */
  waits() {
    return this.#waits.all();
  }

  /**
   * The open waits of the last attempt. A run that has ended waits for nothing, nor does a producer that has closed.
   * @returns {WaitView[]}
   */
  #waiting() {
    if (this.#ending !== null) return [];
    const began = this.#shown.length > 1 ? this.#attemptStartedAt : 1;
    return this.#waits
      .open()
      .map(({ producer, reason, detail, since }) => ({
        producer,
        reason,
        detail,
        since: since ?? 0,
      }))
      .filter(({ producer, since }) => since >= began && !this.#lifecycle.isClosed(producer))
      .map(({ producer, ...view }) => view);
  }

  /**
   * The conditions of the run at this moment: computed, never stored.
   * @param {number} now Epoch milliseconds.
   * @param {number} [silentAfterMs]
   * @param {RunFold} [whole] of every attempt: a producer may work on several, so only all of its numbers show a gap
   * @returns {Condition[]}
   */
  conditions(now, silentAfterMs = SILENT_AFTER_MS, whole = this) {
    /** @type {Condition[]} */
    const found = [];
    const quietMs = now - (this.#lastOrder?.[0] ?? now);
    const waits = this.#waiting();
    for (const wait of waits) found.push({ name: "waiting", message: waitText(wait) });
    if (!this.hasEnded && !waits.length && quietMs > silentAfterMs) {
      found.push({
        name: "silent",
        message: `no event for ${Math.floor(quietMs / 1000)} s; the run is still open`,
      });
    }
    const unreadable = this.#counts.get(UNREADABLE) ?? 0;
    if (unreadable > 0) {
      const events = unreadable === 1 ? "event" : "events";
      const message = `${unreadable} ${events} cannot be read; run \`longwatch doctor\``;
      found.push({ name: "unreadable", message });
    }
    for (const { name, missing } of whole.producers) {
      if (!this.#producers.has(name)) continue;
      for (const [low, high] of missing) {
        const span = low === high ? `${low}` : `${low}–${high}`;
        found.push({ name: "missing", message: `missing ${span} of producer ${name}` });
      }
    }
    for (const [low, high] of whole.#lines.gaps(null)) {
      const span = low === high ? `line ${low}` : `lines ${low}–${high}`;
      found.push({ name: "missing", message: `missing ${span} of the agent's output` });
    }
    return found;
  }

  get #attemptStartedAt() {
    const start = this.#shown.length > 1 ? this.#current.start?.[0] : null;
    return start ?? this.#firstOrder?.[0] ?? 0;
  }

  /**
   * @param {number} now Epoch milliseconds.
   * @returns {SummaryView | null} null before the first event
   */
  summary(now) {
    if (this.#origin === null || this.#firstOrder === null || this.#lastOrder === null) return null;
    const attempts = this.#shown;
    const startedAt = this.#firstOrder[0];
    const attemptAt = this.#attemptStartedAt;
    const ending = this.#ending;
    const end = ending === null ? now : endedAt(ending);
    const between = intervalOf(ending);
    return {
      run_id: this.runId,
      status: this.status,
      kind: this.#origin.kind,
      name: this.#origin.name,
      parent_run_id: this.#origin.parentRunId,
      started_at: startedAt,
      ended_at: ending && endedAt(ending),
      ended_between: between,
      duration_ms: end === null ? null : Math.max(0, end - attemptAt),
      duration_between: between && lengths(between, attemptAt),
      events: this.#events,
      agents: [...this.#agents].sort(compareText),
      ...this.#labels.view(),
      failed_calls: this.#failedCalls,
      error: ending?.error ?? null,
      warning_count: ending?.warnings ?? 0,
      last_event_type: this.#lastType,
      last_event_at: this.#lastOrder[0],
      expired_before: null, // known to the journal only
      attempts: attempts.map((each, at) =>
        this.#attemptView(each, at, each === this.#current ? ending : each.ending),
      ),
      waiting: this.#waiting(),
      waiting_ms: this.#waits.waitedMs(),
    };
  }

  /**
   * How the last attempt ended. It cannot have died before its last activity. An attempt without an ending that was
   * superseded ended some time after its last activity.
   * @returns {Ending | null}
   */
  get #ending() {
    const { ending, isSuperseded } = this.#current;
    const activeAt = this.#isActive ? (this.#lastOrder?.[0] ?? 0) : 0;
    if (ending === null && isSuperseded)
      return supersededAt(/** @type {Order} */ (this.#lastOrder), activeAt);
    if (ending?.status !== "died") return ending;
    const notBefore = Math.max(activeAt, ending.notBefore ?? 0);
    return {
      ...ending,
      notBefore,
      notAfter: ending.notAfter === null ? null : Math.max(ending.notAfter, notBefore),
    };
  }

  /**
   * @param {Attempt} attempt @param {number} at @param {Ending | null} ending
   * @returns {AttemptView}
   */
  #attemptView(attempt, at, ending) {
    return {
      number: at + 1,
      attempt: attempt.id,
      status: attempt.status,
      started_at: (at > 0 ? attempt.start?.[0] : null) ?? this.#firstOrder?.[0] ?? 0,
      ended_at: ending && endedAt(ending),
      ended_between: intervalOf(ending),
      error: ending?.error ?? null,
    };
  }

  /** @param {WireEvent} event */
  #add(event) {
    const order = orderOf(event);
    const { type } = event;
    this.#events += 1;
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1);
    if (event.agent_name != null) this.#agents.add(event.agent_name);
    this.#noteLast(event, order);
    const isFirst = this.#firstOrder === null || compareOrders(order, this.#firstOrder) < 0;
    if (isFirst) this.#firstOrder = order;
    if (isFirst || STARTS.has(type)) {
      const origin = originOf(event);
      if (originBeats(origin, this.#origin)) this.#origin = origin;
    }
    if (type === "tool_call" && toolStatus(payloadOf(event)) === "failed") this.#failedCalls += 1;
    this.#lifecycle.add(event);
    this.#calls.add(event);
    this.#waits.add(event);
    this.#labels.add(event);
    this.#noteProducer(event);
    if (LINE_TYPES.has(type)) this.#noteLine(payloadOf(event));
  }

  /**
   * Blank lines have no event. An event without `after_line`, from an earlier version, covers all lines before it.
   * @param {Record<string, any>} payload
   */
  #noteLine(payload) {
    const number = numberOf(payload, "line_number");
    if (number === null || number < 0) return;
    const last = Math.trunc(number);
    this.#lines.add(Math.min(Math.trunc(numberOf(payload, "after_line") ?? 0) + 1, last), last);
  }

  /** @param {WireEvent} event @param {Order} order */
  #noteLast(event, order) {
    const isNewer = this.#lastOrder === null || compareOrders(order, this.#lastOrder) > 0;
    if (this.#isActive && !isNewer) return;
    const active = isActivity(event);
    if (!active && (this.#isActive || !isNewer)) return;
    this.#lastOrder = order;
    this.#lastType = event.type;
    this.#isActive = active;
  }

  /** @param {WireEvent} event */
  #noteProducer(event) {
    if (event.producer == null || event.number == null) return;
    let counts = this.#producers.get(event.producer);
    if (counts === undefined) {
      counts = { seen: new NumberSet(), stated: null };
      this.#producers.set(event.producer, counts);
    }
    counts.seen.add(event.number);
    const count = event.type === "producer_closed" ? numberOf(payloadOf(event), "count") : null;
    if (count !== null) counts.stated = Math.max(counts.stated ?? 0, Math.trunc(count));
  }
}

/** @param {Order} order @param {number} notBefore @returns {Ending} */
function supersededAt(order, notBefore) {
  return {
    status: "unknown",
    order,
    isOwn: false,
    error: null,
    correction: false,
    attempt: null,
    processes: null,
    notBefore,
    notAfter: null,
  };
}

/** @param {Ending | null} ending @returns {Interval | null} */
function intervalOf(ending) {
  return ending === null || ending.notBefore === null ? null : [ending.notBefore, ending.notAfter];
}

/** @param {Interval} between @param {number} start @returns {Interval} */
function lengths([notBefore, notAfter], start) {
  return [Math.max(0, notBefore - start), notAfter === null ? null : Math.max(0, notAfter - start)];
}

/**
 * @template T
 * @param {ReadonlyMap<string, T>} map @returns {[string, T][]}
 */
function sortedEntries(map) {
  return [...map].sort(([one], [other]) => compareText(one, other));
}
