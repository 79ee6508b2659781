/**
 * Agent spans, calls of tools and models, and graph nodes, built from the events that start and end them.
 *
 * A start and an end share a call id. Third-party producers send none for agents and nodes; there an end closes the
 * latest open start of the same agent, node or tool.
 */

import { CALL_LINK, resolveParents } from "./call-links.js";
import { addTo } from "./groups.js";
import { completeFacts, isCounted, joinRepeated, modelFacts } from "./model-calls.js";
import { roundHalfEven } from "./numbers.js";
import { compareOrders, orderOf } from "./order.js";
import { inputPreview, otherFieldsPreview, outputPreview } from "./preview.js";
import { durationOf, endStatus, errorTextOf, payloadOf, textOf, toolStatus } from "./payloads.js";

/** @import { CallUsage, ModelFacts } from "./model-calls.js" */
/** @import { Order, WireEvent } from "./order.js" */

/** The status of a call without an end in an attempt that has ended. */
export const ABANDONED = "abandoned";

/**
 * The start or the end of a call, from one event.
 *
 * @typedef {object} Mark
 * @property {Order} order
 * @property {string} kind `agent`, `tool`, `model` or `node`
 * @property {string} name
 * @property {string} status
 * @property {string | null} agentName
 * @property {string | null} parentCallId
 * @property {number | null} durationMs
 * @property {string | null} error
 * @property {ModelFacts | null} model of a call of a model
 * @property {string | null} inputPreview
 * @property {string | null} outputPreview
 *
 * One agent span, call of a tool or model, or node, as `GET /api/runs/{run_id}` returns it.
 *
 * @typedef {object} CallView
 * @property {string} call_id
 * @property {string} kind
 * @property {string} name
 * @property {string | null} agent_name
 * @property {string | null} parent_call_id
 * @property {string} status
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {number | null} duration_ms
 * @property {string | null} error
 * @property {string | null} input_preview what distinguishes the arguments, on one line
 * @property {string | null} output_preview the beginning of the result, on one line
 * @property {string | null} [model] These fields are of a call of a model: as requested, and as the provider states it.
 * @property {string | null} [response_model]
 * @property {string | null} [provider]
 * @property {CallUsage | null} [usage]
 * @property {number | null} [cost] US dollars; null if no price is known.
 * @property {string[] | null} [finish_reasons]
 * @property {number | null} [time_to_first_token_ms]
 * @property {number | null} [chunk_count]
 */

/** A start, an end, or both. */
export class Call {
  /** @param {string} callId @param {Mark | null} start @param {Mark | null} end */
  constructor(callId, start, end) {
    this.callId = callId;
    this.start = start;
    this.end = end;
  }

  /** The start, or the end of a call without a recorded start. */
  get first() {
    return /** @type {Mark} */ (this.start ?? this.end);
  }

  get parentCallId() {
    return this.first.parentCallId || (this.end?.parentCallId ?? null);
  }

  /** What the events state about a call of a model; null for other kinds. */
  get model() {
    const [last, first] = [this.end?.model, this.start?.model];
    return last && first ? completeFacts(last, first) : (last ?? first ?? null);
  }

  /** The same call with other facts of its model. @param {ModelFacts | null} model */
  withModel(model) {
    return new Call(this.callId, this.start, this.end && { ...this.end, model });
  }

  /** The time of the start; for a call without one, the time of the end less the duration. */
  get startedAt() {
    if (this.start !== null) return this.start.order[0];
    return Math.max(0, this.first.order[0] - roundHalfEven(this.first.durationMs ?? 0));
  }

  /** The duration that the producer measured, else the time between the two events. */
  get durationMs() {
    if (this.end === null) return null;
    if (this.end.durationMs !== null) return this.end.durationMs;
    return this.start === null ? null : Math.max(0, this.end.order[0] - this.start.order[0]);
  }

