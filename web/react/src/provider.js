/** The server and the project that the hooks use. */

import { QueryClient, QueryClientContext, QueryClientProvider } from "@tanstack/react-query";
import { createContext, createElement, useContext, useEffect, useMemo, useState } from "react";

import { Api } from "../core/api.js";
import { FeedClient } from "../core/feed.js";
import { pageActivity, pollingManager } from "./polling/polling-manager.js";
import { SessionStores } from "./session-store.js";
import { useLatest } from "./use-latest.js";

/** @import { LongwatchProviderProps } from "../index.js" */
/** @import { PollingManager } from "./polling/polling-manager.js" */

/**
 * @typedef {object} Longwatch
 * @property {Api} api
 * @property {FeedClient} feed
 * @property {PollingManager} manager
 * @property {SessionStores} sessions
 * @property {string | undefined} projectId
 */

const LongwatchContext = createContext(/** @type {Longwatch | null} */ (null));

/** @param {LongwatchProviderProps} props */
export function LongwatchProvider({
  baseUrl,
  projectId,
  fetch,
  headers,
  manager,
  queryClient,
  children,
}) {
  const above = useContext(QueryClientContext);
  const [own] = useState(() => queryClient ?? above ?? new QueryClient());
  const polls = /** @type {PollingManager} */ (manager ?? pollingManager);
  const headersText = JSON.stringify(headers ?? {}); // equal for the same headers in a new object
  const latestFetch = useLatest(fetch);
  const hasFetch = fetch !== undefined;
  const connection = useMemo(() => {
    const api = new Api({
      baseUrl,
      headers: JSON.parse(headersText),
      ...(hasFetch && {
        fetch: (url, options) => (latestFetch.current ?? globalThis.fetch)(url, options),
      }),
    });
    const server = { api, feed: new FeedClient({ api }), manager: polls };
    return { ...server, sessions: new SessionStores(server) };
  }, [baseUrl, headersText, hasFetch, latestFetch, polls]);
  const longwatch = useMemo(() => ({ ...connection, projectId }), [connection, projectId]);
  useEffect(() => {
    const stops = [pageActivity.attach(connection.manager), pageActivity.attach(connection.feed)];
    return () => stops.forEach((stop) => stop());
  }, [connection]);
  return createElement(
    QueryClientProvider,
    { client: queryClient ?? above ?? own },
    createElement(LongwatchContext.Provider, { value: longwatch }, children),
  );
}

/** @returns {Longwatch} */
export function useLongwatch() {
  const longwatch = useContext(LongwatchContext);
  if (longwatch === null) {
    throw new Error(
      "No LongwatchProvider found. Put <LongwatchProvider projectId=…> around this component.",
    );
  }
  return longwatch;
}

/**
 * The project of a hook: its own, or that of the provider.
 *
 * @param {string} [given]
 * @returns {string}
 */
export function useProjectId(given) {
  const { projectId: provided } = useLongwatch();
  const projectId = given ?? provided;
  if (projectId === undefined) {
    throw new Error("No project. Pass projectId to the hook, or to the LongwatchProvider.");
  }
  return projectId;
}
