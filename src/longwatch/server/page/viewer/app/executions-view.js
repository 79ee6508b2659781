/**
 * `<lw-executions>`: the board of executions, newest first, live. Filters are in the address.
 */

import { beforePaint, fill, h, keep } from "./dom.js";
import { Part, define } from "./element.js";
import { connection } from "./connection.js";
import { executionRow, tickRow, updateRow } from "./execution-row.js";
import { ExecutionsFilters } from "./executions-filters.js";
import { ExecutionsModel, keyOf, queryOf } from "./executions-model.js";
import { offerKeys } from "./keys.js";
import { executionPath, go, place, setQuery } from "./router.js";
import { commandLine, failure, loading, state } from "./states.js";
import { everySecond } from "./ticker.js";

const ADD = "longwatch executions add --plan PLAN --wave NAME=JOB";
const WATCH = "longwatch executions watch";
const HEADS = ["Execution", "Type", "Waves and servers", "Time", "State"];

export class ExecutionsView extends Part {
  #model = new ExecutionsModel();
  #filters = new ExecutionsFilters();
  #list = h("ul", { class: "runs", "aria-label": "Executions, newest first" });
  #head = h("div", { class: "execution-row head", "aria-hidden": "true" }, ...HEADS.map((name) => h("span", {}, name)));
  #foot = h("div", { class: "runs-foot" });
  #draw = beforePaint(() => this.#drawNow());
  #asked = "";

  connectedCallback() {
    this.append(h("div", { class: "page-head" }, h("h1", {}, "Executions")), this.#filters.element, this.#head, this.#list, this.#foot);
    this.whenGone(this.#model.watch(this.#draw));
    this.whenGone(() => this.#model.close());
    this.whenGone(place.watch(() => this.#ask()));
    this.whenGone(connection.watch(this.#draw));
    this.whenGone(everySecond((now) => {
      for (const row of this.#list.children) tickRow(/** @type {HTMLElement} */ (row), now);
    }));
    this.whenGone(
      offerKeys("Executions", [
        { keys: ["j", "ArrowDown"], about: "Next execution", run: () => this.#move(1) },
        { keys: ["k", "ArrowUp"], about: "Execution before", run: () => this.#move(-1) },
        { keys: ["Enter"], about: "Open the execution", run: (event) => this.#open(event) },
        { keys: ["/"], about: "Search", run: () => this.#filters.focusSearch() },
      ]),
    );
  }

  #ask() {
    const { view, query } = place.value;
    if (view !== "executions") return;
    this.#filters.show(query);
    const asked = JSON.stringify(queryOf(query));
    if (asked === this.#asked) return;
    this.#asked = asked;
    void this.#model.open(queryOf(query));
  }

  #drawNow() {
    const { executions, state: at, error, more } = this.#model;
    const now = Date.now();
    this.#head.hidden = !executions.length;
    keep(this.#list, executions, {
      key: keyOf,
      make: (execution) => executionRow(execution, now),
      update: (row, execution) => updateRow(row, execution, now),
    });
    if (at === "loading") return fill(this.#foot, executions.length ? null : loading("executions", 8));
    if (at === "failed") return fill(this.#foot, failure("The list of executions", error, () => void this.#model.again()));
    if (more) return fill(this.#foot, h("button", { type: "button", disabled: at === "more", on: { click: () => void this.#model.loadMore() } }, at === "more" ? "Loading …" : executions.length ? "Load more" : "Search further"));
    if (!executions.length) return fill(this.#foot, this.#nothing());
    fill(this.#foot, h("p", { class: "dim" }, "No more executions."));
  }

  #nothing() {
    if (Object.keys(queryOf(place.value.query)).length) {
      const clear = () => setQuery({ status: null, mode: null, source: null, text: null });
      return state({ symbol: "search", title: "No execution matches", text: "Choose other filters, or look at all executions." }, h("button", { type: "button", on: { click: clear } }, "Show all executions"));
    }
    const { hint } = this.#model;
    const deploy = hint !== null && hint.includes("Deploy ") ? hint : null;
    return state(
      { symbol: "board", title: "No executions yet", text: deploy ?? "An execution is work that runs in another system: a recovery drill, a build, a job. Add one that is under way, and let longwatch ask about it. It appears here by itself." },
      ...(deploy ? [] : [commandLine(ADD), commandLine(WATCH)]),
    );
  }

  /** @param {number} step */
  #move(step) {
    const rows = [...this.#list.querySelectorAll("a.execution-row")];
    const at = rows.indexOf(/** @type {Element} */ (document.activeElement));
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + step))];
    if (next instanceof HTMLElement) next.focus();
  }

  /** @param {KeyboardEvent} event */
  #open(event) {
    const focused = document.activeElement;
    if (focused instanceof HTMLButtonElement || focused instanceof HTMLAnchorElement) {
      focused.click();
      return;
    }
    const first = this.#model.executions[0];
    if (first && event.target === document.body) go(executionPath(first));
  }
}

define("lw-executions", ExecutionsView);
