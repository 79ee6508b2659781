/** One try at a stream: from the request to its end, watched for silence. */

import { ApiError, isAbort, unreachable } from "./errors.js";
import { SseParser } from "./sse.js";
import { childOf } from "./sleep.js";

/** @import { Api } from "./api.js" */
/** @import { Environment } from "./environment.js" */
/** @import { Outcome } from "./feed-ladder.js" */

export const FIRST_WORD_MS = 8_000; // a stream says that it has caught up, or tells history, well before that
export const STALL_MS = 40_000; // heartbeats come every 15 s

/**
 * @typedef {object} StreamMessage
 * @property {string} event
 * @property {any} data
 * @property {string} id The cursors after this message, joined by `;`.
 *
 * @typedef {object} Tried
 * @property {Outcome} outcome
 * @property {ApiError | null} error
 */

/**
 * Read the stream until it ends. `onMessage` may return an outcome to end it.
 * @param {object} options
 * @param {Environment} options.environment
 * @param {Api} options.api
 * @param {string[]} options.topics
 * @param {string} options.after
 * @param {AbortSignal} options.signal
 * @param {(message: StreamMessage) => Outcome | void} options.onMessage
 * @returns {Promise<Tried>}
 */
export async function tryStream({ environment, api, topics, after, signal, onMessage }) {
  const { controller, release } = childOf(signal);
  const address = api.address("/api/stream", { topic: topics, after: after || null });
  let hasSpoken = false;
  let isQuiet = false;
  const watch = () =>
    environment.setTimeout(
      () => {
        isQuiet = true;
        controller.abort();
      },
      hasSpoken ? STALL_MS : FIRST_WORD_MS,
    );
  let watchdog = watch();
  /** @returns {Outcome} */
  const ended = () => (hasSpoken ? "cut" : "silent");
  try {
    const response = await api.request(address, {
      headers: { Accept: "text/event-stream" },
      signal: controller.signal,
    });
    for await (const message of messagesOf(response, address)) {
      if (signal.aborted) break;
      hasSpoken = true;
      environment.clearTimeout(watchdog);
      watchdog = watch();
      if (message.event === "closing") return { outcome: "closing", error: null };
      const outcome = onMessage(message);
      if (outcome) return { outcome, error: null };
    }
    return { outcome: ended(), error: null };
  } catch (error) {
    if (isQuiet) return { outcome: hasSpoken ? "stalled" : "silent", error: null };
    if (error instanceof ApiError) return { outcome: hasSpoken ? "cut" : outcomeOf(error), error };
    // A message that is no JSON was damaged on the way.
    if (isAbort(error) || error instanceof SyntaxError || signal.aborted)
      return { outcome: ended(), error: null };
    throw error;
  } finally {
    environment.clearTimeout(watchdog);
    release();
    controller.abort();
  }
}

/**
 * How a request that failed counts.
 * @param {ApiError} error
 * @returns {Outcome}
 */
export function outcomeOf(error) {
  if (error.status === 504 || error.status === 408) return "cut"; // a gateway that did not want to wait so long
  return error.isWorthAnotherTry ? "away" : "refused";
}

/** @param {Response} response @param {string} address @returns {AsyncGenerator<StreamMessage>} */
async function* messagesOf(response, address) {
  const reader = response.body?.getReader();
  if (!reader) return;
  const parser = new SseParser();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await read(reader, address);
      if (done) return;
      for (const { event, data, id } of parser.push(decoder.decode(value, { stream: true }))) {
        yield { event, data: JSON.parse(data), id };
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it is over either way
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {string} address */
async function read(reader, address) {
  try {
    return await reader.read();
  } catch (error) {
    throw isAbort(error) ? error : unreachable(address, error);
  }
}
