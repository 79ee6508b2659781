/** `<lw-compare>`: two runs side by side, their calls aligned by structure. */

import { api } from "./client.js";
import { button, fill, h } from "./dom.js";
import { div, p, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { countText, dateTimeText, durationText, numberText } from "./format.js";
import { icon, statusMark } from "./icons.js";
import { failure, loading, missing, state } from "./placeholders.js";
import { isNotFound } from "../core/errors.js";
import { termText } from "./query-text.js";
import { currentRoute, runPath, setQuery } from "./router.js";
import { differenceText, differing, leftOutText, summaryText } from "./run-diff.js";
import { ranText } from "./run-times.js";
import { usageText } from "./usage-text.js";

/** @import { Child } from "./dom.js" */
/** @import { ComparedCall, ComparedRun, Comparison, DiffRow, Summary } from "./types.js" */

const CANDIDATES = 50;
const MAX_INDENT = 12; // levels

export class CompareView extends Part {
  #body = div("compare-body");
  /** @type {AbortController | null} */
  #loading = null;
  #shown = "";
  /** @type {Comparison | null} */
  #found = null;

  connectedCallback() {
    this.append(div("page-head", h("h1", {}, "Compare runs")), this.#body);
    this.onDisconnect(
      currentRoute.watch(() => this.#open()),
      () => this.#loading?.abort(),
    );
  }

  #open() {
    const { view, query } = currentRoute.value;
    if (view !== "compare") return;
    const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
    const shown = JSON.stringify([a, b]);
    if (shown === this.#shown) return this.#draw();
    this.#shown = shown;
    void this.#load(a, b);
  }

  /** @param {string} a @param {string} b */
  async #load(a, b) {
    this.#loading?.abort();
    const { signal } = (this.#loading = new AbortController());
    fill(this.#body, loading("comparison"));
    try {
      const candidates = await sameName(b || a, signal);
      if (!a || !b) return this.#choose(a, b, candidates);
      this.#found = await (await api.request(api.url("/api/compare", { a, b }), { signal })).json();
      this.#candidates = candidates;
      this.#draw();
    } catch (error) {
      if (signal.aborted) return;
      this.#found = null;
      const text = "This journal has no such run. It may have expired.";
      fill(
        this.#body,
        isNotFound(error)
          ? missing("run", text, "/runs")
          : failure("The comparison", error, () => void this.#load(a, b)),
      );
    }
  }

  /** @type {Summary[]} runs to choose from */
  #candidates = [];

  /**
   * Compare with the run before, or say that there is none.
   * @param {string} a @param {string} b @param {Summary[]} candidates
   */
  #choose(a, b, candidates) {
    const known = candidates.find((run) => run.run_id === (b || a));
    const before = candidates.find(
      (run) => run !== known && (!known || run.started_at <= known.started_at),
    );
    const other = before ?? candidates.find((run) => run !== known);
    if (known && other) {
      setQuery({ a: other.run_id, b: known.run_id }, { replace: true });
      return;
    }
    fill(
      this.#body,
      state(
        {
          symbol: "search",
          title: b || a ? "No other run of this name" : "No runs to compare",
          text: "Open a run and choose Compare, or name both runs: longwatch diff A B.",
        },
        h("a", { class: "button", href: "/runs" }, "All runs"),
      ),
    );
  }

  #draw() {
    const found = this.#found;
    if (!found) return;
    const onlyDifferences = currentRoute.value.query.get("only") === "differences";
    const total = found.rows.length + found.left_out;
    fill(
      this.#body,
      div(
        "compare-runs",
        side("A", found.a, this.#picker("a", found.a, found.b)),
        side("B", found.b, this.#picker("b", found.b, found.a)),
      ),
      div(
        "toolbar",
        h("strong", { role: "status" }, summaryText(found)),
        spacer(),
        found.first_difference === null
          ? null
          : button(() => this.#jump(), {}, icon("down"), "First difference"),
        button(
          () => setQuery({ only: onlyDifferences ? null : "differences" }),
          { class: "chip", "aria-pressed": String(onlyDifferences), disabled: !found.differing },
          "Only differences",
        ),
        button(() => setQuery({ a: found.b.run_id, b: found.a.run_id }), {}, "Swap A and B"),
      ),
      total ? callTable(found, onlyDifferences) : p("dim", "Neither run has calls."),
      found.left_out
        ? p("dim", `${leftOutText(found)} `, h("code", {}, "longwatch diff --all"), " lists them.")
        : null,
    );
  }

  #jump() {
    const row = /** @type {HTMLElement | null} */ (this.querySelector("tr.is-first"));
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** @param {"a" | "b"} name @param {ComparedRun} shown @param {ComparedRun} other */
  #picker(name, shown, other) {
    const runs = this.#candidates.filter((run) => run.run_id !== other.run_id);
    if (!runs.some((run) => run.run_id === shown.run_id)) runs.unshift(/** @type {any} */ (shown));
    const now = Date.now();
    const field = h(
      "select",
      {
        "aria-label": `Choose run ${name.toUpperCase()}`,
        on: { change: () => setQuery({ [name]: field.value }) },
      },
      ...runs.map((run) =>
        h(
          "option",
          { value: run.run_id, selected: run.run_id === shown.run_id },
          `${dateTimeText(run.started_at, now)} · ${run.status} · ${run.run_id}`,
        ),
      ),
    );
    return field;
  }
}

/**
 * The newest runs with the name of a run, or the newest of all.
 * @param {string} runId @param {AbortSignal} signal @returns {Promise<Summary[]>}
 */
async function sameName(runId, signal) {
  const read = async (/** @type {string} */ q, limit = CANDIDATES) =>
    (await api.get("/api/runs", { query: { q, limit }, signal })).runs;
  if (!runId) return read("");
  const found = await read(termText("run", runId), 5);
  const run = found.find((/** @type {Summary} */ each) => each.run_id === runId);
  const term = run?.name ? termText("name", run.name) : run ? termText("kind", run.kind) : "";
  const runs = (await read(term)).filter(
    (/** @type {Summary} */ each) => !run?.name || each.name === run.name,
  );
  return run && !runs.some((/** @type {Summary} */ each) => each.run_id === runId)
    ? [run, ...runs]
    : runs;
}

/** @param {string} letter @param {ComparedRun} run @param {Child} picker */
function side(letter, run, picker) {
  const took = run.duration_between
    ? ranText(/** @type {[number, number | null]} */ (run.duration_between))
    : durationText(run.duration_ms ?? 0);
  return h(
    "section",
    { class: "compare-run", "aria-label": `Run ${letter}` },
    h(
      "h2",
      {},
      span("tag", letter),
      h("a", { class: "cut", href: runPath(run.run_id) }, h("bdi", {}, run.name ?? run.run_id)),
      statusMark(run.status, { badge: true }),
    ),
    picker,
    p(
      "dim",
      h("strong", { class: "nums" }, took),
      ` · ${countText(run.events, "event")}`,
      run.usage ? ` · ${usageText(run.usage)}` : null,
    ),
    run.error ? p("problem", run.error.split("\n")[0]) : null,
  );
}

/** @param {Comparison} found @param {boolean} onlyDifferences */
function callTable(found, onlyDifferences) {
  const hasTokens = found.rows.some(({ a, b }) => a?.tokens != null || b?.tokens != null);
  const kept = onlyDifferences ? differing(found.rows) : null;
  const head = [
    "Call",
    "Time A",
    "Time B",
    ...(hasTokens ? ["Tokens A", "Tokens B"] : []),
    "Differences",
  ];
  return div(
    "compare-table",
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
      h(
        "tbody",
        {},
        ...found.rows
          .map((row, at) => ({ row, at }))
          .filter(({ at }) => !kept || kept.has(at))
          .map(({ row, at }) => tableRow(found, row, hasTokens, at === found.first_difference)),
      ),
    ),
  );
}

/** @param {Comparison} found @param {DiffRow} row @param {boolean} hasTokens @param {boolean} isFirst */
function tableRow(found, row, hasTokens, isFirst) {
  const { a, b } = row;
  const change = !a ? "added" : !b ? "missing" : row.differences.length ? "changed" : "same";
  const shown = /** @type {ComparedCall} */ (b ?? a);
  const run = b ? found.b : found.a;
  const agent = row.agent_name && row.agent_name !== row.name ? row.agent_name : null;
  return h(
    "tr",
    {
      class: `is-${change}${isFirst ? " is-first" : ""}`,
      style: { "--depth": Math.min(row.depth, MAX_INDENT) },
    },
    h(
      "th",
      { scope: "row" },
      span("sign", { same: "", changed: "~", missing: "−", added: "+" }[change]),
      h(
        "a",
        { href: `${runPath(run.run_id)}#${new URLSearchParams({ call: shown.call_id })}` },
        h("bdi", {}, row.name),
      ),
      agent ? span("dim", " of ", h("bdi", {}, agent)) : null,
      isFirst ? span("tag warn", "first difference") : null,
    ),
    cell("A", timeOf(a)),
    cell("B", timeOf(b)),
    ...(hasTokens ? [cell("Tokens A", tokensOf(a)), cell("Tokens B", tokensOf(b))] : []),
    h("td", { class: "differences" }, differenceText(row)),
  );
}

/** A number, with its column for narrow screens. @param {string} label @param {string} text */
const cell = (label, text) => h("td", { class: "nums", data: { label } }, text);

/** @param {ComparedCall | null} call */
const timeOf = (call) =>
  !call ? "–" : call.duration_ms === null ? call.status : durationText(call.duration_ms);

/** @param {ComparedCall | null} call */
const tokensOf = (call) => (call?.tokens == null ? "" : numberText(call.tokens));

define("lw-compare", CompareView);
