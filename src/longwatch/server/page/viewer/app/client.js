/** The page's connection to the server: requests, the feed and their state. A report has none. */

import { Api } from "../core/api.js";
import { Activity } from "../core/activity.js";
import { isAbort } from "../core/errors.js";
import { FeedClient } from "../core/feed.js";
import { runPath } from "../core/routes.js";
import {
  connection,
  journalAway,
  markReceived,
  markUnreachable,
  signedOut,
  stale,
} from "./connection.js";

/** @import { Mode } from "../core/activity.js" */
/** @import { SubscribeOptions } from "../core/feed-topic.js" */
/** @import { RunEvent } from "./types.js" */

const UNAUTHORIZED = 401;
const HIDING_MS = 5_000; // a glance at another tab closes no stream
const PROBE_MS = 5_000;
const ACTIVITY_MS = 30_000; // between two reports of an unchanged activity while the feed is connected

export const api = new Api({ fetch: watchedFetch });

const feed = new FeedClient({
  api,
  onState: (state, detail) => {
    if (state !== "live") journalAway.set(false); // only a stream reports it
    connection.set({ state, message: detail.error?.message ?? "" });
  },
  onJournal: (isAway) => {
    journalAway.set(isAway);
    markReceived();
  },
});

let followed = 0;

/**
 * Follow a topic until the returned function is called. A page that follows nothing shows no connection.
 * @param {string} topic @param {SubscribeOptions} options @returns {() => void}
 */
export function follow(topic, options) {
  followed += 1;
  if (followed === 1) connection.set({ state: feed.state, message: "" }); // the feed reports changes only
  const stop = feed.subscribe(topic, {
    ...options,
    onMessage: (message) => {
      markReceived();
      options.onMessage(message);
    },
  });
  return () => {
    stop();
    followed -= 1;
    if (!followed) connection.set({ state: "none", message: "" });
  };
}

/** Reconnect at once instead of after the backoff. */
export function reconnectNow() {
  feed.touch();
  probe();
}

/** Find out whether the server is back. The response itself changes the state. */
function probe() {
  api.get("/api/health").catch(() => {});
}

/** A page that follows nothing, because its view could not be loaded, has no feed that reconnects: probe instead. */
export function probeWhileOffline() {
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  stale.watch((reason) => {
    clearInterval(timer);
    if (reason === "offline") timer = setInterval(() => followed || probe(), PROBE_MS);
  });
}

/** Let the feed adapt to the user's activity. A hidden page releases its connection, for other windows. */
export function followActivity() {
  /** @type {Mode} */
  let before = "active";
  let reportedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let hiding;
  const apply = (/** @type {Mode} */ mode) => {
    feed.setActivity(mode);
    if (feed.isPaused && followed) connection.set({ state: "paused", message: "" });
  };
  new Activity().attach({
    setActivity: (mode) => {
      const now = Date.now();
      // Each report makes the feed request ended runs again, so repeated ones are limited.
      if (mode === before && feed.state !== "offline" && now - reportedAt < ACTIVITY_MS) return;
      before = mode;
      reportedAt = now;
      clearTimeout(hiding);
      if (mode === "hidden") hiding = setTimeout(() => apply(mode), HIDING_MS);
      else apply(mode);
    },
  });
}

/**
 * A page of a run's events. Not cached: events never change, and there may be many.
 * @param {string} runId @param {string} after @param {number} limit @param {AbortSignal} signal
 * @returns {Promise<{events: RunEvent[], cursor: string, more: boolean}>}
 */
export async function readEvents(runId, after, limit, signal) {
  const url = api.url(`${runPath(runId)}/events`, { after: after || null, limit });
  return (await api.request(url, { signal })).json();
}

/**
 * Fetch, and note whether the server responds and requires a sign-in.
 * @param {string} url @param {RequestInit} [options]
 */
async function watchedFetch(url, options) {
  try {
    const response = await fetch(url, options);
    markReceived();
    if (response.status === UNAUTHORIZED && !url.endsWith("/api/login")) signedOut.set(true);
    return response;
  } catch (error) {
    if (!isAbort(error)) markUnreachable();
    throw error;
  }
}
