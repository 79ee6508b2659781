/**
 * `<lw-live-run>`: a run of the server. Reads its history in large pages, then follows it.
 */

import { executionPath, runPath } from "../core/routes.js";
import { isNotFound } from "../core/errors.js";
import { fill, h } from "./dom.js";
import { Part, define, restart } from "./element.js";
import { api, follow } from "./client.js";
import { boardPath, currentRoute, sessionPath } from "./router.js";
import { RunModel } from "./run-model.js";
import { failure, loading, missing } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import "./run-view.js";

/** @import { HeadLink } from "./run-head.js" */
/** @import { RunEvent, Summary } from "./types.js" */

const FIRST_PAGE = 500; // something to look at soon
const PAGE = 5000;
const OBSERVE_SECONDS = 15; // between two polls for the processes of an open run

export class RunPage extends Part {
  connectedCallback() {
    const stopped = new AbortController();
    this.onDisconnect(() => stopped.abort());
    fill(this, loading("run", 12));
    void this.#open(currentRoute.value.ids["run"] ?? "", stopped.signal);
  }

  /** @param {string} runId @param {AbortSignal} signal */
  async #open(runId, signal) {
    const model = new RunModel(runId);
    try {
      const [summary, first] = await Promise.all([
        listed(runId, signal),
        page(runId, "", FIRST_PAGE, signal),
      ]);
      if (signal.aborted) return;
      if (summary) model.tell(summary);
      model.add(first.events);
      const board = await boardLink(model, signal);
      if (signal.aborted) return;
      this.#show(model, board);
      const cursor = await this.#readOn(model, first, signal);
      if (signal.aborted) return;
      this.#follow(model, cursor);
      this.#observe(model, signal);
    } catch (error) {
      if (signal.aborted) return;
      const text = `Nothing with the id ${runId} is in this journal. It may have expired, or be in another journal.`;
      fill(
        this,
        isNotFound(error)
          ? missing("run", text, "/runs")
          : failure("This run", error, () => restart(this)),
      );
    }
  }

  /** @param {RunModel} model @param {HeadLink[]} board */
  #show(model, board) {
    const view = h("lw-run");
    const base = runPath(model.runId);
    view.model = model;
    view.actions = {
      links: [
        ...conversationLink(model),
        ...board,
        {
          href: `${base}/export`,
          label: "JSONL",
          title: "Download the events, one a line",
          download: true,
        },
        {
          href: `${base}/report`,
          label: "HTML",
          title: "Download this view as one file that works offline",
          download: true,
        },
      ],
    };
    document.title = `${model.summary?.name ?? model.runId} · longwatch`;
    fill(this, view);
  }

  /**
   * The rest of the history. The next page is asked for while the last one is taken in.
   * @param {RunModel} model
   * @param {{events: RunEvent[], cursor: string, more: boolean}} first
   * @param {AbortSignal} signal
   */
  async #readOn(model, first, signal) {
    let { cursor, more } = first;
    let next = more ? page(model.runId, cursor, PAGE, signal) : null;
    while (next) {
      const found = await next;
      ({ cursor, more } = found);
      next = more && !signal.aborted ? page(model.runId, cursor, PAGE, signal) : null;
      model.add(found.events);
    }
    return cursor;
  }

  /** @param {RunModel} model @param {string} cursor */
  #follow(model, cursor) {
    /** @type {RunEvent[]} */
    const waiting = [];
    const stop = follow(`run:${model.runId}`, {
      after: cursor,
      onMessage: ({ event, data }) => {
        if (event === "event" && data.late) model.add([data.event], { late: true });
        else if (event === "event") {
          // Many events of one read become one change.
          if (waiting.push(data.event) === 1) queueMicrotask(() => model.add(waiting.splice(0)));
        } else if (event === "caught_up") {
          queueMicrotask(() => model.caught());
        }
      },
    });
    this.onDisconnect(stop);
    if (!model.open) model.caught();
  }

  /**
   * Poll the run's line in the list for what only the server observes: whether the run's processes exist.
   * @param {RunModel} model
   * @param {AbortSignal} signal
   */
  #observe(model, signal) {
    let seconds = 0;
    const poll = async () => {
      const summary = await listed(model.runId, signal);
      if (summary) model.tell(summary);
    };
    this.onDisconnect(
      everySecond(() => {
        seconds += 1;
        if (seconds % OBSERVE_SECONDS || !model.open || !model.hasProcesses) return;
        poll().catch(() => {}); // the feed shows that the server is unreachable
      }),
    );
  }
}

/**
 * @param {string} runId
 * @param {string} after
 * @param {number} limit
 * @param {AbortSignal} signal
 * @returns {Promise<{events: RunEvent[], cursor: string, more: boolean}>}
 */
async function page(runId, after, limit, signal) {
  const response = await api.request(
    api.url(`${runPath(runId)}/events`, { after: after || null, limit }),
    { signal },
  );
  return response.json();
}

/**
 * The run's line in the list, which costs next to nothing; the server would have to read all events to tell more.
 * @param {string} runId
 * @param {AbortSignal} signal
 * @returns {Promise<Summary | undefined>}
 */
async function listed(runId, signal) {
  const { runs } = await api.get("/api/runs", { query: { text: runId, limit: 5 }, signal });
  return runs.find((/** @type {Summary} */ run) => run.run_id === runId);
}

/** @param {RunModel} model */
function conversationLink(model) {
  const created = model.events.find((event) => event.type === "turn_created");
  const { project_id: project, conversation_id: session } = created?.payload ?? {};
  if (typeof project !== "string" || typeof session !== "string") return [];
  return [
    {
      href: sessionPath(project, session),
      label: "Session",
      title: "The session this turn belongs to",
      symbol: "thought",
    },
  ];
}

/**
 * A link to the board of an execution, if its record is here: an imported one has its run alone.
 * @param {RunModel} model
 * @param {AbortSignal} signal
 */
async function boardLink(model, signal) {
  if (model.summary?.kind !== "execution") return [];
  try {
    await api.get(executionPath(model.runId), { signal });
  } catch (error) {
    if (isNotFound(error) || signal.aborted) return [];
  }
  return [
    {
      href: boardPath(model.runId),
      label: "Board",
      title: "Every part of this execution, and its states over time",
      symbol: "board",
    },
  ];
}

define("lw-live-run", RunPage);
