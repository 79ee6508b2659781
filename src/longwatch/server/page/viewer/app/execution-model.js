/** One execution of the server: its current record and the transitions that led to it. */

import { ApiError, isNotFound } from "../core/errors.js";
import { executionPath, executionTopic } from "../core/routes.js";
import { Spans } from "./execution-spans.js";
import { api, follow, readEvents } from "./client.js";
import { Watchable } from "./observable.js";

/** @import { Execution, RunEvent } from "./types.js" */

const PAGE = 5000;
const CONFLICT = 409;

export class ExecutionModel extends Watchable {
  /** @type {Execution | null} */
  execution = null;
  hasRun = false; // one that another program added has no run before its first poll
  spans = new Spans();

  /**
   * @param {string} executionId
   * @param {string | null} planId null if the id is `plan/execution`, or one that only one plan has
   */
  constructor(executionId, planId = null) {
    super();
    this.executionId = executionId;
    this.planId = planId;
  }

  /**
   * Read the execution, and follow it until the returned function is called.
   * @param {AbortSignal} signal @returns {Promise<() => void>}
   */
  async open(signal) {
    /** @type {Execution} */
    const execution = await api.get(executionPath(this.executionId, this.planId), { signal });
    this.execution = execution;
    const cursor = await this.#readTransitions(execution.run_id, signal);
    if (signal.aborted) return () => {};
    const stops = [
      follow(executionTopic(execution.plan_id, execution.execution_id), {
        onMessage: ({ event, data }) => event === "execution" && this.#update(data.execution),
      }),
      follow(`run:${execution.run_id}`, {
        after: cursor,
        onMessage: ({ event, data }) => event === "event" && this.#add([data.event]),
      }),
    ];
    return () => stops.forEach((stop) => stop());
  }

  /**
   * Read all transitions of the journal.
   * @param {string} runId @param {AbortSignal} signal
   */
  async #readTransitions(runId, signal) {
    let cursor = "";
    try {
      for (let more = true; more && !signal.aborted;) {
        const page = await readEvents(runId, cursor, PAGE, signal);
        this.hasRun = true;
        this.spans.add(page.events);
        ({ cursor, more } = page);
      }
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return cursor;
  }

  /** @param {Execution} received */
  #update(received) {
    if (this.execution && received.version < this.execution.version) return; // older than the response
    this.execution = received;
    this.notify();
  }

  /** @param {RunEvent[]} events */
  #add(events) {
    this.hasRun = true;
    this.spans.add(events);
    this.notify();
  }
}

/**
 * The plans that have an execution with this id, if the error says that there are several.
 * @param {unknown} error @returns {string[]}
 */
export function plansOf(error) {
  if (!(error instanceof ApiError) || error.status !== CONFLICT) return [];
  return error.details.filter(({ field }) => field === "plan").map(({ message }) => message);
}
