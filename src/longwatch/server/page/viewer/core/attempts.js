/**
 * The attempts of a run, derived from its starts, processes and endings by the same rules as in Python.
 *
 * An ending, a process or a call belongs to the attempt that its event names, else to the one that its producer
 * started or joined, else to the one that was open at the time. A session and the work inside it are one attempt: a
 * start joins the open attempt if that has no ending and no start of the same kind. An ending without an earlier start,
 * and work that began before its session, belong to a start that follows within the clock skew. The attempts do not
 * depend on the order of arrival.
 */

import { ENDS, UNREADABLE, attemptIdOf, endingBeats, endingOf } from "./endings.js";
import { compareOrders, orderOf } from "./order.js";
import { numberOf, payloadOf, textOf } from "./payloads.js";

/** @import { Ending, Status } from "./endings.js" */
/** @import { Order, WireEvent } from "./order.js" */

const SESSION_START = "SESSION_INITIATED";
const ATTEMPT_STARTS = new Set(["workflow_start", SESSION_START]);
const OWNER_TYPES = new Set(["workflow_start", "turn_started"]); // the process they name owns the run
const JOINED = "process_joined";
const CLOSED = "producer_closed";

const CLOCK_SKEW_MS = 60_000; // between the processes of one run

// Limits as in Python: the facts of a run id that is reused every night must not grow without bound.
const MOST_STARTS = 100;
const MOST_ENDINGS = 32;
const MOST_OWNERS = 16;
const MOST_MEMBERS = 128; // beside the owners

/**
 * @typedef {object} Start
 * @property {Order} order
 * @property {string | null} attempt
 * @property {boolean} [isSession] The start of a session, not of the work inside it.
 *
 * @typedef {object} Member A process that worked on the run.
 * @property {string} id
 * @property {Order} order Of the event that names it.
 * @property {boolean} isOwner
 * @property {string | null} attempt
 *
 * @typedef {object} Attempt
 * @property {string | null} id Eight hex digits, or the execution of a session; null if its start names none.
 * @property {string | null} [also] Its other id: a session and the work inside it name one attempt each.
 * @property {Order | null} start null if no start was seen.
 * @property {Ending | null} ending
 * @property {Status} status Without an ending, running; unknown once a later attempt has begun.
 * @property {boolean} isSuperseded A later attempt has begun.
 */

/** Collects the facts that determine the attempts of a run. */
export class Lifecycle {
  /** @type {Start[]} */
  #starts = [];
  /** @type {Ending[]} */
  #endings = [];
  /** @type {Member[]} */
  #members = [];
  /** @type {Set<string>} producers that have closed */
  #closed = new Set();
  /** @type {Map<string, Start[]>} producer → the attempts that it named */
  #joins = new Map();
  /** @type {Attempt[] | null} */
  #attempts = null;

  version = 0; // incremented with every fact

  /** @param {WireEvent} event */
  add(event) {
    const { type, producer } = event;
    if (ENDS.has(type) || type === UNREADABLE) {
      const ending = endingOf(event);
      if (ending === null || (type === UNREADABLE && this.#has(ending))) return;
      this.#endings.push(ending);
    } else if (type === CLOSED) {
      if (producer == null) return;
      this.#closed.add(producer);
    } else if (type === JOINED || ATTEMPT_STARTS.has(type) || OWNER_TYPES.has(type)) {
      this.#addNames(event);
    } else {
      return;
    }
    this.version += 1;
    this.#attempts = null;
  }

  /** @param {Ending} ending */
  #has(ending) {
    return this.#endings.some(({ order }) => compareOrders(order, ending.order) === 0);
  }

  /** Every attempt, the earliest first; there is always one. */
  get attempts() {
    this.#attempts ??= attemptsOf(
      this.#starts.sort(byOrder).slice(-MOST_STARTS),
      boundEndings(this.#endings),
      this.#members.filter((each) => each.isOwner || !this.#closed.has(each.order[1])),
    );
    return this.#attempts;
  }

  /** Whether a producer has written its last event. @param {string} producer */
  isClosed(producer) {
    return this.#closed.has(producer);
  }

  /** Whether the run names a process: only then can an observer report more than the events do. */
  get hasProcesses() {
    return this.#members.length > 0;
  }

  /** Which attempt a call's event belongs to, from 0. @param {Order} order */
  attemptAt(order) {
    const joined = joinedAt(this.#joins.get(order[1]) ?? [], order);
    const named = this.#indexOf(joined);
    return named >= 0 ? named : openAt(this.attempts, order);
  }

  /** Which attempt an event belongs to, from 0. @param {WireEvent} event */
  attemptOf(event) {
    if (this.attempts.length === 1) return 0;
    const order = orderOf(event);
    const isFact = ENDS.has(event.type) || event.type === JOINED || ATTEMPT_STARTS.has(event.type);
    const stated = isFact ? attemptIdOf(event) : null;
    const named = this.#indexOf(stated);
    if (named >= 0) return named;
    return ATTEMPT_STARTS.has(event.type) ? openAt(this.attempts, order) : this.attemptAt(order);
  }

  /** @param {string | null} attemptId */
  #indexOf(attemptId) {
    if (attemptId === null) return -1;
    return this.attempts.findIndex(({ id, also }) => id === attemptId || also === attemptId);
  }

  /** Record the start, the process and the attempt that an event names. @param {WireEvent} event */
  #addNames(event) {
    const order = orderOf(event);
    const attempt = attemptIdOf(event);
    const starts = ATTEMPT_STARTS.has(event.type);
    if (starts) this.#starts.push({ order, attempt, isSession: event.type === SESSION_START });
    const id = processIdOf(payloadOf(event)["process"]);
    if (id !== null)
      this.#members.push({ id, order, isOwner: OWNER_TYPES.has(event.type), attempt });
    if (attempt === null || event.producer == null || !(starts || event.type === JOINED)) return;
    const joins = this.#joins.get(event.producer) ?? [];
    this.#joins.set(event.producer, [...joins, { order, attempt }].sort(byOrder));
  }
}

