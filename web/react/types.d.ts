// Generated from the OpenAPI schema by `scripts/js-types`.

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

/** One block of a turn. */
export interface BlockView {
  id: string;
  sequence: number;
  type: "thinking" | "content" | "tool_use" | "tool_result";
  created_at: string;
  content: Record<string, any>;
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