  /** The earlier start counts, and the end with the usage. @param {Mark} mark */
  add(mark) {
    if (mark.status === "started") this.start = earlier(this.start, mark);
    else this.end = earlier(this.end, mark);
  }

  /** The same call with this parent, and this agent unless it has one. @param {string | null} parent @param {string | null} agent */
  within(parent, agent) {
    /** @param {Mark | null} mark */
    const changed = (mark) =>
      mark && { ...mark, parentCallId: parent, agentName: mark.agentName || agent };
    return new Call(this.callId, changed(this.start), changed(this.end));
  }

  /**
   * @param {boolean} [hasEnded] Whether the attempt has ended: a call without an end is then abandoned.
   * @returns {CallView}
   */
  view(hasEnded = false) {
    const { first, end, model } = this;
    return {
      call_id: this.callId,
      kind: first.kind,
      name: first.name,
      agent_name: first.agentName || (end?.agentName ?? null),
      parent_call_id: this.parentCallId,
      status: end?.status ?? (hasEnded ? ABANDONED : "started"),
      started_at: this.startedAt,
      ended_at: end?.order[0] ?? null,
      duration_ms: this.durationMs,
      error: end?.error ?? null,
      input_preview: first.inputPreview || (end?.inputPreview ?? null),
      output_preview: end?.outputPreview ?? null,
      ...(first.kind === "model" && model ? modelView(model) : {}),
    };
  }
}

/** @param {ModelFacts} facts */
function modelView(facts) {
  return {
    model: facts.model,
    response_model: facts.responseModel,
    provider: facts.provider,
    usage: facts.usage,
    cost: null, // prices are known to the server
    finish_reasons: facts.finishReasons,
    time_to_first_token_ms: facts.timeToFirstTokenMs,
    chunk_count: facts.chunkCount,
  };
}

/** The calls of a run, from events in any order. */
export class Calls {
  /** @type {Map<string, Call>} */
  #named = new Map();
  /** @type {Map<string, Mark[]>} */
  #unnamed = new Map(); // by subject
  #hasModels = false; // some are calls of models, which may be recorded twice
  /** @type {import("./call-links.js").Links} */
  #links = new Map();
  #hasOutsideCalls = false; // of programs without a recorder: their parents have to be found

  /** @param {WireEvent} event */
  add(event) {
    const found = markOf(event);
    if (found === null) {
      if (event.type === CALL_LINK && event.call_id != null) this.#addLink(event.call_id, event);
      return;
    }
    const { subject, mark } = found;
    this.#hasModels ||= mark.model !== null;
    if (event.producer == null && event.parent_call_id != null) this.#hasOutsideCalls = true;
    if (event.call_id == null) {
      addTo(this.#unnamed, subject, mark);
      return;
    }
    let call = this.#named.get(event.call_id);
    if (!call) this.#named.set(event.call_id, (call = new Call(event.call_id, null, null)));
    call.add(mark);
  }

  /** Of two links of one span the earlier counts. @param {string} spanId @param {WireEvent} event */
  #addLink(spanId, event) {
    const order = orderOf(event);
    const other = this.#links.get(spanId);
    if (other && compareOrders(other.order, order) <= 0) return;
    this.#links.set(spanId, { order, parent: event.parent_call_id ?? null });
  }

