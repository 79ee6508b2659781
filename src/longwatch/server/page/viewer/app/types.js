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
 * @typedef {import("../core/run-fold.js").SummaryView & {conditions?: Condition[]}} Summary one line of the list of runs
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
 * @typedef {{name: string, status: string, servers: number, states: Record<string, number>}} Progress how far a wave is
 *
 * @typedef {object} Eta
 * @property {string} text
 * @property {number | null} expected_at
 * @property {number | null} earliest_at
 * @property {number | null} latest_at
 * @property {number} usual_low_ms
 * @property {number} usual_middle_ms
 * @property {number} usual_high_ms
 * @property {number} longest_ms
 * @property {boolean} beyond_usual
 * @property {number} samples
 *
 * @typedef {object} ExecutionLine one line of the list of executions
 * @property {string} execution_id
 * @property {string} plan_id
 * @property {string} run_id
 * @property {string | null} name
 * @property {string} source
 * @property {string} mode
 * @property {string} status
 * @property {string | null} phase
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {boolean} late
 * @property {number | null} total_waves
 * @property {number} stored_waves
 * @property {number} servers
 * @property {number} servers_ended
 * @property {number} servers_done
 * @property {number} servers_failed
 * @property {string} progress_text such as `3 of 5 done, 1 failed`
 * @property {number} warning_count
 * @property {Condition[]} conditions
 * @property {string | null} waiting_for
 * @property {Eta | null} eta
 * @property {number | null} silent_at
 * @property {number | null} deadline_at
 * @property {number | null} last_polled_at
 * @property {number | null} last_answer_at
 * @property {number | null} last_change_at
 * @property {string | null} last_error
 * @property {number} failures
 * @property {number | null} next_poll_at
 * @property {string | null} lease_holder
 * @property {number | null} lease_until
 * @property {number} version
 * @property {boolean} closed
 * @property {string | null} message
 * @property {Progress[]} progress
 *
 * @typedef {{name: string, state: string, reason: string | null, since: number | null}} LaunchAction
 * @typedef {{server_id: string, state: string, word: string | null, instance_id: string | null, reason: string | null, failure_reason: string | null, since: number | null, actions: LaunchAction[]}} Server
 * @typedef {{job_id: string, state: string, word: string | null, region: string | null, account: string | null, since: number | null}} Job
 * @typedef {{name: string, status: string, jobs: Job[], servers: Server[]}} Wave
 * @typedef {{call: string, at: number, fields: Payload}} Evidence
 * @typedef {{status: string, at: number, message: string | null, late: boolean, warnings: string[], corrects: string | null, evidence: Evidence[]}} Verdict
 * @typedef {{about: string, text: string, at: number | null}} Fact
 * @typedef {ExecutionLine & {waves: Wave[], verdict: Verdict | null, explained: Fact[]}} Execution
 *
 * @typedef {{nodes: GraphNode[], edges: GraphEdge[]}} Graph
 * @typedef {{id: string, name: string, role: string}} GraphNode
 * @typedef {{from: string, to: string, condition: string}} GraphEdge
 */

export {};
