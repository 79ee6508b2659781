/** The server and the project that the hooks use. */

import { QueryClient, QueryClientContext, QueryClientProvider } from "@tanstack/react-query";
import { createContext, createElement, useContext, useEffect, useMemo, useState } from "react";

import { Api } from "../core/api.js";
import { FeedClient } from "../core/feed.js";
import { pageActivity, pollingManager } from "./polling/polling-manager.js";

/** @import { LongwatchProviderProps } from "../index.js" */
/** @import { PollingManager } from "./polling/polling-manager.js" */

/**
 * @typedef {object} Longwatch
 * @property {Api} api
 * @property {FeedClient} feed
 * @property {PollingManager} manager
 * @property {string} projectId
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
  const longwatch = useMemo(() => {
    const api = new Api({ baseUrl, fetch, headers });
    return { api, feed: new FeedClient({ api }), manager: polls, projectId };
  }, [baseUrl, fetch, headers, polls, projectId]);
  useEffect(() => {
    const stops = [pageActivity.attach(longwatch.manager), pageActivity.attach(longwatch.feed)];
    return () => stops.forEach((stop) => stop());
  }, [longwatch]);
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
