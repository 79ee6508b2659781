/**
 * The one connection of the page: requests, the feed, and how they stand. A report has none of this.
 */

import { Api } from "../core/api.js";
import { Activity } from "../core/activity.js";
import { FeedClient } from "../core/feed.js";
import { connection, journalAway, signedOut } from "./connection.js";

/** @import { Mode } from "../core/activity.js" */
/** @import { SubscribeOptions } from "../core/feed-topic.js" */

const UNAUTHORIZED = 401;
const NOTICED_MS = 30_000; // between two signs that somebody is there, while all is well

export const api = new Api({ fetch: watchedFetch });

const feed = new FeedClient({
  api,
  onState: (state, detail) => {
    if (state !== "live") journalAway.set(false); // only a stream tells of it
    connection.set({ state, retryInMs: detail.retryInMs, message: detail.error?.message ?? "" });
  },
  onJournal: (isAway) => journalAway.set(isAway),
});

let followed = 0;

/**
 * Follow a topic until the returned function is called. A page that follows nothing has no connection to speak of.
 * @param {string} topic
 * @param {SubscribeOptions} listening
 * @returns {() => void}
 */
export function follow(topic, listening) {
  followed += 1;
  if (followed === 1) connection.set({ state: feed.state, retryInMs: null, message: "" }); // it tells of changes only
  const stop = feed.subscribe(topic, listening);
  return () => {
    stop();
    followed -= 1;
    if (!followed) connection.set({ state: "none", retryInMs: null, message: "" });
  };
}

/** Try at once what would be tried later. */
export function reconnectNow() {
  feed.touch();
}

/** Let the feed do as much as people's activity asks for. */
export function followActivity() {
  /** @type {Mode} */
  let before = "active";
  let noticedAt = 0;
  new Activity().attach({
    setActivity: (mode) => {
      const now = Date.now();
      // Every sign of life would ask anew for runs that have ended; now and then is enough.
      if (mode === before && feed.state !== "offline" && now - noticedAt < NOTICED_MS) return;
      before = mode;
      noticedAt = now;
      feed.setActivity(mode);
      if (feed.isPaused && followed)
        connection.set({ state: "resting", retryInMs: null, message: "" });
    },
  });
}

/**
 * Fetch, and notice when the server wants to know who asks.
 * @param {string} address
 * @param {RequestInit} [options]
 */
async function watchedFetch(address, options) {
  const response = await fetch(address, options);
  if (response.status === UNAUTHORIZED && !address.endsWith("/api/login")) signedOut.set(true);
  return response;
}
