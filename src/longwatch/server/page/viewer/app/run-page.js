/** `<lw-live-run>`: a run of the server. Reads its history in large pages, then follows it. */

import { executionPath, runPath } from "../core/routes.js";
import { asError, isGone, isNotFound } from "../core/errors.js";
import { button, fill, h } from "./dom.js";
import { Part, define, restart } from "./element.js";
import { api, follow, readEvents } from "./client.js";
import { pageNow } from "./connection.js";
import { linkTo } from "./icons.js";
import { boardPath, comparePath, currentRoute, go, sessionPath } from "./router.js";
import { RunModel } from "./run-model.js";
import "./notify-button.js";
import { deleted, failure, loading, missing } from "./placeholders.js";
import { everySeconds } from "./ticker.js";
import { toast } from "./toast.js";
import "./run-view.js";

/** @import { Child } from "./dom.js" */
/** @import { RunEvent, Summary } from "./types.js" */

const FIRST_PAGE = 500; // small, for an early first paint
const PAGE = 5000;
const CONFIRM_MS = 5000; // for the second click on Delete
const OBSERVE_SECONDS = 15; // between two polls for the processes of an open run
const TOTALS_MS = 1000; // after an event that changes the usage, which the server totals and prices
const USAGE_TYPES = ["model_call", "turn_result"];

export class RunPage extends Part {
  connectedCallback() {
    const stopped = new AbortController();
    this.onDisconnect(() => stopped.abort());
    fill(this, loading("run", 12));
    void this.#open(currentRoute.value.ids["run"] ?? "", stopped.signal);
  }

  /** @param {string} runId @param {AbortSignal} signal */
  async #open(runId, signal) {
    const model = new RunModel(runId, pageNow);
    try {
      const [summary, first] = await Promise.all([
        readSummary(runId, signal),
        readEvents(runId, "", FIRST_PAGE, signal),
      ]);
      if (signal.aborted) return;
      if (summary) model.setSummary(summary);
      model.add(first.events);
      const board = await boardLink(model, signal);
      if (signal.aborted) return;
      this.#show(model, board, signal);
      const cursor = await this.#readHistory(model, first, signal);
      if (signal.aborted) return;
      this.#follow(model, cursor);
      this.#observe(model, signal);
    } catch (error) {
      if (signal.aborted) return;
      const text = `This journal has no run with the ID ${runId}. It may have expired, or be in another journal.`;
      fill(
        this,
        isGone(error)
          ? deleted("run", error.message, "/runs")
          : isNotFound(error)
            ? missing("run", text, "/runs")
            : failure("This run", error, () => restart(this)),
      );
    }
  }

  /** @param {RunModel} model @param {Child} board @param {AbortSignal} signal */
  #show(model, board, signal) {
    const view = h("lw-run");
    const base = runPath(model.runId);
    view.model = model;
    view.actions = {
      links: [
        sessionLink(model),
        board,
        linkTo(comparePath(model.runId), "compare", "Compare", "Compare with an earlier run"),
        linkTo(`${base}/export`, "download", "JSONL", "Download the events as JSON Lines", true),
        linkTo(`${base}/report`, "download", "HTML", "Download this page for offline use", true),
        h("lw-notify"),
        deleteButton(model, signal),
      ],
    };
    document.title = `${model.summary?.name ?? model.runId} · longwatch`;
    fill(this, view);
  }

  /**
   * Read the rest of the history. The next page is requested while the last one is added.
   * @param {RunModel} model @param {{events: RunEvent[], cursor: string, more: boolean}} first
   * @param {AbortSignal} signal
   */
  async #readHistory(model, first, signal) {
    let { cursor, more } = first;
    let next = more ? readEvents(model.runId, cursor, PAGE, signal) : null;
    while (next) {
      const page = await next;
      ({ cursor, more } = page);
      next = more && !signal.aborted ? readEvents(model.runId, cursor, PAGE, signal) : null;
      model.add(page.events);
    }
    return cursor;
  }

  /** @param {RunModel} model @param {string} cursor */
  #follow(model, cursor) {
    /** @type {RunEvent[]} */
    const waiting = [];
    const total = this.#totals(model);
    const stop = follow(`run:${model.runId}`, {
      after: cursor,
      onMessage: ({ event, data }) => {
        if (event === "event" && USAGE_TYPES.includes(data.event.type)) total();
        if (event === "event" && data.late) model.add([data.event], { late: true });
        else if (event === "event") {
          // Events that arrive together become one change.
          if (waiting.push(data.event) === 1) queueMicrotask(() => model.add(waiting.splice(0)));
        } else if (event === "ended" && data.reason === "deleted") {
          fill(this, deleted("run", data.message, "/runs"));
        } else if (event === "caught_up") {
          queueMicrotask(() => model.markCaughtUp());
        }
      },
    });
    this.onDisconnect(stop);
    if (!model.open) model.markCaughtUp();
  }

  /** A function that requests the run's totals soon, once for all events meanwhile. @param {RunModel} model */
  #totals(model) {
    const stopped = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    this.onDisconnect(() => {
      clearTimeout(timer);
      stopped.abort();
    });
    const request = async () => {
      timer = undefined;
      const summary = await readSummary(model.runId, stopped.signal).catch(() => undefined);
      if (summary && !stopped.signal.aborted) model.setSummary(summary);
    };
    return () => {
      timer ??= setTimeout(() => void request(), TOTALS_MS);
    };
  }

  /**
   * Poll the run's summary for what only the server observes: whether the run's processes exist.
   * @param {RunModel} model @param {AbortSignal} signal
   */
  #observe(model, signal) {
    const poll = async () => {
      const summary = await readSummary(model.runId, signal);
      if (summary) model.setSummary(summary);
    };
    this.onDisconnect(
      everySeconds(OBSERVE_SECONDS, () => {
        if (model.open && model.hasProcesses) poll().catch(() => {}); // the feed reports an outage
      }),
    );
  }
}

