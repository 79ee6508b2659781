/**
 * One execution of the server: its record as it stands, and the transitions that led there.
 */

import { ApiError, isNotFound } from "../core/errors.js";
import { executionPath, executionTopic, runPath } from "../core/routes.js";
import { Spans } from "./execution-spans.js";
import { api, follow } from "./client.js";
import { Watchable } from "./observable.js";

/** @import { Execution, RunEvent } from "./types.js" */

const PAGE = 5000;
const CONFLICT = 409;

export class ExecutionModel extends Watchable {
  /** @type {Execution | null} */
  execution = null;
  spans = new Spans();

  /**
   * @param {string} executionId
   * @param {string | null} planId null: the id is `plan/execution`, or one that only one plan has
   */
  constructor(executionId, planId = null) {
    super();
    this.executionId = executionId;
    this.planId = planId;
  }

  /**
   * Read it, and follow it until the returned function is called.
   * @param {AbortSignal} signal
   * @returns {Promise<() => void>}
   */
  async open(signal) {
    /** @type {Execution} */
    const execution = await api.get(executionPath(this.executionId, this.planId), { signal });
    this.execution = execution;
    const cursor = await this.#readTransitions(execution.run_id, signal);
    if (signal.aborted) return () => {};
    const record = follow(executionTopic(execution.plan_id, execution.execution_id), {
      onMessage: ({ event, data }) => event === "execution" && this.#take(data.execution),
    });
    const events = follow(`run:${execution.run_id}`, {
      after: cursor,
      onMessage: ({ event, data }) => event === "event" && this.#add([data.event]),
    });
    return () => {
      record();
      events();
    };
  }

  /**
   * All that the journal has. An execution that another program added has no run before it is first asked about.
   * @param {string} runId
   * @param {AbortSignal} signal
   */
  async #readTransitions(runId, signal) {
    let cursor = "";
    try {
      for (let more = true; more && !signal.aborted;) {
        const response = await api.request(
          api.url(`${runPath(runId)}/events`, { after: cursor || null, limit: PAGE }),
          { signal },
        );
        const page = await response.json();
        this.spans.add(page.events);
        ({ cursor, more } = page);
      }
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return cursor;
  }

  /** @param {Execution} told */
  #take(told) {
    if (this.execution && told.version < this.execution.version) return; // an older telling, of before the page was read
    this.execution = told;
    this.notify();
  }

  /** @param {RunEvent[]} events */
  #add(events) {
    this.spans.add(events);
    this.notify();
  }
}

/**
 * The plans that have an execution of this id, if the server refuses to choose one of them.
 * @param {unknown} error
 * @returns {string[]}
 */
export function plansOf(error) {
  if (!(error instanceof ApiError) || error.status !== CONFLICT) return [];
  return error.details.filter(({ field }) => field === "plan").map(({ message }) => message);
}