  /**
   * The calls whose first event matches, and those without an id that such events make, in the order they began.
   * @param {(order: Order) => boolean} wanted
   */
  select(wanted) {
    /** @type {Map<string, Call>} */
    const calls = new Map();
    for (const marks of this.#unnamed.values()) {
      marks.sort((one, other) => compareOrders(one.order, other.order));
      for (const call of pairMarks(marks.filter(({ order }) => wanted(order))))
        calls.set(call.callId, call);
    }
    for (const [callId, call] of this.#named) if (wanted(call.first.order)) calls.set(callId, call);
    const found = this.#hasOutsideCalls ? resolveParents(calls, this.#links) : calls;
    return [...(this.#hasModels ? joinRepeated(found) : found).values()].sort(
      (one, other) =>
        one.startedAt - other.startedAt || compareOrders(one.first.order, other.first.order),
    );
  }
}

/**
 * The start or end that this event marks, and the subject to pair it by if it has no call id.
 * @param {WireEvent} event @returns {{subject: string, mark: Mark} | null}
 */
export function markOf(event) {
  const payload = payloadOf(event);
  const agentName = event.agent_name || textOf(payload, "agent_name");
  let kind, name, status, subject;
  switch (event.type) {
    case "tool_call":
      kind = "tool";
      name = textOf(payload, "operation", "tool_name", "name") ?? "tool";
      status = toolStatus(payload);
      subject = `${agentName ?? ""}/${name}`;
      break;
    case "agent_start":
    case "agent_end":
      kind = "agent";
      name = event.agent_name || (textOf(payload, "agent_name", "node_name") ?? "agent");
      status = event.type === "agent_end" ? endStatus(payload) : "started";
      subject = name;
      break;
    case "model_call":
      kind = "model";
      name = textOf(payload, "model", "response_model", "operation") ?? "model";
      status = toolStatus(payload);
      subject = `${event.agent_name ?? ""}/${name}`;
      break;
    case "node_start":
    case "node_stop":
      kind = "node";
      subject = textOf(payload, "node_id", "node_name") ?? "node";
      name = textOf(payload, "node_name") ?? subject;
      status = event.type === "node_stop" ? endStatus(payload) : "started";
      break;
    case "block":
      if (payload["kind"] !== "tool_use" && payload["kind"] !== "tool_result") return null;
      kind = "tool";
      name = textOf(payload, "tool_name") ?? "tool";
      subject = textOf(payload, "tool_use_id") ?? name;
      status = payload["kind"] === "tool_result" ? endStatus(payload) : "started";
      break;
    default:
      return null;
  }
  const [given, result] = previewsOf(event.type, status, payload);
  const mark = {
    order: orderOf(event),
    kind,
    name,
    status,
    agentName: agentName || null,
    parentCallId: event.parent_call_id ?? null,
    durationMs: durationOf(payload),
    error: errorTextOf(payload),
    model: event.type === "model_call" ? modelFacts(payload) : null,
    inputPreview: given,
    outputPreview: result,
  };
  return { subject: `${kind} ${subject}`, mark };
}

/**
 * The previews of the arguments and of the result.
 * @param {string} type @param {string} status @param {import("./payloads.js").Payload} payload
 * @returns {[given: string | null, result: string | null]}
 */
function previewsOf(type, status, payload) {
  const isStart = status === "started";
  const given = inputPreview(type, payload);
  const result = isStart ? null : outputPreview(payload);
  if (given !== null || result !== null) return [given, result];
  const other = otherFieldsPreview(type, payload);
  return isStart ? [other, null] : [null, other];
}

/** @param {Mark[]} marks @returns {Call[]} */
function pairMarks(marks) {
  /** @type {Mark[]} */
  const open = [];
  /** @type {Call[]} */
  const calls = [];
  for (const mark of marks) {
    if (mark.status === "started") {
      open.push(mark);
      continue;
    }
    const start = open.pop() ?? null;
    calls.push(new Call(idFrom(start ?? mark), start, mark));
  }
  return [...calls, ...open.map((start) => new Call(idFrom(start), start, null))];
}

/** @param {Mark} mark */
function idFrom(mark) {
  return `${mark.kind}:${mark.order[3]}`;
}

/** Of two ends of a model call the one with the usage, else the earlier one. @param {Mark | null} one @param {Mark} other */
function earlier(one, other) {
  const isEnd = other.status !== "started";
  const counted = isEnd
    ? Number(isCounted(other.model)) - Number(isCounted(one?.model ?? null))
    : 0;
  if (one !== null && counted) return counted > 0 ? other : one;
  return one !== null && compareOrders(one.order, other.order) <= 0 ? one : other;
}
