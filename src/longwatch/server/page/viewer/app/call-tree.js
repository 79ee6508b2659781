/** Calls as the rows of a tree: depth first, in the order they began. */

import { addTo } from "../core/groups.js";

/** @import { Call } from "./types.js" */
/** @typedef {{call: Call, depth: number, children: number}} CallRow */

/**
 * @param {Call[]} calls in the order they began
 * @param {Set<string>} closed ids of the collapsed calls
 * @returns {CallRow[]}
 */
export function callRows(calls, closed) {
  // Only an earlier call can be a parent, so there is no cycle whatever the events state.
  const earlier = /** @type {Set<string>} */ (new Set());
  const agents = latestAgents(calls);
  /** @type {Map<string, Call[]>} */
  const children = new Map();
  /** @type {Call[]} */
  const roots = [];
  for (const call of calls) {
    const parent = parentOf(call, earlier, agents);
    earlier.add(call.call_id);
    if (parent) addTo(children, parent, call);
    else roots.push(call);
  }
  /** @type {CallRow[]} */
  const rows = [];
  const stack = roots.map((call) => ({ call, depth: 0 })).reverse();
  while (stack.length) {
    const { call, depth } = /** @type {{call: Call, depth: number}} */ (stack.pop());
    const below = children.get(call.call_id) ?? [];
    rows.push({ call, depth, children: below.length });
    if (closed.has(call.call_id)) continue;
    for (const child of below.toReversed()) stack.push({ call: child, depth: depth + 1 });
  }
  return rows;
}

/**
 * A call without a parent id belongs to the span of its agent that was open when it began.
 * @param {Call} call @param {Set<string>} earlier @param {Map<string, Call[]>} agents
 */
function parentOf(call, earlier, agents) {
  const named = call.parent_call_id;
  if (named && earlier.has(named)) return named;
  if (call.kind === "agent" || call.kind === "node" || !call.agent_name) return null;
  const span = agents.get(call.agent_name)?.findLast((each) => each.started_at <= call.started_at);
  return span && (span.ended_at === null || span.ended_at >= call.started_at) ? span.call_id : null;
}

/** @param {Call[]} calls */
function latestAgents(calls) {
  /** @type {Map<string, Call[]>} */
  const agents = new Map();
  for (const call of calls) if (call.kind === "agent") addTo(agents, call.name, call);
  return agents;
}