/**
 * The id of the process in an event's `process` field; null if the field names none.
 * @param {any} value
 */
function processIdOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const pid = numberOf(value, "pid");
  if (textOf(value, "host") === null || pid === null || pid < 1) return null;
  const started = numberOf(value, "started");
  const texts = ["host", "machine", "boot", "namespace"].map((name) => textOf(value, name) ?? "");
  const given = textOf(value, "id");
  // `worker-1` could name several processes, so only an id that looks like our digests counts.
  if (given !== null && /^[0-9a-f]{16}$/.test(given)) return given;
  return [...texts, Math.trunc(pid), started === null ? "" : Math.trunc(started)].join("/");
}

/** The newest endings, and the decisive one of all. @param {Ending[]} endings */
function boundEndings(endings) {
  const sorted = endings.sort(byOrder);
  if (sorted.length <= MOST_ENDINGS) return sorted;
  const newest = sorted.slice(-MOST_ENDINGS);
  const best = /** @type {Ending} */ (bestOf(sorted));
  return newest.includes(best) ? newest : [best, ...newest];
}

/**
 * @typedef {object} Draft An attempt while its facts are gathered.
 * @property {string | null} id
 * @property {string | null} also
 * @property {Order | null} start
 * @property {Set<boolean>} kinds Of its starts: whether they are a session's.
 * @property {Ending[]} endings
 * @property {Set<string>} members Ids of the processes that have not left.
 */

/** @param {string | null} id @returns {Draft} */
const draft = (id) => ({
  id,
  also: null,
  start: null,
  kinds: new Set(),
  endings: [],
  members: new Set(),
});

/**
 * @param {Start[]} starts in their order
 * @param {Ending[]} endings in their order
 * @param {Member[]} members that have not left
 * @returns {Attempt[]}
 */
function attemptsOf(starts, endings, members) {
  /** @type {Draft[]} */
  const drafts = [];
  /** @type {Map<string | null, Draft>} filled first: an ending may sort before its start */
  const byId = new Map();
  for (const { attempt } of starts) if (attempt !== null) byId.set(attempt, draft(attempt));
  /** @type {(Start | Ending)[]} */
  const facts = [...starts, ...endings];
  for (const fact of facts.sort(byOrder)) {
    if ("status" in fact) draftFor(fact, starts, byId, drafts).endings.push(fact);
    else begin(fact, byId, drafts);
  }
  if (!drafts.length) drafts.push(draft(null));
  const inOrder = members.sort(byOrder);
  const owners = inOrder.filter((each) => each.isOwner).slice(-MOST_OWNERS);
  const others = inOrder.filter((each) => !each.isOwner).slice(-MOST_MEMBERS);
  for (const member of [...owners, ...others]) {
    const named = member.attempt === null ? undefined : byId.get(member.attempt);
    (named ?? /** @type {Draft} */ (drafts[openAt(drafts, member.order)])).members.add(member.id);
  }
  return drafts.map((each, at) => attempt(each, at < drafts.length - 1));
}

/**
 * Open an attempt with this start, unless it belongs to the one that is open.
 * @param {Start} start @param {Map<string | null, Draft>} byId @param {Draft[]} drafts
 */
