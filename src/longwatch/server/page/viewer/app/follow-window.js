/** The time that a timeline shows while it follows a live run: it ends now. */

/** @import { Stretch } from "./time-scale.js" */

const FOLLOWED_MS = 60_000;
const LEAD = 0.05; // of the length, so that the newest bar has room to grow

/**
 * Null while the whole run fits: then all of it is shown. The newest call is always in the stretch.
 * @param {Stretch} whole @param {number} now @param {number} newest when the newest call began
 * @param {number} [length] milliseconds
 * @returns {Stretch | null}
 */
export function followedStretch(whole, now, newest, length = FOLLOWED_MS) {
  const from = Math.min(now - length, newest - length * LEAD);
  if (from <= whole.from) return null;
  return { from, to: Math.min(whole.to, now + (now - from) * LEAD) };
}
