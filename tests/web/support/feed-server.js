/** A journal behind the feed's two routes, and whatever stands between it and the page. */

/** @import { FakeEnvironment } from "./environment.js" */

const BEAT_MS = 15_000;

/** What the line does to the next streams and polls. @typedef {"ok" | "buffers" | "refuses" | "cuts polls"} Line */

export class FeedServer {
  /** @type {Line} */
  line = "ok";
  isJournalAway = false;
  /** @type {Map<string, any[]>} */
  topics = new Map();
  /** @type {string[]} */
  requests = [];
  /** @type {Set<Viewer>} */
  viewers = new Set();

  /** @param {FakeEnvironment} environment */
  constructor(environment) {
    this.environment = environment;
  }

  /** @param {string} topic @param {string} id */
  record(topic, id) {
    const events = this.topics.get(topic) ?? [];
    this.topics.set(topic, [
      ...events,
      { run_id: topic, event_id: id, type: "note", occurred_at: 1 },
    ]);
    for (const viewer of [...this.viewers]) viewer.wake();
  }

  /** Cut every open stream, as a server that dies does. */
  cut() {
    for (const viewer of [...this.viewers]) viewer.end();
  }

  /** @param {string} message */
  announce(message) {
    for (const viewer of [...this.viewers]) viewer.send(`event: ${message}\ndata: {}\n\n`);
  }

  /** @type {(address: string, options?: RequestInit) => Promise<Response>} */
  fetch = async (address, { signal } = {}) => {
    const url = new URL(address, "http://server");
    this.requests.push(`${url.pathname}${url.searchParams.get("wait") === "0" ? " at once" : ""}`);
    if (this.line === "refuses") throw new TypeError("connection refused");
    const topics = url.searchParams.getAll("topic");
    const after = (url.searchParams.get("after") ?? "").split(";");
    const places = topics.map((_, at) => Number(after[at] || 0));
    if (url.pathname === "/api/stream") return this.#stream(topics, places, signal ?? undefined);
    return this.#poll(
      topics,
      places,
      Number(url.searchParams.get("wait")) * 1000,
      signal ?? undefined,
    );
  };

  /** @param {string[]} topics @param {number[]} places @param {AbortSignal} [signal] */
  #stream(topics, places, signal) {
    const viewer = new Viewer(this, topics, places);
    this.viewers.add(viewer);
    const body = new ReadableStream({
      start: (controller) => {
        viewer.controller = controller;
        signal?.addEventListener("abort", () =>
          viewer.end(new DOMException("aborted", "AbortError")),
        );
        viewer.wake();
        for (const topic of topics) viewer.send(`event: caught_up\ndata: {"topic":"${topic}"}\n\n`);
        viewer.beat();
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  /** @param {string[]} topics @param {number[]} places @param {number} waitMs @param {AbortSignal} [signal] */
  async #poll(topics, places, waitMs, signal) {
    const until = this.environment.time + waitMs;
    const cutAt = this.line === "cuts polls" ? this.environment.time + 5_000 : Infinity;
    while (
      !topics.some(
        (topic, at) => (this.topics.get(topic)?.length ?? 0) > /** @type {number} */ (places[at]),
      )
    ) {
      if (signal?.aborted) throw new DOMException("aborted", "AbortError");
      if (this.environment.time >= cutAt) throw new TypeError("connection reset");
      if (this.environment.time >= until) break;
      await new Promise((resolve) => this.environment.setTimeout(() => resolve(undefined), 100));
    }
    const messages = topics.flatMap((topic, at) => {
      const news = (this.topics.get(topic) ?? []).slice(places[at]);
      places[at] = this.topics.get(topic)?.length ?? 0;
      return [
        ...news.map((event) => ({ event: "event", data: { topic, event, late: false } })),
        { event: "caught_up", data: { topic } },
      ];
    });
    return Response.json({ messages, cursor: places.some(Boolean) ? places.join(";") : "" });
  }
}

class Viewer {
  /** @type {ReadableStreamDefaultController<Uint8Array> | null} */
  controller = null;
  held = "";

  /** @param {FeedServer} server @param {string[]} topics @param {number[]} places */
  constructor(server, topics, places) {
    this.server = server;
    this.topics = topics;
    this.places = places;
  }

  wake() {
    this.topics.forEach((topic, at) => {
      for (const event of (this.server.topics.get(topic) ?? []).slice(this.places[at])) {
        this.places[at] = /** @type {number} */ (this.places[at]) + 1;
        const data = JSON.stringify({ topic, event, late: false });
        this.send(`id: ${this.places.join(";")}\nevent: event\ndata: ${data}\n\n`);
      }
    });
  }

  beat() {
    this.server.environment.setTimeout(() => {
      if (!this.server.viewers.has(this)) return;
      this.send(
        `event: beat\ndata: ${JSON.stringify({ now: 1, ...(this.server.isJournalAway && { journal: "away" }) })}\n\n`,
      );
      this.beat();
    }, BEAT_MS);
  }

  /** @param {string} text */
  send(text) {
    if (!this.server.viewers.has(this)) return;
    this.held += text; // a proxy that holds bytes back never loses some in the middle
    if (this.server.line === "buffers") return;
    this.controller?.enqueue(new TextEncoder().encode(this.held));
    this.held = "";
  }

  /** @param {Error} [error] */
  end(error) {
    if (!this.server.viewers.delete(this)) return;
    if (error) this.controller?.error(error);
    else this.controller?.close();
  }
}
