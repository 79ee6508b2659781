/** What is declared is what is there: checked by the compiler, never run. */

import type * as Declared from "../index.js";
import type { FeedMessage as WireMessage } from "../types.js";
import { ApiError } from "../core/errors.js";
import { PollingManager, pollingManager } from "../src/polling/polling-manager.js";
import { TurnState } from "../core/turn-state.js";
import { TurnFailed } from "../src/polling/session.js";
import { readTurn } from "../src/polling/turns.js";
import { LongwatchProvider } from "../src/provider.js";
import { socketProtocols } from "../src/socket-protocols.js";
import { useDocumentPolling } from "../src/use-document-polling.js";
import { useFeed } from "../src/use-feed.js";
import { usePollingManager } from "../src/use-polling-manager.js";
import { useProjectActions } from "../src/use-project-actions.js";
import { useSession } from "../src/use-session.js";
import { useSessionActions } from "../src/use-session-actions.js";
import { useSessionPolling } from "../src/use-session-polling.js";

export const all = {
  ApiError,
  LongwatchProvider,
  PollingManager,
  pollingManager,
  readTurn,
  socketProtocols,
  TurnFailed,
  TurnState,
  useDocumentPolling,
  useFeed,
  usePollingManager,
  useProjectActions,
  useSession,
  useSessionActions,
  useSessionPolling,
} satisfies { [Name in keyof typeof Declared]: unknown };

useDocumentPolling satisfies typeof Declared.useDocumentPolling;
useFeed satisfies typeof Declared.useFeed;
useProjectActions satisfies typeof Declared.useProjectActions;
useSession satisfies typeof Declared.useSession;
useSessionActions satisfies typeof Declared.useSessionActions;
useSessionPolling satisfies typeof Declared.useSessionPolling;
pollingManager satisfies Declared.PollingManager;
LongwatchProvider satisfies typeof Declared.LongwatchProvider;

// Every message that a topic delivers is declared.
type Delivered = Exclude<WireMessage["event"], "beat" | "closing">;
null as unknown as Delivered satisfies Declared.FeedMessage["event"];
null as unknown as Declared.FeedMessage["event"] satisfies Delivered;
