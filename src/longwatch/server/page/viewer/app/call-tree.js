/**
 * Calls as rows: what was made from what, depth first, in the order they began.
 */

/** @import { Call } from "./types.js" */
/** @typedef {{call: Call, depth: number, children: number}} CallRow */

/**
 * @param {Call[]} calls in the order they began
 * @param {Set<string>} closed ids whose children are not shown
 * @returns {CallRow[]}
 */
export function callRows(calls, closed) {
  // Only an earlier call can be a parent: so there is no circle, whatever the events say.
  const known = /** @type {Set<string>} */ (new Set());
  const agents = latestAgents(calls);
  /** @type {Map<string, Call[]>} */
  const children = new Map();
  /** @type {Call[]} */
  const roots = [];
  for (const call of calls) {
    const parent = parentOf(call, known, agents);
    known.add(call.call_id);
    if (!parent) {
      roots.push(call);
      continue;
    }
    const list = children.get(parent);
    if (list) list.push(call);
    else children.set(parent, [call]);
  }
  /** @type {CallRow[]} */
  const rows = [];
  const stack = roots.map((call) => ({ call, depth: 0 })).reverse();
  while (stack.length) {
    const { call, depth } = /** @type {{call: Call, depth: number}} */ (stack.pop());
    const below = children.get(call.call_id) ?? [];
    rows.push({ call, depth, children: below.length });
    if (closed.has(call.call_id)) continue;
    for (let at = below.length - 1; at >= 0; at -= 1) stack.push({ call: /** @type {Call} */ (below[at]), depth: depth + 1 });
  }
  return rows;
}

/**
 * A call without a parent id belongs to the span of its agent that was open when it began.
 * @param {Call} call
 * @param {Set<string>} known
 * @param {Map<string, Call[]>} agents
 */
function parentOf(call, known, agents) {
  const named = call.parent_call_id;
  if (named && known.has(named)) return named;
  if (call.kind !== "tool" || !call.agent_name) return null;
  const spans = agents.get(call.agent_name) ?? [];
  for (let at = spans.length - 1; at >= 0; at -= 1) {
    const span = /** @type {Call} */ (spans[at]);
    if (span.started_at > call.started_at) continue;
    return span.ended_at === null || span.ended_at >= call.started_at ? span.call_id : null;
  }
  return null;
}

/** @param {Call[]} calls */
function latestAgents(calls) {
  /** @type {Map<string, Call[]>} */
  const agents = new Map();
  for (const call of calls) {
    if (call.kind !== "agent") continue;
    const list = agents.get(call.name);
    if (list) list.push(call);
    else agents.set(call.name, [call]);
  }
  return agents;
}
