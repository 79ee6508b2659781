/** The attempts of a call, and what changed between the values of two of them. */

import { subjectOf } from "./retries.js";

/** @import { Call } from "./types.js" */
/** @typedef {{path: string, before: unknown, after: unknown}} Change `undefined`: there is no such value */

const MOST_CHANGES = 50;

/**
 * The attempts of one call, the first one first: each began after the one before it had failed.
 * @param {Call} call @param {Call[]} calls in the order they began @returns {Call[]}
 */
export function attemptsOf(call, calls) {
  const same = calls.filter(
    (each) => subjectOf(each) === subjectOf(call) && each.parent_call_id === call.parent_call_id,
  );
  const at = same.findIndex(({ call_id }) => call_id === call.call_id);
  if (at < 0) return [call];
  let [first, last] = [at, at];
  while (first > 0 && isRetry(same[first - 1], same[first])) first -= 1;
  while (isRetry(same[last], same[last + 1])) last += 1;
  return same.slice(first, last + 1);
}

/** @param {Call | undefined} before @param {Call | undefined} call */
function isRetry(before, call) {
  if (!before || !call || before.status !== "failed" || before.ended_at === null) return false;
  return before.ended_at <= call.started_at;
}

/**
 * The differences between two recorded values, by their paths.
 * @param {unknown} before @param {unknown} after @returns {Change[]}
 */
export function valueChanges(before, after) {
  /** @type {Change[]} */
  const found = [];
  compare(before, after, "", found);
  return found;
}

/** @param {unknown} before @param {unknown} after @param {string} path @param {Change[]} found */
function compare(before, after, path, found) {
  if (Object.is(before, after) || found.length >= MOST_CHANGES) return;
  if (
    !isContainer(before) ||
    !isContainer(after) ||
    Array.isArray(before) !== Array.isArray(after)
  ) {
    found.push({ path, before, after });
    return;
  }
  const isList = Array.isArray(before);
  const [old, now] = /** @type {Record<string, unknown>[]} */ ([before, after]);
  for (const name of new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])) {
    const below = isList ? `${path}[${name}]` : path ? `${path}.${name}` : name;
    compare(old?.[name], now?.[name], below, found);
  }
}

/** @param {unknown} value @returns {value is object} */
function isContainer(value) {
  return typeof value === "object" && value !== null;
}
