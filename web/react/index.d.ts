import type { QueryClient } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import type { Doc } from "yjs";
import type {
  BlockView,
  ErrorDetail,
  EventView,
  ExecutionDetails,
  ExecutionListItem,
  FileChangeView,
  FileView,
  ProjectView,
  RunLine,
  SessionView,
  StreamingBlockView,
  TurnDetails,
  TurnLine,
} from "./types.js";

export type { ErrorDetail };

export interface LongwatchProviderProps {
  /** URL of `longwatch serve`; without it, the origin of the page. */
  baseUrl?: string;
  /** The project of the hooks below that are not passed another. */
  projectId?: string;
  /** A replacement for `fetch`, for tests or for requests that need more than headers. */
  fetch?: (url: string, options?: RequestInit) => Promise<Response>;
  /** Sent with every request, such as `Authorization`. */
  headers?: Record<string, string>;
  /** Without it, the shared manager of the page. */
  manager?: PollingManager;
  /** Without it, that of the `QueryClientProvider` above, or a new one. */
  queryClient?: QueryClient;
  children?: ReactNode;
}

/** Provides the server and the project of the hooks below. */
export function LongwatchProvider(props: LongwatchProviderProps): ReactElement;

export type TurnStatus = TurnDetails["status"];

interface BlockOf<Type extends BlockView["type"], Content> {
  id: string;
  /** From 0. A block moves if an earlier one arrives late. */
  sequence: number;
  type: Type;
  created_at: Date;
  content: Content;
}

export type ThinkingBlock = BlockOf<"thinking", { text: string }>;
export type ContentBlock = BlockOf<"content", { text: string }>;
export type ToolUseBlock = BlockOf<
  "tool_use",
  { tool_use_id: string; tool_name: string; parameters: any }
>;
export type ToolResultBlock = BlockOf<
  "tool_result",
  { tool_use_id: string; result: any; error: string | null }
>;

/** One block of a turn. Its `type` decides which `content` it has. */
export type Block = ThinkingBlock | ContentBlock | ToolUseBlock | ToolResultBlock;

/** Text that grows: a block whose message has not ended. A finished block replaces it. */
export interface StreamingBlock extends Omit<StreamingBlockView, "created_at"> {
  created_at: Date;
}

type TurnTime = "created_at" | "started_at" | "completed_at" | "last_updated";

export interface Turn extends Omit<
  TurnDetails,
  "prompt" | "blocks" | "blocks_cursor" | "streaming" | "error" | TurnTime
> {
  prompt?: string;
  blocks: Block[];
  streaming?: StreamingBlock;
  error?: string;
  created_at: Date;
  started_at?: Date;
  completed_at?: Date;
  last_updated: Date;
}

/** A turn of `useSession`. */
export interface SessionTurn extends Turn {
  /** It was sent, and the server has not confirmed it. If that fails, it disappears. */
  isUnconfirmed?: true;
}

export interface SessionSnapshot {
  /** The history and the live turn, oldest first. A turn or block that has not changed is the same object. */
  turns: SessionTurn[];
  /** The turn that is pending or running; its `streaming` is the text that grows. */
  liveTurn: SessionTurn | undefined;
  /** Until the history is complete. A session that does not exist yet is empty, and shows its turns once it is created. */
  isLoading: boolean;
  /** `live`: over the stream; `polling`: over long or plain polls, until the stream works again. */
  connection: FeedState;
  /** Why the session cannot be followed: an `ApiError`, such as 401. Of failed actions: see their promises. */
  error: Error | null;
}

export interface UseSessionResult extends SessionSnapshot {
  /**
   * Start a turn, which cancels the running one. Both show at once. If it fails, the turn is removed and the promise rejects.
   * Creates the project and the session if they do not exist.
   */
  send: (prompt: string) => Promise<Turn>;
  /** Stop the live turn, if there is one: shown at once, rolled back if the promise rejects. */
  interrupt: (reason?: string) => Promise<void>;
}

/** A conversation: its history, the turn that is running with its streaming text, and the user's actions. */
export function useSession(projectId: string, sessionId: string): UseSessionResult;

export interface Project extends Omit<ProjectView, "created_at"> {
  created_at: Date;
}

