/**
 * What the events of a model call state, and the calls that were recorded twice: by an adapter of a framework, by a
 * wrapper of a client, or as a span. The outermost record counts. The same rules as in Python.
 */

import { addTo } from "./groups.js";
import { compareOrders } from "./order.js";
import { numberOf, textOf } from "./payloads.js";

/** @import { Call } from "./calls.js" */
/** @import { Payload } from "./payloads.js" */

const [CLIENT_LAYER, SPAN_LAYER] = [1, 2]; // precedence of a record; that of an adapter is 0
const CLIENT_LAYERS = ["openai", "anthropic", "bedrock"];
const SPAN_LAYERS = ["otel", "otlp"];
const WITHOUT_OUTPUT = ["embeddings"]; // operations that have no output tokens

/**
 * The tokens of one call; null: the provider did not report the count.
 *
 * @typedef {object} CallUsage
 * @property {number | null} input_tokens cached ones included
 * @property {number | null} output_tokens reasoning included
 * @property {number | null} cache_read_tokens
 * @property {number | null} cache_write_tokens
 * @property {number | null} reasoning_tokens
 *
 * @typedef {object} ModelFacts
 * @property {string | null} provider
 * @property {string | null} operation
 * @property {string | null} model as requested
 * @property {string | null} responseModel
 * @property {string | null} responseId
 * @property {string | null} sameAs the call that is recorded already
 * @property {true | null} addsUsage whether that one has no token counts, so that these count
 * @property {string | null} recordedBy
 * @property {string[] | null} finishReasons
 * @property {number | null} timeToFirstTokenMs
 * @property {number | null} chunkCount
 * @property {CallUsage | null} usage
 */

/** @param {Payload} payload @returns {ModelFacts} */
export function modelFacts(payload) {
  const [reasons, chunks] = [payload["finish_reasons"], numberOf(payload, "chunk_count")];
  return {
    provider: textOf(payload, "provider"),
    operation: textOf(payload, "operation"),
    model: textOf(payload, "model"),
    responseModel: textOf(payload, "response_model"),
    responseId: textOf(payload, "response_id"),
    sameAs: textOf(payload, "same_as"),
    addsUsage: payload["adds_usage"] === true || null,
    recordedBy: textOf(payload, "recorded_by"),
    finishReasons: Array.isArray(reasons)
      ? reasons.filter((each) => typeof each === "string")
      : null,
    timeToFirstTokenMs: numberOf(payload, "time_to_first_token_ms"),
    chunkCount: chunks === null ? null : Math.trunc(chunks),
    usage: usageOf(payload),
  };
}

/** @param {Payload} payload @returns {CallUsage | null} */
function usageOf(payload) {
  const usage = {
    input_tokens: countOf(payload, "input_tokens"),
    output_tokens: countOf(payload, "output_tokens"),
    // The second names are those of spans of earlier conventions.
    cache_read_tokens:
      countOf(payload, "cache_read_tokens") ?? countOf(payload, "cache_read_input_tokens"),
    cache_write_tokens:
      countOf(payload, "cache_write_tokens") ?? countOf(payload, "cache_creation_input_tokens"),
    reasoning_tokens: countOf(payload, "reasoning_tokens"),
  };
  return Object.values(usage).some((count) => count !== null) ? usage : null;
}

/** @param {Payload} payload @param {string} name */
function countOf(payload, name) {
  const number = numberOf(payload, name);
  return number === null || number < 0 ? null : Math.trunc(number);
}

/**
 * Whether the totals of the run have the tokens of this record.
 * @param {ModelFacts | null} facts
 */
export function isCounted(facts) {
  const { sameAs = null, addsUsage = null, usage = null, operation = null } = facts ?? {};
  if (usage === null || (sameAs !== null && !addsUsage) || usage.input_tokens === null)
    return false;
  return usage.output_tokens !== null || (operation !== null && WITHOUT_OUTPUT.includes(operation));
}

/**
 * The facts, and those of the other where these are unknown.
 * @param {ModelFacts} facts @param {ModelFacts} other @returns {ModelFacts}
 */
export function completeFacts(facts, other) {
  const known = Object.entries(facts).filter(([, value]) => value !== null);
  return { ...other, ...Object.fromEntries(known) };
}

