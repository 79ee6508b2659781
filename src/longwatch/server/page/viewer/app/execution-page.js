/**
 * `<lw-live-execution>`: one execution. A head that says how it stands, what is known beside it, and its stages.
 */

import { beforePaint, fill, h, keep, say } from "./dom.js";
import { Part, define } from "./element.js";
import { showCards } from "./execution-cards.js";
import { ExecutionModel, isMissing, plansOf } from "./execution-model.js";
import { conditionsAt, etaText, isOpen, termsOf } from "./execution-text.js";
import { capital, length, moment, ticking, timeElement } from "./format.js";
import { icon, iconButton, statusMark } from "./icons.js";
import { offerKeys } from "./keys.js";
import { api } from "./client.js";
import { executionPath, go, place, runPath } from "./router.js";
import { failure, loading, state } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import { copy } from "./toast.js";
import "./stage-table.js";

/** @import { Stages } from "./stage-table.js" */
/** @import { Execution } from "./types.js" */

export class ExecutionPage extends Part {
  #model = new ExecutionModel("");
  #title = h("h1", { class: "cut" });
  #status = h("span");
  #facts = h("ul", { class: "run-facts" });
  #took = h("strong", { class: "nums" });
  #eta = h("strong", { class: "nums" });
  #conditions = h("ul", { class: "conditions", "aria-label": "Conditions" });
  #cards = h("div", { class: "cards" });
  #stages = /** @type {Stages} */ (h("lw-stages"));
  #draw = beforePaint(() => this.#drawNow());

  connectedCallback() {
    const stopped = new AbortController();
    this.whenGone(() => stopped.abort());
    this.#model = new ExecutionModel(place.value.ids["execution"] ?? "", place.value.ids["plan"] ?? null);
    fill(this, loading("execution", 10));
    void this.#open(stopped.signal);
  }

  /** @param {AbortSignal} signal */
  async #open(signal) {
    const { executionId } = this.#model;
    try {
      const stop = await this.#model.open(signal);
      if (signal.aborted) return stop();
      this.whenGone(stop);
      this.#show();
    } catch (error) {
      if (signal.aborted) return;
      const again = () => {
        this.disconnectedCallback();
        this.connectedCallback();
      };
      const plans = plansOf(error);
      if (plans.length) fill(this, choice(executionId, plans));
      else if (isMissing(error) && (await hasRun(executionId, signal))) location.replace(runPath(executionId)); // imported without its record
      else fill(this, isMissing(error) ? missing(executionId) : failure("This execution", error, again));
    }
  }

  #show() {
    const { execution_id: executionId, run_id: runId, source } = /** @type {Execution} */ (this.#model.execution);
    const terms = termsOf(source);
    const parts = `${capital(terms.stage)}s and ${terms.item}s`;
    this.#stages.model = this.#model;
    this.#cards.removeAttribute("data-told");
    fill(
      this,
      h(
        "header",
        { class: "execution-head" },
        h(
          "div",
          { class: "run-title" },
          this.#title,
          this.#status,
          h("span", { class: "spread" }),
          h(
            "div",
            { class: "toolbar run-buttons" },
            h("span", { class: "id" }, h("code", { class: "cut" }, executionId), iconButton("copy", "Copy the execution's id", () => void copy(executionId, "Execution id"))),
            iconButton("link", "Copy a link to this view", () => void copy(location.href, "Link"), ""),
            h("a", { class: "button", href: runPath(runId), title: "Every transition, one a row (l)" }, icon("file"), "Log"),
          ),
        ),
        this.#facts,
        this.#conditions,
      ),
      this.#cards,
      h("section", { class: "stages", "aria-label": parts }, h("h2", {}, parts), this.#stages),
    );
    this.whenGone(this.#model.watch(this.#draw));
    this.whenGone(everySecond(() => this.#drawNow()));
    this.whenGone(
      offerKeys("Execution", [
        { keys: ["j", "ArrowDown"], about: `Next ${terms.stage}`, run: () => this.#stages.move(1) },
        { keys: ["k", "ArrowUp"], about: `Previous ${terms.stage}`, run: () => this.#stages.move(-1) },
        { keys: ["Enter"], about: `Open or fold the ${terms.stage}`, run: () => document.activeElement instanceof HTMLElement && document.activeElement.click() },
        { keys: ["l"], about: "Log of its transitions", run: () => go(runPath(runId)) },
        { keys: ["u"], about: "Up to all executions", run: () => go("/executions") },
      ]),
    );
    this.#drawNow();
  }

  #drawNow() {
    const { execution } = this.#model;
    if (!execution || !this.isConnected) return;
    const now = Date.now();
    const name = execution.name ?? execution.plan_id;
    say(this.#title, name);
    this.#title.title = name;
    document.title = `${name} · longwatch`;
    if (this.#status.dataset["status"] !== execution.status) {
      this.#status.dataset["status"] = execution.status;
      fill(this.#status, statusMark(execution.status, { badge: true }));
    }
    this.#drawFacts(execution, now);
    keep(this.#conditions, conditionsAt(execution, now), {
      key: (condition) => condition.name,
      make: () => h("li", { class: "banner" }, icon("unknown"), h("span")),
      update: (item, condition) => say(/** @type {Element} */ (item.lastElementChild), `${condition.name}: ${condition.message}`),
    });
    showCards(this.#cards, execution, now);
  }

  /**
   * @param {Execution} execution
   * @param {number} now
   */
  #drawFacts(execution, now) {
    const { mode, plan_id: plan, source, started_at: started, ended_at: ended } = execution;
    const told = JSON.stringify([mode, plan, source, started, isOpen(execution), execution.eta === null]);
    if (this.#facts.dataset["told"] !== told) {
      this.#facts.dataset["told"] = told;
      fill(
        this.#facts,
        h("li", {}, h("span", { class: `tag mode-${mode}` }, mode)),
        h("li", {}, this.#took),
        isOpen(execution) && execution.eta ? h("li", {}, this.#eta) : null,
        h("li", {}, h("span", {}, "started ", timeElement(started, moment(started, now)))),
        h("li", {}, h("span", { class: "cut" }, "plan ", h("code", {}, plan))),
        h("li", {}, h("span", { class: "dim" }, `polled at ${source}`)),
      );
    }
    say(this.#eta, etaText(execution.eta, now));
    say(this.#took, ended === null ? ticking(now - started) : length(ended - started));
  }
}

/**
 * @param {string} executionId
 * @param {string[]} plans
 */
function choice(executionId, plans) {
  const links = plans.map((plan) => h("a", { class: "button", href: executionPath({ plan_id: plan, execution_id: executionId }) }, plan));
  return state({ symbol: "board", title: "Several plans have this execution", text: `Choose the plan of ${executionId}.` }, h("div", { class: "toolbar" }, ...links));
}

/** @param {string} executionId */
function missing(executionId) {
  return state(
    { symbol: "search", title: "There is no such execution", text: `No record with the id ${executionId} is here. It may be in another store.` },
    h("a", { class: "button", href: "/executions" }, "All executions"),
  );
}

/**
 * Whether the journal has a run of this id.
 * @param {string} runId
 * @param {AbortSignal} signal
 */
async function hasRun(runId, signal) {
  try {
    const { events } = await api.get(`/api/runs/${encodeURIComponent(runId)}/events`, { query: { limit: 1 }, signal });
    return events.length > 0;
  } catch {
    return false; // not known: the page says that there is no such execution
  }
}

define("lw-live-execution", ExecutionPage);