export interface Session extends Pick<SessionView, "id" | "title"> {
  created_at: Date;
}

export interface ProjectActions {
  /** Create a project. One that has this id already is returned unchanged. */
  createProject: (project?: { id?: string; name?: string }) => Promise<Project>;
  /** Create a session. One that has this id already is returned unchanged. */
  createSession: (projectId: string, session?: { id?: string; title?: string }) => Promise<Session>;
}

/** Create projects and sessions. `useSession` creates its own when the first prompt is sent. */
export function useProjectActions(): ProjectActions;

export interface UseSessionPollingOptions {
  /** Without it, the project of the provider. */
  projectId?: string;
  sessionId: string;
  /** Without it nothing is polled. */
  turnId?: string;
  enabled?: boolean;
  /** Milliseconds, 2000 by default; null: on the ramp from 1 s to 5 s. */
  interval?: number | null;
  /**
   * Follow the turn's topic of the feed beside the polls while it is open: blocks and the text of `data.streaming`
   * are up to date within a quarter of a second, not only after each poll.
   */
  stream?: boolean;
  /** After every change, including the last. */
  onUpdate?: (turn: Turn) => void;
  /** Once, when the turn is completed. */
  onComplete?: (turn: Turn) => void;
  /** When the turn has failed (a `TurnFailed`), and when a poll fails. */
  onError?: (error: Error) => void;
}

export interface UseSessionPollingResult {
  data: Turn | undefined;
  /** Whether another poll will be sent: not after the end of the turn or too many failures, nor while polling is paused. */
  isPolling: boolean;
  /** Of the last poll, or why the turn failed. */
  error: Error | null;
  /** Poll now, regardless of the schedule. */
  refetch: () => void;
}

export function useSessionPolling(options: UseSessionPollingOptions): UseSessionPollingResult;

export interface SessionActions {
  /** Create the project and the session unless they exist. */
  ensureSession: () => Promise<void>;
  /** Start a turn with a prompt. It cancels a running turn and is polled at once. */
  newTurn: (prompt: string) => Promise<Turn>;
  /** Stop a turn: shown at once, rolled back if the server refuses. */
  interrupt: (turnId: string, reason?: string) => Promise<Turn>;
}

export function useSessionActions(session: {
  /** Without it, the project of the provider. */
  projectId?: string;
  sessionId: string;
}): SessionActions;

export interface DocumentChange {
  filePath: string;
  lastModified: Date;
  changeType: FileChangeView["change_type"];
  version: number;
}

export type ProjectFile = FileView;

export interface UseDocumentPollingOptions {
  /** Without it, the project of the provider. */
  projectId?: string;
  /** Specific files to monitor; without it, all of them. */
  filePaths?: readonly string[];
  enabled?: boolean;
  /** Milliseconds, 3000 by default; null: on the ramp from 1 s to 5 s. */
  interval?: number | null;
  onDocumentChange?: (changes: DocumentChange[]) => void;
  /** When a request fails, which is retried, and when the server refuses an edit, which stays in its document. */
  onError?: (error: Error) => void;
  /** Yjs documents by path: changes of the files are applied to them, and edits are sent until the server has them. */
  documents?: Readonly<Record<string, Doc>>;
}

export interface UseDocumentPollingResult {
  /** The existing files, sorted by path; undefined before the first poll. */
  data: ProjectFile[] | undefined;
  isPolling: boolean;
  error: Error | null;
  refetch: () => void;
  /** Whether any of `documents` has edits that the server has not confirmed, those it refused included. */
  hasUnsavedChanges: boolean;
}

export function useDocumentPolling(options?: UseDocumentPollingOptions): UseDocumentPollingResult;

export interface Callbacks<T> {
  onResult?: (value: T) => void;
  onError?: (error: Error) => void;
  /** After polling was paused, resumed or started again: see `isPolling` of the registration. */
  onActivity?: () => void;
}

export interface Registration {
  readonly key: string;
  readonly active: boolean;
  /** Whether another poll will be sent: not while polling is paused, nor after the poll has stopped. */
  readonly isPolling: boolean;
  readonly dueAt: number | null;
  readonly state: {
    readonly nextDelay: number | null;
    readonly failures: number;
    readonly stopped: boolean;
    readonly reason: string | null;
  };
  dispose(): void;
}

