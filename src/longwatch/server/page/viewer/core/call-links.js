/**
 * Finds the parents and agents of calls whose spans arrived in any order.
 *
 * A span that is sent over OTLP names the span around it, which may not be a recorded call. Then a `call_link` states
 * the parent of that span, and links lead to the nearest recorded call. The agent of such a call is the one of the
 * nearest call above it that has one.
 */

/** @import { Call } from "./calls.js" */
/** @import { Order } from "./order.js" */

export const CALL_LINK = "call_link";

/** @typedef {Map<string, {order: Order, parent: string | null}>} Links by the id of a span that is not recorded */

/**
 * The calls with the nearest recorded call as their parent, and with the agent around them.
 * @param {Map<string, Call>} calls @param {Links} links @returns {Map<string, Call>}
 */
export function resolveParents(calls, links) {
  /** @type {Map<string, string | null>} */
  const parents = new Map();
  for (const [callId, call] of calls)
    parents.set(callId, nearestCall(parentOf(call), calls, links));
  /** @type {Map<string, string | null>} */
  const agents = new Map();
  for (const callId of calls.keys()) findAgent(callId, calls, parents, agents);
  /** @type {Map<string, Call>} */
  const resolved = new Map();
  for (const [callId, call] of calls) {
    const parent = parents.get(callId) ?? null;
    const agent = agents.get(callId) ?? null;
    const isSame = parentOf(call) === parent && agentOf(call) === agent;
    resolved.set(callId, isSame ? call : call.within(parent, agent));
  }
  return resolved;
}

/**
 * The first recorded call on the way up. Without one: null, or the id of a span that is missing.
 * @param {string | null} parent @param {Map<string, Call>} calls @param {Links} links
 */
function nearestCall(parent, calls, links) {
  let steps = 0;
  while (parent !== null && !calls.has(parent)) {
    const link = links.get(parent);
    if (!link) break;
    parent = link.parent;
    if (++steps > links.size) return null; // the links form a circle
  }
  return parent;
}

/**
 * Set the agent of this call and of those above it that have none.
 * @param {string} callId @param {Map<string, Call>} calls
 * @param {Map<string, string | null>} parents @param {Map<string, string | null>} agents
 */
function findAgent(callId, calls, parents, agents) {
  /** @type {string[]} */
  const path = [];
  /** @type {string | null} */
  let agent = null;
  /** @type {string | null} */
  let step = callId;
  while (step !== null) {
    const call = calls.get(step);
    if (!call) break;
    if (agents.has(step)) {
      agent = agents.get(step) ?? null;
      break;
    }
    agents.set(step, null); // also ends a circle
    path.push(step);
    agent = agentOf(call);
    if (agent !== null) break;
    step = parents.get(step) ?? null;
  }
  for (const each of path) agents.set(each, agent);
}

/** @param {Call} call */
function parentOf(call) {
  return call.first.parentCallId || (call.end?.parentCallId ?? null);
}

/** @param {Call} call */
function agentOf(call) {
  return call.first.agentName || (call.end?.agentName ?? null);
}
