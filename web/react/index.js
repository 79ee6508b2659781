/** React hooks for longwatch. The types are in `index.d.ts`. */

export { ApiError } from "./core/errors.js";
export { PollingManager, pollingManager } from "./src/polling/polling-manager.js";
export { TurnFailed } from "./src/polling/session.js";
export { LongwatchProvider } from "./src/provider.js";
export { socketProtocols } from "./src/socket-protocols.js";
export { TurnState } from "./core/turn-state.js";
export { readTurn } from "./src/polling/turns.js";
export { useDocumentPolling } from "./src/use-document-polling.js";
export { useFeed } from "./src/use-feed.js";
export { usePollingManager } from "./src/use-polling-manager.js";
export { useProjectActions } from "./src/use-project-actions.js";
export { useSession } from "./src/use-session.js";
export { useSessionActions } from "./src/use-session-actions.js";
export { useSessionPolling } from "./src/use-session-polling.js";