export interface PollingManagerOptions {
  maxConcurrent?: number;
  cacheMs?: number;
  timeoutMs?: number | null;
  slowdown?: () => number;
}

export class PollingManager {
  constructor(options?: PollingManagerOptions);
  register<T>(
    key: string,
    pollFn: (options: { signal: AbortSignal }) => T | Promise<T>,
    interval?: number | null,
    callbacks?: Callbacks<T>,
  ): Registration;
  unregister(which: string | Registration): void;
  fetch<T>(
    key: string,
    pollFn: (request: { signal: AbortSignal }) => T | Promise<T>,
    options?: { signal?: AbortSignal },
  ): Promise<T>;
  refresh(key: string): void;
  /** Refresh every key with this prefix. */
  refreshAll(prefix: string): void;
  /** Start no more polls until `resume()`: nothing but the application undoes it. */
  pause(): void;
  /** Poll everything at once, unless the page is hidden or idle. */
  resume(): void;
  touch(key?: string): void;
  close(): void;
  readonly isPaused: boolean;
  readonly isClosed: boolean;
  readonly metrics: Readonly<
    Record<
      | "calls"
      | "cacheHits"
      | "shared"
      | "failures"
      | "inFlight"
      | "queued"
      | "keys"
      | "subscribers",
      number
    >
  >;
}

/** The shared polling manager of the page. */
export const pollingManager: PollingManager;

/** The provider's polling manager: that of the page, unless the provider has another. */
export function usePollingManager(): PollingManager;

interface FeedData {
  event: { event: EventView; late: boolean };
  caught_up: {};
  missed: { count: number };
  ended: { reason: string; status: RunLine["status"]; message: string };
  run: { run: RunLine };
  run_deleted: { run_id: string };
  turn: { turn: TurnLine };
  block: { turn_id: string; block: BlockView; replaces?: string };
  block_delta: {
    turn_id: string;
    delta: StreamingBlockView & { part: number; parts: number };
  };
  files: { version: number; changes: FileView[] };
  project: { project: ProjectView };
  session: { session: Pick<SessionView, "id" | "title" | "created_at"> };
  /** In the topic `executions` an entry of the list, in its own topic all of it. */
  execution: { execution: ExecutionListItem | ExecutionDetails };
  error: { code: string; message: string };
}

/** A message as the server sends it: times are text or epoch milliseconds. `event` decides which `data` it has. */
export type FeedMessage = {
  [Name in keyof FeedData]: { event: Name; data: { topic: string } & FeedData[Name] };
}[keyof FeedData];

export type FeedState = "connecting" | "live" | "polling" | "offline";

export interface UseFeedOptions {
  enabled?: boolean;
  onMessage: (message: FeedMessage) => void;
}

/** Follow a topic live. All topics below one provider share one stream. */
export function useFeed(topic: string, options: UseFeedOptions): FeedState;

/** A turn as the server sends it: times are text. `readTurn` converts it. */
export type WireTurn = TurnLine & {
  blocks: BlockView[];
  streaming?: StreamingBlockView | null;
};

/**
 * The turns of a `turn:` or `session:` topic, folded from the messages of `useFeed`. Turns and blocks that have not changed
 * are the same objects after every message.
 */
export class TurnState {
  /** Apply a message; returns false if it changed nothing. */
  apply(message: FeedMessage): boolean;
  /** All turns, oldest first, each with the blocks received so far. */
  turns(): WireTurn[];
  turn(turnId: string): WireTurn | undefined;
  blocks(turnId: string): BlockView[];
}

/** A turn with dates, and without the values that are null. The same object for the same turn. */
export function readTurn(turn: WireTurn): Turn;

/** The subprotocols with which a WebSocket of the server sends its token, such as the `protocols` of y-websocket. */
export function socketProtocols(token: string): string[];

/** An error response, or no response at all (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetail[];
  readonly position: number | null;
  readonly retryAfterMs: number | null;
  readonly isWorthAnotherTry: boolean;
}

/** The turn failed, was interrupted or was cancelled. */
export class TurnFailed extends Error {
  readonly turn: Turn;
}
