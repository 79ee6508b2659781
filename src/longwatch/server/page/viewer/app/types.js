/**
 * What comes over the wire, as types. Nothing here runs.
 *
 * @typedef {{[name: string]: unknown}} Payload
 *
 * @typedef {import("../core/order.js").WireEvent} RunEvent
 * @typedef {import("../core/calls.js").CallView} Call an agent span, a tool call or a graph node
 *
 * @typedef {import("../core/run-fold.js").SummaryView & {conditions?: Condition[], usage?: Usage | null, failure?: Failure | null}} Summary one line of the list of runs
 *
 * @typedef {{nodes: GraphNode[], edges: GraphEdge[]}} Graph
 * @typedef {{id: string, name: string, role: string}} GraphNode
 * @typedef {{from: string, to: string, condition: string}} GraphEdge
 */

// Generated from the OpenAPI schema by `scripts/js-types`.
/**
 * @typedef {object} Condition A condition of the run or execution at this moment.
 * @property {string} name
 * @property {string} message
 *
 * @typedef {object} Rate The price of a million tokens of one model, in US dollars; null: not known.
 * @property {string} provider
 * @property {string} model
 * @property {string} response_model
 * @property {number} size
 * @property {number | null} input
 * @property {number | null} output
 * @property {number | null} cache_read
 * @property {number | null} cache_write
 *
 * @typedef {object} Failure Why a run failed, and where.
 * @property {string} error
 * @property {string | null} error_class
 * @property {string | null} call
 * @property {string | null} call_kind
 * @property {string | null} agent_name
 * @property {string} group
 *
 * @typedef {object} Usage The model calls of a run, an agent, a conversation or a list, with the coverage of every sum.
 * @property {number} model_calls
 * @property {number} calls_with_tokens
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number} cache_read_tokens
 * @property {number} cache_write_tokens
 * @property {number} reasoning_tokens
 * @property {number | null} cost
 * @property {number} priced_calls
 * @property {string} currency
 * @property {Rate[]} rates
 * @property {string[]} threads
 *
 * @typedef {object} FileEntry One file. Deleted files appear only among changes.
 * @property {string} path
 * @property {number} version
 * @property {string} last_modified
 * @property {string} created_at
 * @property {number} size
 * @property {string} sha256
 * @property {"text" | "binary"} kind
 * @property {boolean} deleted
 *
 * @typedef {object} Project A project: its sessions and its files.
 * @property {string} id
 * @property {string | null} name
 * @property {string} created_at
 *
 * @typedef {object} LastTurn The newest turn of a session and its status.
 * @property {string} id
 * @property {"pending" | "running" | "completed" | "failed"} status
 *
 * @typedef {object} Session A session: turns that follow each other.
 * @property {string} id
 * @property {string | null} title
 * @property {string} created_at
 * @property {number} turn_count
 * @property {LastTurn | null} last_turn
 *
 * @typedef {object} Progress Progress of one wave.
 * @property {string} name
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} status
 * @property {number} servers
 * @property {Record<string, number>} states
 *
 * @typedef {object} Eta The expected end of an open execution, from past executions of its kind.
 * @property {string} text
 * @property {number | null} expected_at
 * @property {number | null} earliest_at
 * @property {number | null} latest_at
 * @property {number} usual_low_ms
 * @property {number} usual_middle_ms
 * @property {number} usual_high_ms
 * @property {number} longest_ms
 * @property {number} elapsed_ms
 * @property {boolean} beyond_usual
 * @property {number} samples
 *
 * @typedef {object} ExecutionLine An execution in the list, with the progress of each wave.
 * @property {string} execution_id
 * @property {string} plan_id
 * @property {string} run_id
 * @property {string | null} name
 * @property {string} source
 * @property {"DRILL" | "RECOVERY" | "JOB"} mode
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} status
 * @property {string | null} other_status
 * @property {"pending" | "started" | "in_progress" | null} phase
 * @property {number} started_at
 * @property {number | null} ended_at
 * @property {boolean} late
 * @property {number} warning_count
 * @property {number | null} total_waves
 * @property {number} stored_waves
 * @property {number} servers
 * @property {number} servers_ended
 * @property {number} servers_done
 * @property {number} servers_failed
 * @property {string} progress_text
 * @property {Condition[]} conditions
 * @property {string | null} waiting_for
 * @property {Eta | null} eta
 * @property {number | null} deadline_at
 * @property {number | null} last_polled_at
 * @property {number | null} last_answer_at
 * @property {number | null} last_change_at
 * @property {string | null} last_error
 * @property {number} failures
 * @property {number | null} silent_at
 * @property {number | null} recheck_at
 * @property {number | null} next_poll_at
 * @property {string | null} lease_holder
 * @property {number | null} lease_until
 * @property {number} version
 * @property {boolean} closed
 * @property {string | null} message
 * @property {Progress[]} progress
 *
 * @typedef {object} LaunchAction One launch action of a server.
 * @property {string} name
 * @property {"in_progress" | "succeeded" | "failed" | "unknown"} state
 * @property {string | null} word
 * @property {string | null} reason
 * @property {number | null} since
 *
 * @typedef {object} Server One server as of the last response.
 * @property {string} server_id
 * @property {"pending" | "in_progress" | "launched" | "failed" | "terminated" | "cancelled" | "ended" | "unknown"} state
 * @property {string | null} word
 * @property {string | null} instance_id
 * @property {string | null} reason
 * @property {string | null} failure_reason
 * @property {number | null} since
 * @property {LaunchAction[]} actions
 *
 * @typedef {object} Job One job of a wave.
 * @property {string} job_id
 * @property {"pending" | "started" | "finished" | "missing" | "unknown"} state
 * @property {string | null} word
 * @property {string | null} region
 * @property {string | null} account
 * @property {number | null} since
 *
 * @typedef {object} Wave One wave. Its jobs may not exist yet.
 * @property {string} name
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} status
 * @property {Job[]} jobs
 * @property {Server[]} servers
 *
 * @typedef {object} Evidence A response that a verdict is based on.
 * @property {string} call
 * @property {number} at
 * @property {Payload} fields
 *
 * @typedef {object} Verdict How an execution ended.
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} status
 * @property {number} at
 * @property {string | null} message
 * @property {boolean} late
 * @property {string[]} warnings
 * @property {string[]} assumed
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown" | null} corrects
 * @property {Evidence[]} evidence
 *
 * @typedef {object} Fact One fact about an execution.
 * @property {string} about
 * @property {string} text
 * @property {number | null} at
 *
 * @typedef {ExecutionLine & {waves: Wave[], verdict: Verdict | null, explained: Fact[]}} Execution
 *
 * @typedef {object} ExcerptPart A part of the text around a match.
 * @property {string} text
 * @property {boolean} is_match
 *
 * @typedef {object} SearchHit An event that a search found. Times are epoch ms.
 * @property {string} run_id
 * @property {string | null} run_name
 * @property {string} run_kind
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} run_status
 * @property {string} event_id
 * @property {string} type
 * @property {number} occurred_at
 * @property {string | null} agent_name
 * @property {string | null} call_id
 * @property {ExcerptPart[]} excerpt
 *
 * @typedef {object} SearchResults A page of events that a search found.
 * @property {SearchHit[]} hits
 * @property {string | null} cursor
 * @property {number} unindexed
 *
 * @typedef {object} ComparedRun One of two runs. Times are epoch ms.
 * @property {string} run_id
 * @property {string | null} name
 * @property {string} kind
 * @property {"pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown"} status
 * @property {number} started_at
 * @property {number | null} duration_ms
 * @property {(number | null)[] | null} duration_between
 * @property {number} events
 * @property {string | null} error
 * @property {Usage | null} usage
 *
 * @typedef {object} ComparedCall A call of one of the runs.
 * @property {string} call_id
 * @property {string} status
 * @property {number} started_at
 * @property {number | null} duration_ms
 * @property {number | null} tokens
 * @property {string | null} error
 * @property {string | null} input_preview
 * @property {string | null} output_preview
 *
 * @typedef {object} DiffRow A call of one run beside the corresponding one of the other; null: that run has none.
 * @property {number} depth
 * @property {string} kind
 * @property {string} name
 * @property {string | null} agent_name
 * @property {("missing" | "added" | "status" | "error" | "arguments" | "result")[]} differences
 * @property {ComparedCall | null} a
 * @property {ComparedCall | null} b
 *
 * @typedef {object} Comparison Two runs side by side, their calls aligned by structure.
 * @property {ComparedRun} a
 * @property {ComparedRun} b
 * @property {DiffRow[]} rows
 * @property {number} left_out
 * @property {number | null} first_difference
 * @property {number} differing
 * @property {boolean} differs_in_structure
 *
 * @typedef {object} NotificationRule A rule of the settings.
 * @property {string} name
 * @property {string[]} trigger
 * @property {string} runs
 * @property {string} channel
 * @property {number | null} since
 * @property {number} pending
 *
 * @typedef {object} NotificationDelivery A message in the queue, a dead letter or a past delivery.
 * @property {string} delivery_id
 * @property {string} rule
 * @property {string} channel
 * @property {"queued" | "accepted" | "delivered" | "dead"} state
 * @property {string} title
 * @property {number} count
 * @property {string[]} run_ids
 * @property {number} created_at
 * @property {number} attempts
 * @property {number | null} next_at
 * @property {string | null} response
 * @property {string | null} problem
 * @property {number | null} settled_at
 *
 * @typedef {object} NotificationStatus Rules, queue, dead letters and the last deliveries.
 * @property {NotificationRule[]} rules
 * @property {NotificationDelivery[]} queue
 * @property {NotificationDelivery[]} dead_letters
 * @property {NotificationDelivery[]} deliveries
 *
 * @typedef {object} PushRule A rule that sends to browsers.
 * @property {string} name
 * @property {string[]} triggers
 * @property {string} runs
 *
 * @typedef {object} PushConfiguration What a browser needs to subscribe.
 * @property {string | null} public_key
 * @property {string | null} problem
 * @property {PushRule[]} rules
 *
 * @typedef {object} PushSubscriptionView One browser that receives notifications.
 * @property {string} subscription_id
 * @property {string} browser
 * @property {string} page
 * @property {string} service
 * @property {number} created_at
 * @property {number} renewed_at
 * @property {number} ends_at
 * @property {number | null} sent_at
 * @property {string | null} problem
 */

export {};
