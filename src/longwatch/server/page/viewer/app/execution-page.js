/** `<lw-live-execution>`: one execution, with a head, cards and its stages. */

import { pageNow } from "./connection.js";
import { isNotFound } from "../core/errors.js";
import { beforePaint, fill, h, isOutdated, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define, restart } from "./element.js";
import { showCards } from "./execution-cards.js";
import { ExecutionModel, plansOf } from "./execution-model.js";
import { conditionsOf, etaText, isOpen, termsOf } from "./execution-text.js";
import { capital, dateTimeElement, durationText, elapsedText } from "./format.js";
import { linkTo, statusMark } from "./icons.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { readEvents } from "./client.js";
import { currentRoute, executionPath, go, runPath } from "./router.js";
import { failure, loading, missing, showBanners, showFacts, state } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import { idMark, linkButton } from "./toast.js";
import "./stage-table.js";

/** @import { Execution } from "./types.js" */

export class ExecutionPage extends Part {
  #model = new ExecutionModel("");
  #title = h("h1", { class: "cut", dir: "auto" });
  #status = h("span");
  #facts = h("ul", { class: "run-facts" });
  #log = linkTo("", "file", "Log", "All transitions as a log (l)");
  #conditions = h("ul", { class: "conditions", "aria-label": "Conditions" });
  #cards = div("cards");
  #stages = h("lw-stages");
  #draw = beforePaint(() => this.#drawNow());

  connectedCallback() {
    const stopped = new AbortController();
    this.onDisconnect(() => stopped.abort());
    this.#model = new ExecutionModel(
      currentRoute.value.ids["execution"] ?? "",
      currentRoute.value.ids["plan"] ?? null,
    );
    fill(this, loading("execution", 10));
    void this.#open(stopped.signal);
  }

  /** @param {AbortSignal} signal */
  async #open(signal) {
    try {
      const stop = await this.#model.open(signal);
      if (signal.aborted) return stop();
      this.onDisconnect(stop);
      this.#show();
    } catch (error) {
      if (!signal.aborted) fill(this, await this.#problem(error, signal));
    }
  }

  /** @param {unknown} error @param {AbortSignal} signal */
  async #problem(error, signal) {
    const { executionId } = this.#model;
    const plans = plansOf(error);
    if (plans.length) return choice(executionId, plans);
    if (!isNotFound(error)) return failure("This execution", error, () => restart(this));
    if (await hasRun(executionId, signal)) {
      location.replace(runPath(executionId)); // a run that was imported without its record
      return loading("execution", 10);
    }
    const text = `This store has no execution with the ID ${executionId}. It may be in another store.`;
    return missing("execution", text, "/executions");
  }

  #show() {
    const {
      execution_id: executionId,
      run_id: runId,
      source,
    } = /** @type {Execution} */ (this.#model.execution);
    const terms = termsOf(source);
    const parts = `${capital(terms.stage)}s and ${terms.item}s`;
    this.#stages.model = this.#model;
    this.#cards.removeAttribute("data-shown");
    this.#log.href = runPath(runId);
    fill(
      this,
      h(
        "header",
        { class: "execution-head" },
        div(
          "run-title",
          this.#title,
          this.#status,
          spacer(),
          div("toolbar run-buttons", idMark("Execution ID", executionId), linkButton(), this.#log),
        ),
        this.#facts,
        this.#conditions,
      ),
      this.#cards,
      h("section", { class: "stages", "aria-label": parts }, h("h2", {}, parts), this.#stages),
    );
    this.onDisconnect(
      this.#model.watch(this.#draw),
      everySecond(() => this.#drawNow()),
      addShortcuts("Execution", [
        ...moveShortcuts(terms.stage, (step) => this.#stages.move(step)),
        {
          keys: ["Enter"],
          about: `Expand or collapse the ${terms.stage}`,
          run: () =>
            document.activeElement instanceof HTMLElement && document.activeElement.click(),
        },
        {
          keys: ["l"],
          about: "Log of transitions",
          run: () => this.#model.hasRun && go(runPath(runId)),
        },
        { keys: ["u"], about: "All executions", run: () => go("/executions") },
      ]),
    );
    this.#drawNow();
  }

  #drawNow() {
    const { execution } = this.#model;
    if (!execution || !this.isConnected) return;
    const now = pageNow();
    const name = execution.name ?? execution.plan_id;
    this.#log.hidden = !this.#model.hasRun;
    setText(this.#title, name);
    this.#title.title = name;
    document.title = `${name} · longwatch`;
    if (isOutdated(this.#status, execution.status))
      fill(this.#status, statusMark(execution.status, { badge: true }));
    showFacts(this.#facts, factsOf(execution, now));
    showBanners(
      this.#conditions,
      conditionsOf(execution, now).map(({ name: key, message }) => ({
        key,
        text: `${key}: ${message}`,
      })),
    );
    showCards(this.#cards, execution, now);
  }
}

/** @param {Execution} execution @param {number} now @returns {[string, Element | null][]} */
function factsOf(execution, now) {
  const { mode, plan_id: plan, source, eta, started_at: started, ended_at: ended } = execution;
  const took = ended === null ? elapsedText(now - started) : durationText(ended - started);
  const left = isOpen(execution) && eta ? etaText(eta, now) : null;
  return [
    ["mode", span(`tag mode-${mode}`, mode)],
    ["length", h("strong", { class: "nums" }, took)],
    ["left", left === null ? null : h("strong", { class: "nums" }, left)],
    ["started", h("span", {}, "started ", dateTimeElement(started, now))],
    ["plan", span("cut", "plan ", h("code", {}, plan))],
    ["source", span("dim", `source ${source}`)],
  ];
}

/** @param {string} executionId @param {string[]} plans */
function choice(executionId, plans) {
  const links = plans.map((plan) =>
    h(
      "a",
      { class: "button", href: executionPath({ plan_id: plan, execution_id: executionId }) },
      plan,
    ),
  );
  const title = "Several plans have an execution with this ID";
  const text = `Choose the plan of ${executionId}.`;
  return state({ symbol: "board", title, text }, div("toolbar", ...links));
}

/** Whether the journal has a run of this id. @param {string} runId @param {AbortSignal} signal */
async function hasRun(runId, signal) {
  try {
    return (await readEvents(runId, "", 1, signal)).events.length > 0;
  } catch {
    return false; // then the page reports a missing execution
  }
}

define("lw-live-execution", ExecutionPage);