/**
 * The run's line in the list, which is cheap; for the whole run the server would read all events.
 * @param {string} runId @param {AbortSignal} signal @returns {Promise<Summary | undefined>}
 */
async function readSummary(runId, signal) {
  const { runs } = await api.get("/api/runs", { query: { text: runId, limit: 5 }, signal });
  return runs.find((/** @type {Summary} */ run) => run.run_id === runId);
}

/**
 * A button that deletes the run with its second click, hidden from those who may not.
 * @param {RunModel} model @param {AbortSignal} signal
 */
function deleteButton(model, signal) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const title = "Delete this run with all of its events";
  const confirm = () => {
    if (timer === undefined) {
      control.textContent = model.open ? "Still open. Delete anyway?" : "Really delete?";
      control.className = "button danger";
      timer = setTimeout(reset, CONFIRM_MS);
    } else {
      reset();
      void remove(model);
    }
  };
  const control = button(confirm, { class: "button quiet", title, hidden: true }, "Delete");
  const show = async () => {
    const { deletes_runs } = await api.get("/api/access", { signal });
    control.hidden = !deletes_runs;
  };
  show().catch(() => {}); // without an answer it stays hidden
  const reset = () => {
    clearTimeout(timer);
    timer = undefined;
    control.textContent = "Delete";
    control.className = "button quiet";
  };
  return control;
}

/** @param {RunModel} model */
async function remove(model) {
  try {
    const query = model.open ? { force: "true" } : {};
    await api.send("DELETE", runPath(model.runId), undefined, { query });
    toast("Run deleted");
    go("/runs");
  } catch (error) {
    toast(asError(error).message);
  }
}

/** @param {RunModel} model */
function sessionLink(model) {
  const created = model.events.find((event) => event.type === "turn_created");
  const { project_id: project, conversation_id: session } = created?.payload ?? {};
  if (typeof project !== "string" || typeof session !== "string") return null;
  return linkTo(sessionPath(project, session), "thought", "Session", "The session of this turn");
}

/**
 * A link to the board of an execution, unless it was imported without its record.
 * @param {RunModel} model @param {AbortSignal} signal
 */
async function boardLink(model, signal) {
  if (model.summary?.kind !== "execution") return null;
  try {
    await api.get(executionPath(model.runId), { signal });
  } catch (error) {
    if (isNotFound(error) || signal.aborted) return null;
  }
  const title = "All parts of this execution and their states over time";
  return linkTo(boardPath(model.runId), "board", "Board", title);
}

define("lw-live-run", RunPage);
