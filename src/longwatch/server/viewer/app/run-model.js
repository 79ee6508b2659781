/**
 * The events of one run in their order, and what they say together. Views watch it; whoever has the events adds
 * them, from a server or from a file.
 */

import { orderOf, compareOrders } from "../core/order.js";
import { payloadOf } from "../core/payloads.js";
import { RunFold } from "../core/run-fold.js";

/** @typedef {import("./types.js").RunEvent} RunEvent */
/** @typedef {import("./types.js").Call} Call */
/** @typedef {import("./types.js").Summary} Summary */
/** @typedef {import("./types.js").Graph} Graph */
/** @typedef {{reordered: boolean}} Change */

export class RunModel {
  /** @type {RunEvent[]} by time, then producer, then its number */
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

  /** @type {Map<string, RunEvent>} */
  #byId = new Map();
  #fold;
  /** @type {Summary | null} what the server says, until the events say more */
  #told = null;
  /** @type {Call[] | null} */
  #calls = null;
  /** @type {Map<string, Call>} */
  #callById = new Map();
  /** @type {Map<string, RunEvent[]> | null} */
  #eventsByCall = null;
  /** @type {Set<(change: Change) => void>} */
  #watchers = new Set();

  /**
   * @param {string} runId
   * @param {() => number} [now] a report stands still at the moment it was made
   */
  constructor(runId, now = () => Date.now()) {
    this.runId = runId;
    this.now = now;
    this.#fold = new RunFold(runId);
  }

  /** How the run stands: by its events, or by the server's word while they are still being read. */
  get summary() {
    const told = this.#told;
    if (told && !this.caughtUp && told.events > this.events.length) return told;
    const found = this.#fold.summary(this.now());
    return found && told ? { ...found, expired_before: told.expired_before ?? null } : found;
  }

  get open() {
    return this.summary?.ended_at === null;
  }

  get startedAt() {
    return this.summary?.started_at ?? this.events[0]?.occurred_at ?? 0;
  }

  get lastAt() {
    return Math.max(this.events[this.events.length - 1]?.occurred_at ?? 0, this.summary?.last_event_at ?? 0);
  }

  get toolCalls() {
    return this.calls().reduce((sum, call) => sum + Number(call.kind === "tool"), 0);
  }

  /** @param {(change: Change) => void} watcher */
  watch(watcher) {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /**
   * What the server says of the run, to be shown before its events are here.
   * @param {Summary} summary
   */
  tell(summary) {
    this.#told = summary;
    this.#changed(false);
  }

  /**
   * Add events; those known already are left out.
   * @param {RunEvent[]} given
   * @param {{late?: boolean}} [how]
   */
  add(given, { late = false } = {}) {
    const fresh = given.filter((event) => !this.#byId.has(event.event_id));
    if (!fresh.length) return;
    const last = this.events[this.events.length - 1];
    // Told live, and belonging before what is shown already: a feed that was taken up again cannot know that.
    const isLate = (/** @type {RunEvent} */ event) => late || (this.caughtUp && last !== undefined && compareOrders(orderOf(last), orderOf(event)) > 0);
    for (const event of fresh) this.#note(event, isLate(event));
    this.#fold.add(fresh);
    this.#calls = null;
    this.#eventsByCall = null;
    this.version += 1;
    this.#changed(this.#put(fresh));
  }

  /** Everything that was there has been read. */
  caught() {
    if (this.caughtUp) return;
    this.caughtUp = true;
    this.#changed(false);
  }

  /** @param {string} id */
  event(id) {
    return this.#byId.get(id);
  }

  /** Calls in the order they began. */
  calls() {
    if (!this.#calls) {
      this.#calls = this.#fold.calls().map((call) => call.view());
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
      for (const event of this.events) {
        if (!event.call_id) continue;
        const list = this.#eventsByCall.get(event.call_id);
        if (list) list.push(event);
        else this.#eventsByCall.set(event.call_id, [event]);
      }
    }
    const named = this.#eventsByCall.get(call.call_id);
    if (named) return named;
    // A call without an id is named by its first event.
    const first = this.#byId.get(call.call_id.slice(call.kind.length + 1));
    return first ? [first] : [];
  }

  /** @param {number} now */
  conditions(now) {
    return this.caughtUp ? this.#fold.conditions(now) : (this.#told?.conditions ?? []);
  }

  /**
   * @param {RunEvent} event
   * @param {boolean} late
   */
  #note(event, late) {
    this.#byId.set(event.event_id, event);
    this.types.set(event.type, (this.types.get(event.type) ?? 0) + 1);
    if (event.agent_name) this.agents.set(event.agent_name, (this.agents.get(event.agent_name) ?? 0) + 1);
    if (late) this.late.add(event.event_id);
    if (event.type === "graph_structure") this.graph = graphOf(payloadOf(event)) ?? this.graph;
  }

  /**
   * @param {RunEvent[]} fresh
   * @returns {boolean} whether events that were there have moved
   */
  #put(fresh) {
    const inOrder = (/** @type {RunEvent} */ one, /** @type {RunEvent} */ other) => compareOrders(orderOf(one), orderOf(other));
    const last = this.events[this.events.length - 1];
    let before = last;
    let sorted = true;
    for (const event of fresh) {
      if (before && inOrder(before, event) > 0) {
        sorted = false;
        break;
      }
      before = event;
    }
    if (sorted) {
      for (const event of fresh) this.events.push(event);
      return false;
    }
    fresh.sort(inOrder);
    const reordered = last !== undefined && inOrder(last, /** @type {RunEvent} */ (fresh[0])) > 0;
    if (!reordered) {
      for (const event of fresh) this.events.push(event);
      return false;
    }
    this.events = merged(this.events, fresh, inOrder);
    return true;
  }

  /** @param {boolean} reordered */
  #changed(reordered) {
    for (const watcher of [...this.#watchers]) watcher({ reordered });
  }
}

/**
 * @template T
 * @param {T[]} one
 * @param {T[]} other
 * @param {(one: T, other: T) => number} compare
 */
function merged(one, other, compare) {
  /** @type {T[]} */
  const both = [];
  let at = 0;
  for (const item of other) {
    while (at < one.length && compare(/** @type {T} */ (one[at]), item) <= 0) {
      both.push(/** @type {T} */ (one[at]));
      at += 1;
    }
    both.push(item);
  }
  for (; at < one.length; at += 1) both.push(/** @type {T} */ (one[at]));
  return both;
}

/**
 * The graph in a `graph_structure` event, with whatever is no graph left out.
 * @param {Record<string, unknown>} said
 * @returns {Graph | null}
 */
export function graphOf(said) {
  const graph = /** @type {Record<string, unknown>} */ (said["graph"] && typeof said["graph"] === "object" ? said["graph"] : said);
  const nodes = list(graph["nodes"]).flatMap((node) => {
    const id = text(node["id"]) || text(node["name"]);
    return id ? [{ id, name: text(node["name"]) || id, role: text(node["role"]) }] : [];
  });
  const edges = list(graph["edges"]).flatMap((edge) => {
    const [from, to] = [text(edge["from"]), text(edge["to"])];
    return from && to ? [{ from, to, condition: text(edge["condition"]) }] : [];
  });
  const unique = [...new Map(nodes.map((node) => [node.id, node])).values()];
  return unique.length ? { nodes: unique, edges } : null;
}

/**
 * @param {unknown} value
 * @returns {Record<string, unknown>[]}
 */
function list(value) {
  return Array.isArray(value) ? value.filter((each) => each && typeof each === "object") : [];
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : "";
}
