// Generated from the OpenAPI schema by `scripts/js-types`.

/** One block of a turn. */
export interface BlockView {
  id: string;
  sequence: number;
  type: "thinking" | "content" | "tool_use" | "tool_result";
  created_at: string;
  content: Record<string, any>;
}

/** The price of a million tokens of one model, in US dollars; null: not known. */
export interface RateView {
  provider: string;
  model: string;
  response_model: string;
  size: number;
  input: number | null;
  output: number | null;
  cache_read: number | null;
  cache_write: number | null;
}

/** The model calls of a run, an agent, a conversation or a list, with the coverage of every sum. */
export interface UsageView {
  model_calls: number;
  calls_with_tokens: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  cost: number | null;
  priced_calls: number;
  currency: string;
  rates: RateView[];
  threads: string[];
}

/** An open wait. */
export interface WaitView {
  reason: string;
  detail: string | null;
  since: number;
}

/** A block whose message has not ended. The finished block, with an id of its own, replaces it. */
export interface StreamingBlockView {
  id: string;
  type: "thinking" | "content";
  created_at: string;
  text: string;
}

/** A turn with its blocks. */
export interface TurnDetails {
  id: string;
  project_id: string;
  session_id: string;
  number: number;
  prompt: string | null;
  status: "pending" | "running" | "completed" | "failed";
  blocks: BlockView[];
  missing_lines?: number[][];
  usage?: UsageView | null;
  waiting?: WaitView[];
  block_count: number;
  error: string | null;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  last_updated: string;
  streaming?: StreamingBlockView | null;
  blocks_cursor: string;
}

/** A turn without its blocks. */
export interface TurnLine {
  id: string;
  project_id: string;
  session_id: string;
  number: number;
  prompt: string | null;
  status: "pending" | "running" | "completed" | "failed";
  missing_lines?: number[][];
  usage?: UsageView | null;
  waiting?: WaitView[];
  block_count: number;
  error: string | null;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  last_updated: string;
}

/** One file. Deleted files appear only among changes. */
export interface FileView {
  path: string;
  version: number;
  last_modified: string;
  created_at: string;
  size: number;
  sha256: string;
  kind: "text" | "binary";
  deleted: boolean;
}

/** A file that differs from what the client has. */
export interface FileChangeView {
  path: string;
  last_modified: string;
  version: number;
  change_type: "created" | "modified" | "deleted";
}

/** An invalid field and the reason. */
export interface ErrorDetail {
  field: string;
  message: string;
}

/** A project: its sessions and its files. */
export interface ProjectView {
  id: string;
  name: string | null;
  created_at: string;
}

/** The newest turn of a session and its status. */
export interface LastTurn {
  id: string;
  status: "pending" | "running" | "completed" | "failed";
}

/** A session: turns that follow each other. */
export interface SessionView {
  id: string;
  title: string | null;
  created_at: string;
  turn_count: number;
  last_turn: LastTurn | null;
}

/** One event, as `longwatch export` writes it. */
export interface EventView {
  run_id: string;
  event_id: string;
  type: string;
  occurred_at: number;
  agent_name?: string | null;
  call_id?: string | null;
  parent_call_id?: string | null;
  producer?: string | null;
  number?: number | null;
  previous_digest?: string | null;
  trace_id?: string | null;
  ttl?: number | null;
  payload: Record<string, any>;
}

/** Why a run failed, and where. */
export interface FailureView {
  error: string;
  error_class: string | null;
  call: string | null;
  call_kind: string | null;
  agent_name: string | null;
  group: string;
}

/** One attempt at a run. An attempt that was followed by another before it ended is unknown. */
export interface AttemptView {
  number: number;
  attempt: string | null;
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  started_at: number;
  ended_at: number | null;
  ended_between: (number | null)[] | null;
  error: string | null;
}

/** A condition of the run or execution at this moment. */
export interface ConditionView {
  name: string;
  message: string;
}

/** A run as one line of a list, with the status of its last attempt. Times are epoch milliseconds. */
export interface RunLine {
  run_id: string;
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  kind: string;
  name: string | null;
  parent_run_id: string | null;
  started_at: number;
  ended_at: number | null;
  ended_between: (number | null)[] | null;
  duration_ms: number | null;
  duration_between: (number | null)[] | null;
  events: number;
  agents: string[];
  tools: string[];
  tags: string[];
  user: string | null;
  session: string | null;
  failed_calls: number;
  error: string | null;
  failure: FailureView | null;
  warning_count: number;
  last_event_type: string;
  last_event_at: number;
  expired_before: number | null;
  attempts: AttemptView[];
  usage: UsageView | null;
  waiting: WaitView[];
  waiting_ms: Record<string, number>;
  conditions: ConditionView[];
}

