/**
 * `<lw-runs>`: the list of runs, newest first, live. Filters are in the address.
 */

import { beforePaint, fill, h, keep } from "./dom.js";
import { Part, define } from "./element.js";
import { connection } from "./connection.js";
import { offerKeys } from "./keys.js";
import { go, pathOf, place, setQuery } from "./router.js";
import { RunsFilters } from "./runs-filters.js";
import { RunsModel, queryOf } from "./runs-model.js";
import { runRow, tickRow, updateRow } from "./runs-row.js";
import { failure, loading, state } from "./states.js";
import { everySecond } from "./ticker.js";

/** @typedef {import("./types.js").Summary} Summary */

const REFRESH_SECONDS = 15;
const FIRST_COMMAND = "longwatch run -- sleep 60";

export class RunsView extends Part {
  #model = new RunsModel();
  #filters = new RunsFilters();
  #list = h("ul", { class: "runs", "aria-label": "Runs, newest first" });
  #head = h("div", { class: "run-row head", "aria-hidden": "true" }, ...["Run", "Kind", "Agents", "Duration", "Last event", "State"].map((name) => h("span", {}, name)));
  #foot = h("div", { class: "runs-foot" });
  #hint = h("p", { class: "runs-hint dim", role: "status", hidden: true });
  #draw = beforePaint(() => this.#drawNow());
  #asked = "";

  connectedCallback() {
    this.append(h("div", { class: "page-head" }, h("h1", {}, "Runs")), this.#filters.element, this.#head, this.#list, this.#foot, this.#hint);
    this.whenGone(this.#model.watch(this.#draw));
    this.whenGone(() => this.#model.close());
    this.whenGone(place.watch(() => this.#ask()));
    this.whenGone(connection.watch(this.#draw));
    let seconds = 0;
    this.whenGone(everySecond((now) => {
      seconds += 1;
      if (seconds % REFRESH_SECONDS === 0) void this.#model.refresh();
      for (const row of this.#list.children) tickRow(/** @type {HTMLElement} */ (row), now);
    }));
    this.whenGone(
      offerKeys("Runs", [
        { keys: ["j", "ArrowDown"], about: "Next run", run: () => this.#move(1) },
        { keys: ["k", "ArrowUp"], about: "Run before", run: () => this.#move(-1) },
        { keys: ["Enter"], about: "Open the run", run: (event) => this.#open(event) },
        { keys: ["/"], about: "Search", run: () => this.#filters.focusSearch() },
      ]),
    );
  }

  #ask() {
    const { view, query } = place.value;
    if (view !== "runs") return;
    this.#filters.show(query);
    const asked = JSON.stringify(queryOf(query));
    if (asked === this.#asked) return;
    this.#asked = asked;
    void this.#model.open(queryOf(query));
  }

  #drawNow() {
    const { runs, state: at, error, more, hint } = this.#model;
    const now = Date.now();
    this.#head.hidden = !runs.length;
    this.#hint.hidden = hint === null;
    this.#hint.textContent = hint ?? "";
    keep(this.#list, runs, {
      key: (run) => run.run_id,
      make: (run) => runRow(run, now),
      update: (row, run) => updateRow(row, run, now),
    });
    if (at === "loading") return fill(this.#foot, runs.length ? null : loading("runs", 10));
    if (at === "failed") return fill(this.#foot, failure("The list of runs", error, () => void this.#model.again()));
    if (!runs.length) return fill(this.#foot, this.#nothing());
    fill(this.#foot, more ? h("button", { type: "button", disabled: at === "more", on: { click: () => void this.#model.loadMore() } }, at === "more" ? "Loading …" : "Load more") : h("p", { class: "dim" }, "No more runs."));
  }

  #nothing() {
    if (Object.keys(queryOf(place.value.query)).length) {
      const clear = () => setQuery({ status: null, kind: null, text: null, since: null });
      return state({ symbol: "search", title: "No run matches", text: "Choose other filters, or look at all runs." }, h("button", { type: "button", on: { click: clear } }, "Show all runs"));
    }
    return state({ title: "No runs yet", text: "Record a first one: this runs a command and records it. It appears here by itself.", command: FIRST_COMMAND });
  }

  /** @param {number} step */
  #move(step) {
    const rows = [...this.#list.querySelectorAll("a.run-row")];
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
    const first = this.#model.runs[0];
    if (first && event.target === document.body) go(pathOf(first));
  }
}

define("lw-runs", RunsView);
