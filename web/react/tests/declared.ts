/** What is declared is what is there: checked by the compiler, never run. */

import type * as Declared from "../index.js";
import { ApiError } from "../core/errors.js";
import { PollingManager, pollingManager } from "../src/polling/polling-manager.js";
import { TurnFailed } from "../src/polling/session.js";
import { LongwatchProvider } from "../src/provider.js";
import { socketProtocols } from "../src/socket-protocols.js";
import { useDocumentPolling } from "../src/use-document-polling.js";
import { useFeed } from "../src/use-feed.js";
import { usePollingManager } from "../src/use-polling-manager.js";
import { useSessionActions } from "../src/use-session-actions.js";
import { useSessionPolling } from "../src/use-session-polling.js";

export const all = {
  ApiError,
  LongwatchProvider,
  PollingManager,
  pollingManager,
  socketProtocols,
  TurnFailed,
  useDocumentPolling,
  useFeed,
  usePollingManager,
  useSessionActions,
  useSessionPolling,
} satisfies { [Name in keyof typeof Declared]: unknown };

useDocumentPolling satisfies typeof Declared.useDocumentPolling;
useFeed satisfies typeof Declared.useFeed;
useSessionActions satisfies typeof Declared.useSessionActions;
useSessionPolling satisfies typeof Declared.useSessionPolling;
pollingManager satisfies Declared.PollingManager;
LongwatchProvider satisfies typeof Declared.LongwatchProvider;
