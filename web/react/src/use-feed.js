/** A topic of the feed as a hook. */

import { useEffect, useState } from "react";

import { useLongwatch } from "./provider.js";
import { useLatest } from "./use-latest.js";

/** @import { FeedState, UseFeedOptions } from "../index.js" */

/**
 * @param {string} topic
 * @param {UseFeedOptions} options
 * @returns {FeedState}
 */
export function useFeed(topic, { enabled = true, onMessage }) {
  const { feed } = useLongwatch();
  const latest = useLatest(onMessage);
  const [state, setState] = useState(feed.state);
  useEffect(() => {
    if (!enabled) return;
    setState(feed.state);
    return feed.subscribe(topic, {
      onMessage: (message) => latest.current(/** @type {any} */ (message)),
      onState: setState,
    });
  }, [feed, topic, enabled, latest]);
  return state;
}
