import type { QueryClient } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import type { Doc } from "yjs";

export interface LongwatchProviderProps {
  /** Where `longwatch serve` is; without it, where the page came from. */
  baseUrl?: string;
  /** The project of the sessions below. */
  projectId: string;
  /** Another `fetch`, for tests or for requests that need more than headers. */
  fetch?: (address: string, options?: RequestInit) => Promise<Response>;
  /** Sent with every request, such as `Authorization`. Keep the object the same from render to render. */
  headers?: Record<string, string>;
  /** Without it, the one that everybody in the page shares. */
  manager?: PollingManager;
  /** Without it, the one of the `QueryClientProvider` above, or one of its own. */
  queryClient?: QueryClient;
  children?: ReactNode;
}

/** Says which server and which project the hooks below are about. */
export function LongwatchProvider(props: LongwatchProviderProps): ReactElement;

export type TurnStatus = "pending" | "running" | "completed" | "failed";

export interface Block {
  id: string;
  sequence: number;
  type: "thinking" | "content" | "tool_use" | "tool_result";
  created_at: Date;
  content: Record<string, any>;
}

export interface Turn {
  id: string;
  project_id: string;
  session_id: string;
  number: number;
  prompt?: string;
  status: TurnStatus;
  blocks: Block[];
  block_count: number;
  error?: string;
  created_at: Date;
  started_at?: Date;
  completed_at?: Date;
  last_updated: Date;
}

export interface UseSessionPollingOptions {
  sessionId: string;
  /** Without it nothing is polled. */
  turnId?: string;
  enabled?: boolean;
  /** Milliseconds, 2000 by default; null: on the ramp from 1 s to 5 s. */
  interval?: number | null;
  /** With every change, the last one included. */
  onUpdate?: (turn: Turn) => void;
  /** Once, when the turn is completed. */
  onComplete?: (turn: Turn) => void;
  /** When the turn has failed (a `TurnFailed`), and when a look fails. */
  onError?: (error: Error) => void;
}

export interface UseSessionPollingResult {
  data: Turn | undefined;
  /** Whether another poll will be sent: not after the end of the turn or too many failures, nor while polling is paused. */
  isPolling: boolean;
  /** Of the last look, or why the turn failed. */
  error: Error | null;
  /** Look now, whatever the schedule says. */
  refetch: () => void;
}

export function useSessionPolling(options: UseSessionPollingOptions): UseSessionPollingResult;

export interface SessionActions {
  /** Create the project and the session where they do not exist. */
  ensureSession: () => Promise<void>;
  /** Say something new. The turn that is running is cancelled by it, and polled at once. */
  newTurn: (prompt: string) => Promise<Turn>;
  /** Stop a turn: shown at once, taken back if the server refuses. */
  interrupt: (turnId: string, reason?: string) => Promise<Turn>;
}

export function useSessionActions(session: { sessionId: string }): SessionActions;

export interface DocumentChange {
  filePath: string;
  lastModified: Date;
  changeType: "created" | "modified" | "deleted";
  version: number;
}

export interface ProjectFile {
  path: string;
  version: number;
  last_modified: string;
  created_at: string;
  size: number;
  sha256: string;
  kind: "text" | "binary";
  deleted: boolean;
}

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
  /** Yjs documents by path: changes of the files come into them, and edits are sent until the server has them. */
  documents?: Readonly<Record<string, Doc>>;
}

export interface UseDocumentPollingResult {
  /** The files that are there, by path; undefined before the first look. */
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
    pollFn: (asked: { signal: AbortSignal }) => T | Promise<T>,
    interval?: number | null,
    callbacks?: Callbacks<T>,
  ): Registration;
  unregister(which: string | Registration): void;
  fetch<T>(
    key: string,
    pollFn: (asked: { signal: AbortSignal }) => T | Promise<T>,
    options?: { signal?: AbortSignal },
  ): Promise<T>;
  refresh(key: string): void;
  /** Refresh every key that begins so. */
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

/** The one that everybody in the page shares. */
export const pollingManager: PollingManager;

/** The provider's polling manager: the page's, unless it was given another. */
export function usePollingManager(): PollingManager;

export interface FeedMessage {
  event:
    | "event"
    | "caught_up"
    | "missed"
    | "ended"
    | "run"
    | "execution"
    | "turn"
    | "block"
    | "files"
    | "project"
    | "session"
    | "error";
  data: any;
}

export type FeedState = "connecting" | "live" | "polling" | "offline";

export interface UseFeedOptions {
  enabled?: boolean;
  onMessage: (message: FeedMessage) => void;
}

/** Follow a topic live. All topics below one provider share one stream. */
export function useFeed(topic: string, options: UseFeedOptions): FeedState;

export interface ErrorDetail {
  field: string;
  message: string;
}

/** An error of the server, or no answer at all (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetail[];
  readonly retryAfterMs: number | null;
  readonly isWorthAnotherTry: boolean;
}

/** The turn has failed, was interrupted or was cancelled. */
export class TurnFailed extends Error {
  readonly turn: Turn;
}
