/** One attempt at a stream, from the request to its end, with a timeout for silence. */

import { ApiError, isAbort, unreachable } from "./errors.js";
import { SseParser } from "./sse.js";
import { childOf } from "./sleep.js";

/** @import { Api } from "./api.js" */
/** @import { Environment } from "./environment.js" */
/** @import { Outcome } from "./feed-ladder.js" */

export const FIRST_MESSAGE_MS = 8_000; // history or `caught_up` arrives well before that
export const STALL_MS = 40_000; // heartbeats come every 15 s

/**
 * @typedef {object} StreamMessage
 * @property {string} event
 * @property {any} data
 * @property {string} id The cursors after this message, joined by `;`.
 *
 * @typedef {object} Attempt
 * @property {Outcome} outcome
 * @property {ApiError | null} error
 */

/**
 * Read the stream until it ends. An outcome returned by `onMessage` ends it.
 * @param {{environment: Environment, api: Api, topics: string[], after: string, signal: AbortSignal,
 *   onMessage: (message: StreamMessage) => Outcome | void}} options
 * @returns {Promise<Attempt>}
 */
export async function tryStream({ environment, api, topics, after, signal, onMessage }) {
  const { controller, release } = childOf(signal);
  const url = api.url("/api/stream", { topic: topics, after: after || null });
  let hasMessage = false;
  let isSilent = false;
  const watch = () =>
    environment.setTimeout(
      () => {
        isSilent = true;
        controller.abort();
      },
      hasMessage ? STALL_MS : FIRST_MESSAGE_MS,
    );
  let watchdog = watch();
  /** @returns {Outcome} */
  const ended = () => (hasMessage ? "cut" : "silent");
  try {
    const response = await api.request(url, {
      headers: { Accept: "text/event-stream" },
      signal: controller.signal,
    });
    for await (const message of messagesOf(response, url)) {
      if (signal.aborted) break;
      hasMessage = true;
      environment.clearTimeout(watchdog);
      watchdog = watch();
      if (message.event === "closing") return { outcome: "closing", error: null };
      const outcome = onMessage(message);
      if (outcome) return { outcome, error: null };
    }
    return { outcome: ended(), error: null };
  } catch (error) {
    if (isSilent) return { outcome: hasMessage ? "stalled" : "silent", error: null };
    if (error instanceof ApiError) return { outcome: hasMessage ? "cut" : outcomeOf(error), error };
    // A message that is not JSON was damaged in transit.
    if (isAbort(error) || error instanceof SyntaxError || signal.aborted)
      return { outcome: ended(), error: null };
    throw error;
  } finally {
    environment.clearTimeout(watchdog);
    release();
    controller.abort();
  }
}

/** @param {ApiError} error @returns {Outcome} */
export function outcomeOf(error) {
  if (error.status === 504 || error.status === 408) return "cut"; // a gateway with a shorter timeout
  return error.isWorthAnotherTry ? "away" : "refused";
}

/** @param {Response} response @param {string} url @returns {AsyncGenerator<StreamMessage>} */
async function* messagesOf(response, url) {
  const reader = response.body?.getReader();
  if (!reader) return;
  const parser = new SseParser();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await read(reader, url);
      if (done) return;
      for (const { event, data, id } of parser.push(decoder.decode(value, { stream: true }))) {
        yield { event, data: JSON.parse(data), id };
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the stream has ended either way
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {string} url */
async function read(reader, url) {
  try {
    return await reader.read();
  } catch (error) {
    throw isAbort(error) ? error : unreachable(url, error);
  }
}
