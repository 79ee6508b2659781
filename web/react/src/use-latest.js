import { useEffect, useRef } from "react";

/**
 * The value of the last render, for later callbacks: a new function must not start a new poll.
 *
 * @template T
 * @param {T} value
 */
export function useLatest(value) {
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  });
  return latest;
}