function begin(start, byId, drafts) {
  const isSession = Boolean(start.isSession);
  const current = drafts.at(-1);
  let found = start.attempt === null ? current : /** @type {Draft} */ (byId.get(start.attempt));
  if (start.attempt === null) {
    if (found === undefined || isOver(found, start)) drafts.push((found = draft(null)));
  } else if (found?.start === null) {
    if (current !== undefined && !current.kinds.has(isSession) && !isOver(current, start)) {
      merge(current, found);
      found = current;
      byId.set(start.attempt, current);
    } else {
      drafts.push(found);
    }
  }
  if (found === undefined) return;
  found.kinds.add(isSession);
  found.start ??= start.order;
}

/**
 * Give an attempt the id and the endings of a draft that turned out to be the same attempt.
 * @param {Draft} current @param {Draft} named
 */
function merge(current, named) {
  if (current.id === null) current.id = named.id;
  else current.also = named.id;
  current.endings.push(...named.endings);
}

/**
 * Whether a start that names no attempt opens one: only if an earlier attempt has ended.
 * Within one millisecond a start may sort after the end of its own attempt. With a late clock, the end of an attempt or
 * all the work inside a session sorts before the start.
 * @param {Draft} current @param {Start} start
 */
function isOver(current, start) {
  const [now] = start.order;
  const isSession = Boolean(start.isSession);
  if (current.start === null)
    return current.endings.every((each) => each.order[0] < now - CLOCK_SKEW_MS);
  if (isSession && !current.kinds.has(isSession) && current.start[0] >= now - CLOCK_SKEW_MS)
    return false;
  return current.endings.some((each) => each.order[0] < now);
}

/**
 * The attempt that an ending names, else that its producer started, else the open one.
 * @param {Ending} ending @param {Start[]} starts @param {Map<string | null, Draft>} byId
 * @param {Draft[]} drafts @returns {Draft}
 */
function draftFor(ending, starts, byId, drafts) {
  const named = ending.attempt === null ? undefined : byId.get(ending.attempt);
  if (named) return named;
  const producer = ending.order[1];
  const own = producer
    ? starts.filter(({ order, attempt }) => attempt !== null && order[1] === producer)
    : [];
  const started = joinedAt(own, ending.order);
  const found = started === null ? drafts.at(-1) : byId.get(started);
  if (found) return found;
  drafts.push(draft(null));
  return /** @type {Draft} */ (drafts[0]);
}

/** @param {Draft} found @param {boolean} isSuperseded @returns {Attempt} */
function attempt({ id, also, start, endings, members }, isSuperseded) {
  const ending = endingAmong(endings.sort(byOrder), members);
  return {
    id,
    also,
    start,
    ending,
    status: ending?.status ?? (isSuperseded ? "unknown" : "running"),
    isSuperseded,
  };
}

/**
 * The decisive ending. `died` counts only while it covers every process that has not left.
 * @param {Ending[]} endings @param {Set<string>} members
 */
function endingAmong(endings, members) {
  const best = bestOf(endings.filter(({ status }) => status !== "died"));
  if (best !== null) return best;
  return combineDeaths(
    endings.filter(
      ({ processes }) => processes === null || [...members].every((id) => processes.has(id)),
    ),
  );
}

/**
 * One death reported by several observers, with the narrowest interval.
 * @param {Ending[]} deaths in their order
 * @returns {Ending | null}
 */
function combineDeaths(deaths) {
  const [first] = deaths;
  if (first === undefined) return null;
  const before = deaths.flatMap(({ notBefore }) => (notBefore === null ? [] : [notBefore]));
  const after = deaths.flatMap(({ notAfter }) => (notAfter === null ? [] : [notAfter]));
  return {
    ...first,
    notBefore: before.length ? Math.max(...before) : null,
    notAfter: after.length ? Math.min(...after) : null,
  };
}

/** @param {Ending[]} endings @returns {Ending | null} */
function bestOf(endings) {
  /** @type {Ending | null} */
  let best = null;
  for (const ending of endings) if (endingBeats(ending, best)) best = ending;
  return best;
}

/**
 * The attempt that a producer worked on at this moment: the last one it had named, else its first.
 * @param {Start[]} joins in their order
 * @param {Order} order
 */
function joinedAt(joins, order) {
  const before = joins.filter((each) => compareOrders(each.order, order) <= 0);
  return (before.at(-1) ?? joins[0])?.attempt ?? null;
}

/**
 * The index of the attempt that was open at this moment: the last one that had started.
 * @param {{start: Order | null}[]} attempts @param {Order} order
 */
function openAt(attempts, order) {
  const found = attempts.findLastIndex(
    ({ start }) => start !== null && compareOrders(start, order) <= 0,
  );
  return Math.max(0, found);
}

/** @param {{order: Order}} one @param {{order: Order}} other */
function byOrder(one, other) {
  return compareOrders(one.order, other.order);
}