/**
 * Join the calls of one model response: the record of the outermost layer stays, completed by the others.
 * @param {Map<string, Call>} calls
 */
export function joinRepeated(calls) {
  /** @type {Map<string, Call[]>} */
  const groups = new Map();
  for (const call of calls.values()) {
    const facts = call.end?.model;
    if (facts) addTo(groups, responseKey(facts, call.callId), call);
  }
  /** @type {Map<string, string>} */
  const leaders = new Map(); // a call that is recorded twice → the one that stays
  /** @type {Map<string, Call>} */
  const joined = new Map();
  for (const records of [...groups.values()].flatMap(recordsByCall)) {
    const [first, ...others] = records.sort(byPrecedence);
    if (!first || !others.length) continue;
    for (const other of others) leaders.set(other.callId, first.callId);
    joined.set(first.callId, completeCall(first, others));
  }
  if (!leaders.size) return calls;
  /** @type {Map<string, Call>} */
  const kept = new Map();
  for (const [id, call] of calls)
    if (!leaders.has(id)) kept.set(id, withParent(joined.get(id) ?? call, calls, leaders));
  return kept;
}

/** @param {ModelFacts} facts @param {string} callId */
function responseKey({ responseId, sameAs }, callId) {
  return responseId ? `response ${responseId}` : `call ${sameAs ?? callId}`;
}

/**
 * The records of one response id by call: all are of one call, unless the id is in use for several.
 * @param {Call[]} group
 */
function recordsByCall(group) {
  if (group.length === 1 || !reusesResponseId(group)) return [group];
  /** @type {Map<string, Call[]>} */
  const found = new Map();
  for (const call of group) addTo(found, call.end?.model?.sameAs ?? call.callId, call);
  return [...found.values()];
}

/**
 * Whether several calls have this response id: some local servers have only a few.
 *
 * An adapter or client records each call once, and the spans of one call overlap.
 * @param {Call[]} group
 */
function reusesResponseId(group) {
  const counted = group.filter(
    ({ callId, end }) => end?.model && [null, callId].includes(end.model.sameAs),
  );
  const spans = counted.filter((call) => layerOf(call) === SPAN_LAYER);
  const layers = counted.flatMap((call) => {
    const layer = call.end?.model?.recordedBy;
    return layer && layerOf(call) < SPAN_LAYER ? [layer] : [];
  });
  const lastStart = Math.max(...spans.map((call) => call.startedAt));
  const firstEnd = Math.min(...spans.map((call) => call.end?.order[0] ?? Infinity));
  return lastStart > firstEnd || layers.length > new Set(layers).size;
}

/** @param {Call} one @param {Call} other */
function byPrecedence(one, other) {
  return (
    layerOf(one) - layerOf(other) ||
    one.startedAt - other.startedAt ||
    compareOrders(one.first.order, other.first.order)
  );
}

/** @param {Call} call */
function layerOf({ end }) {
  const layer = end?.model?.recordedBy ?? "";
  if (CLIENT_LAYERS.includes(layer)) return CLIENT_LAYER;
  return SPAN_LAYERS.includes(layer) ? SPAN_LAYER : 0;
}

/**
 * The call, with what only the other records of it state, and with the usage that the totals have.
 * @param {Call} call @param {Call[]} others
 */
function completeCall(call, others) {
  const own = call.end?.model;
  if (!own) return call;
  const records = [own, ...others.flatMap((other) => other.model ?? [])];
  records.sort((one, other) => Number(isCounted(other)) - Number(isCounted(one)));
  const facts = records.reduce(completeFacts);
  return call.withModel({ ...facts, recordedBy: own.recordedBy });
}

/**
 * The call, below the record that stays if its parent was recorded twice.
 * @param {Call} call @param {Map<string, Call>} calls @param {Map<string, string>} leaders
 */
function withParent(call, calls, leaders) {
  let parent = call.parentCallId;
  const seen = new Set();
  while (parent !== null && leaders.has(parent) && !seen.has(parent)) {
    seen.add(parent);
    const leader = /** @type {string} */ (leaders.get(parent));
    parent = leader === call.callId ? (calls.get(parent)?.parentCallId ?? null) : leader;
  }
  return parent === call.parentCallId ? call : call.within(parent, null);
}
