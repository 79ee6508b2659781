/** React hooks for longwatch. The types are in `index.d.ts`. */

export { ApiError } from "./core/errors.js";
export { PollingManager, pollingManager } from "./core/polling-manager.js";
export { TurnFailed } from "./core/session-polling.js";
export { LongwatchProvider } from "./src/provider.js";
export { useDocumentPolling } from "./src/use-document-polling.js";
export { useFeed } from "./src/use-feed.js";
export { usePollingManager } from "./src/use-polling-manager.js";
export { useSessionActions } from "./src/use-session-actions.js";
export { useSessionPolling } from "./src/use-session-polling.js";