/** The expected end of an open execution, from past executions of its kind. */
export interface EtaView {
  text: string;
  expected_at: number | null;
  earliest_at: number | null;
  latest_at: number | null;
  usual_low_ms: number;
  usual_middle_ms: number;
  usual_high_ms: number;
  longest_ms: number;
  elapsed_ms: number;
  beyond_usual: boolean;
  samples: number;
}

/** Progress of one wave. */
export interface WaveProgress {
  name: string;
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  servers: number;
  states: Record<string, number>;
}

/** An execution in the list, with the progress of each wave. */
export interface ExecutionListItem {
  execution_id: string;
  plan_id: string;
  run_id: string;
  name: string | null;
  source: string;
  mode: "DRILL" | "RECOVERY" | "JOB";
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  other_status: string | null;
  phase: "pending" | "started" | "in_progress" | null;
  started_at: number;
  ended_at: number | null;
  late: boolean;
  warning_count: number;
  total_waves: number | null;
  stored_waves: number;
  servers: number;
  servers_ended: number;
  servers_done: number;
  servers_failed: number;
  progress_text: string;
  conditions: ConditionView[];
  waiting_for: string | null;
  eta: EtaView | null;
  deadline_at: number | null;
  last_polled_at: number | null;
  last_answer_at: number | null;
  last_change_at: number | null;
  last_error: string | null;
  failures: number;
  silent_at: number | null;
  recheck_at: number | null;
  next_poll_at: number | null;
  lease_holder: string | null;
  lease_until: number | null;
  version: number;
  closed: boolean;
  message: string | null;
  progress: WaveProgress[];
}

/** One job of a wave. */
export interface JobView {
  job_id: string;
  state: "pending" | "started" | "finished" | "missing" | "unknown";
  word: string | null;
  region: string | null;
  account: string | null;
  since: number | null;
}

/** One launch action of a server. */
export interface ActionView {
  name: string;
  state: "in_progress" | "succeeded" | "failed" | "unknown";
  word: string | null;
  reason: string | null;
  since: number | null;
}

/** One server as of the last response. */
export interface ServerView {
  server_id: string;
  state:
    | "pending"
    | "in_progress"
    | "launched"
    | "failed"
    | "terminated"
    | "cancelled"
    | "ended"
    | "unknown";
  word: string | null;
  instance_id: string | null;
  reason: string | null;
  failure_reason: string | null;
  since: number | null;
  actions: ActionView[];
}

/** One wave. Its jobs may not exist yet. */
export interface WaveView {
  name: string;
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  jobs: JobView[];
  servers: ServerView[];
}

/** A response that a verdict is based on. */
export interface EvidenceView {
  call: string;
  at: number;
  fields: Record<string, any>;
}

/** How an execution ended. */
export interface VerdictView {
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  at: number;
  message: string | null;
  late: boolean;
  warnings: string[];
  assumed: string[];
  corrects:
    | "pending"
    | "running"
    | "succeeded"
    | "failed"
    | "partial"
    | "cancelled"
    | "died"
    | "unknown"
    | null;
  evidence: EvidenceView[];
}

/** One fact about an execution. */
export interface FactView {
  about: string;
  text: string;
  at: number | null;
}

/** Everything that is known of one execution. */
export interface ExecutionDetails {
  execution_id: string;
  plan_id: string;
  run_id: string;
  name: string | null;
  source: string;
  mode: "DRILL" | "RECOVERY" | "JOB";
  status:
    "pending" | "running" | "succeeded" | "failed" | "partial" | "cancelled" | "died" | "unknown";
  other_status: string | null;
  phase: "pending" | "started" | "in_progress" | null;
  started_at: number;
  ended_at: number | null;
  late: boolean;
  warning_count: number;
  total_waves: number | null;
  stored_waves: number;
  servers: number;
  servers_ended: number;
  servers_done: number;
  servers_failed: number;
  progress_text: string;
  conditions: ConditionView[];
  waiting_for: string | null;
  eta: EtaView | null;
  deadline_at: number | null;
  last_polled_at: number | null;
  last_answer_at: number | null;
  last_change_at: number | null;
  last_error: string | null;
  failures: number;
  silent_at: number | null;
  recheck_at: number | null;
  next_poll_at: number | null;
  lease_holder: string | null;
  lease_until: number | null;
  version: number;
  waves: WaveView[];
  verdict: VerdictView | null;
  closed: boolean;
  message: string | null;
  progress: WaveProgress[];
  explained: FactView[];
}

/** One message. The fields of its data depend on its name. */
export interface FeedMessage {
  event:
    | "event"
    | "caught_up"
    | "missed"
    | "ended"
    | "run"
    | "run_deleted"
    | "turn"
    | "block"
    | "block_delta"
    | "files"
    | "project"
    | "session"
    | "execution"
    | "beat"
    | "closing"
    | "error";
  data: Record<string, any>;
}
