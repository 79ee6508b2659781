/**
 * What comes over the wire, as types. Nothing here runs.
 *
 * @typedef {{[name: string]: unknown}} Payload
 *
 * @typedef {import("../core/order.js").WireEvent} RunEvent
 * @typedef {import("../core/calls.js").CallView} Call an agent span, a tool call or a graph node
 *
 * @typedef {{name: string, message: string}} Condition
 *
 * @typedef {object} Summary one line of the list of runs
 * @property {string} run_id
 * @property {string} status
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
 * @property {number | null} [expired_before]
 * @property {Condition[]} [conditions]
 *
 * @typedef {object} Block
 * @property {string} id
 * @property {number} sequence
 * @property {"thinking" | "content" | "tool_use" | "tool_result"} type
 * @property {string} created_at
 * @property {Payload} content
 *
 * @typedef {object} Turn
 * @property {string} id
 * @property {string} project_id
 * @property {string} session_id
 * @property {number} number
 * @property {string | null} prompt
 * @property {string} status
 * @property {Block[]} [blocks]
 * @property {number} block_count
 * @property {string | null} error
 * @property {string} created_at
 * @property {string | null} started_at
 * @property {string | null} completed_at
 * @property {string} last_updated
 *
 * @typedef {object} FileEntry
 * @property {string} path
 * @property {number} version
 * @property {string} last_modified
 * @property {string} created_at
 * @property {number} size
 * @property {string} sha256
 * @property {"text" | "binary"} kind
 * @property {boolean} deleted
 *
 * @typedef {{id: string, name: string | null, created_at: string}} Project
 * @typedef {{id: string, title: string | null, created_at: string, turn_count: number, last_turn: {id: string, status: string} | null}} Session
 *
 * @typedef {{nodes: GraphNode[], edges: GraphEdge[]}} Graph
 * @typedef {{id: string, name: string, role: string}} GraphNode
 * @typedef {{from: string, to: string, condition: string}} GraphEdge
 */

export {};
