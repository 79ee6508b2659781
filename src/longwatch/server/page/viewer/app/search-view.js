/** `<lw-search>`: the events of all runs that contain some words, grouped by run. */

import { ApiError } from "../core/errors.js";
import { api } from "./client.js";
import { beforePaint, button, fill, h } from "./dom.js";
import { div, p, span } from "./markup.js";
import { Part, define } from "./element.js";
import { countText, dateTimeElement } from "./format.js";
import { icon, statusMark } from "./icons.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { moveFocus } from "./dom.js";
import { failure, loading, state } from "./placeholders.js";
import { QueryField, mistakeMark } from "./query-field.js";
import { toggleTerm } from "./query-text.js";
import { currentRoute, runPath, setQuery } from "./router.js";
import { STATUSES } from "./runs-list.js";

/** @import { SearchHit, SearchResults } from "./types.js" */

const PAGE = 50;
const LAST_DAY = "since:1d";

export class SearchView extends Part {
  #field = new QueryField({
    label: "Search in events",
    placeholder: "Words, and terms such as status:failed since:2d",
    onText: (q, { typed }) => setQuery({ q }, { replace: typed }),
    known: () => ({ status: STATUSES.map((status) => [status, 0]) }),
  });
  #count = p("dim search-count");
  #notice = div("search-notice");
  #results = h("ol", { class: "search-results", "aria-label": "Found events" });
  #foot = div("runs-foot");
  #draw = beforePaint(() => this.#drawNow());
  /** @type {SearchHit[]} */
  #hits = [];
  /** @type {string | null} */
  #cursor = null;
  #unindexed = 0;
  /** @type {"empty" | "loading" | "more" | "ready" | "failed"} */
  #state = "empty";
  /** @type {unknown} */
  #error = null;
  #requests = 0;
  /** @type {string | null} */
  #query = null;

  connectedCallback() {
    this.#count.setAttribute("role", "status");
    this.append(
      div("page-head", h("h1", {}, "Search in events")),
      h("div", { class: "toolbar filters", role: "search" }, this.#field.element),
      this.#notice,
      this.#count,
      this.#results,
      this.#foot,
    );
    this.onDisconnect(
      currentRoute.watch(() => this.#open()),
      () => (this.#requests += 1),
      addShortcuts("Search", [
        ...moveShortcuts("event", (step) =>
          moveFocus(this.#results.querySelectorAll("a.hit"), step),
        ),
        { keys: ["/"], about: "Search", run: () => this.#field.focus() },
      ]),
    );
    if (!this.#query) this.#field.focus();
  }

  #open() {
    const { view, query } = currentRoute.value;
    if (view !== "search") return;
    const q = query.get("q") ?? "";
    this.#field.show(q);
    if (q === this.#query) return;
    this.#query = q;
    void this.#search();
  }

  async #search() {
    this.#hits = [];
    this.#cursor = null;
    this.#unindexed = 0;
    this.#requests += 1;
    this.#state = this.#query ? "loading" : "empty";
    this.#draw();
    if (this.#query) await this.#load();
  }

  async #load() {
    this.#requests += 1;
    const request = this.#requests;
    const url = api.url("/api/search", { q: this.#query, limit: PAGE, after: this.#cursor });
    try {
      /** @type {SearchResults} */
      const page = await (await api.request(url)).json();
      if (request !== this.#requests) return;
      this.#hits.push(...page.hits);
      this.#cursor = page.cursor;
      this.#unindexed = page.unindexed;
      this.#state = "ready";
    } catch (error) {
      if (request !== this.#requests) return;
      this.#error = error;
      this.#state = "failed";
    }
    this.#draw();
  }

  #more() {
    this.#state = "more";
    this.#draw();
    void this.#load();
  }

  #drawNow() {
    const more = this.#cursor === null ? "" : " so far";
    this.#count.textContent = this.#hits.length
      ? `${countText(this.#hits.length, "event")} in ${countText(new Set(this.#hits.map((hit) => hit.run_id)).size, "run")}${more}`
      : "";
    fill(this.#results, ...byRun(this.#hits).map(group));
    fill(this.#notice, this.#unindexed ? this.#indexing() : null);
    fill(this.#foot, this.#end());
  }

  #indexing() {
    const text = `${countText(this.#unindexed, "event")} not indexed yet: they were not searched. The server indexes them in the background.`;
    return h(
      "div",
      { class: "banner", role: "status" },
      icon("unknown"),
      h("span", {}, text),
      button(() => void this.#search(), {}, "Search again"),
    );
  }

  #end() {
    const at = this.#state;
    if (at === "loading") return loading("results", 6);
    if (at === "empty") return start();
    if (at === "failed") return this.#problem();
    if (this.#cursor !== null) {
      const text = this.#hits.length ? "Load more" : "Search further";
      return button(
        () => this.#more(),
        { disabled: at === "more" },
        at === "more" ? "Loading …" : text,
      );
    }
    if (this.#hits.length) return p("dim", "No more events.");
    const text = "All words must be in one event; a word matches the beginnings of words.";
    return state({ symbol: "search", title: "No event matches", text });
  }

  #problem() {
    const error = this.#error;
    const query = this.#query ?? "";
    if (!(error instanceof ApiError) || error.status !== 400)
      return failure("The search", error, () => void this.#search());
    const text = error.message;
    if (error.code === "search_too_wide")
      return state(
        { symbol: "search", title: "Narrow the search", text },
        button(
          () => setQuery({ q: toggleTerm(query, LAST_DAY) }),
          { class: "primary" },
          "Search the last day",
        ),
      );
    const mark = error.position ? mistakeMark(query, error.position) : null;
    return state({ symbol: "search", title: "This search does not work", text }, mark);
  }
}

/** What to search for, before there is a query. */
const start = () =>
  state({
    symbol: "search",
    title: "Search the text of all events",
    text: "Arguments, results, errors, messages: type words or a “phrase in quotes”. Terms such as status:failed, tag:nightly or since:2d select the runs.",
  });

/** Hits of one run that follow each other, as groups. @param {readonly SearchHit[]} hits */
function byRun(hits) {
  /** @type {SearchHit[][]} */
  const groups = [];
  for (const hit of hits) {
    const last = groups[groups.length - 1];
    if (last?.[0]?.run_id === hit.run_id) last.push(hit);
    else groups.push([hit]);
  }
  return groups;
}

/** @param {SearchHit[]} hits of one run */
function group(hits) {
  const [{ run_id: id, run_name: name, run_status: status }] = /** @type {[SearchHit]} */ (hits);
  return h(
    "li",
    { class: "search-run" },
    h(
      "h2",
      {},
      h(
        "a",
        { href: runPath(id) },
        statusMark(status, { quiet: true }),
        h("bdi", { class: "cut" }, name ?? id),
      ),
      name ? h("code", { class: "dim cut" }, id) : null,
    ),
    h("ol", {}, ...hits.map((hit) => h("li", {}, row(hit)))),
  );
}

/** @param {SearchHit} hit */
function row({ run_id, event_id, type, occurred_at, agent_name, excerpt }) {
  return h(
    "a",
    { class: "hit", href: `${runPath(run_id)}#${new URLSearchParams({ event: event_id })}` },
    span("nums dim", dateTimeElement(occurred_at)),
    span(
      "cut",
      h("code", {}, type),
      agent_name ? span("dim", " ", h("bdi", {}, agent_name)) : null,
    ),
    h(
      "bdi",
      { class: "excerpt" },
      ...excerpt.map(({ text, is_match }) => (is_match ? h("mark", {}, text) : text)),
    ),
  );
}

define("lw-search", SearchView);
