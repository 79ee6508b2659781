/** React hooks for longwatch. The types are in `index.d.ts`. */

export { ApiError } from "./core/errors.js";
export { PollingManager, pollingManager } from "./src/polling/polling-manager.js";
export { TurnFailed } from "./src/polling/session.js";
export { LongwatchProvider } from "./src/provider.js";
export { socketProtocols } from "./src/socket-protocols.js";
export { useDocumentPolling } from "./src/use-document-polling.js";
export { useFeed } from "./src/use-feed.js";
export { usePollingManager } from "./src/use-polling-manager.js";
export { useSessionActions } from "./src/use-session-actions.js";
export { useSessionPolling } from "./src/use-session-polling.js";
