/**
 * `<lw-run>`: one run, with a head and its events as log, timeline, calls and graph.
 *
 * The view shows a `RunModel`, whatever the source of its events: the page fills the model from the server, a report
 * from its own file.
 */

import { beforePaint, button, fill, find, h, isOutdated } from "./dom.js";
import { div, span } from "./markup.js";
import { Part, define } from "./element.js";
import { numberText } from "./format.js";
import { addShortcuts, moveShortcuts } from "./keys.js";
import { loading } from "./placeholders.js";
import { change, currentRoute, select, setQuery } from "./router.js";
import "./event-detail.js";
import "./run-calls.js";
import "./run-graph.js";
import "./run-head.js";
import "./run-log.js";
import "./run-timeline.js";

/** @import { HeadActions } from "./run-head.js" */
/** @import { RunModel } from "./run-model.js" */
/** @typedef {"log" | "timeline" | "calls" | "graph"} Tab */

const TABS = /** @type {[Tab, string][]} */ ([
  ["log", "Log"],
  ["timeline", "Timeline"],
  ["calls", "Calls"],
  ["graph", "Graph"],
]);

export class RunView extends Part {
  /** @type {RunModel} */
  model;
  /** @type {HeadActions} */
  actions = {};

  #head = h("lw-run-head");
  #tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the run" });
  #panel = h("div", { class: "panel", role: "tabpanel", id: "run-panel" });
  #detail = h("lw-detail", { hidden: true });
  #frame = div("run-frame", this.#panel, this.#detail);
  /** @type {Tab} */
  #tab = "log";
  #selected = "";
  #draw = beforePaint(() => this.#drawNow());
  #parts = {
    log: h("lw-log"),
    timeline: h("lw-timeline"),
    calls: h("lw-calls"),
    graph: h("lw-graph"),
  };

  connectedCallback() {
    const { model } = this;
    if (!this.hasChildNodes()) {
      this.#wire(model);
      this.append(this.#head, this.#tabs, this.#frame);
    }
    this.onDisconnect(
      model.watch(this.#draw),
      currentRoute.watch(this.#draw),
      addShortcuts("Run", [
        ...moveShortcuts("row", (step) => this.#move(step)),
        {
          keys: ["1", "2", "3", "4"],
          about: "Log, timeline, calls, graph",
          run: (event) => this.#openTab(Number(event.key) - 1),
        },
        { keys: ["/"], about: "Search events", run: () => this.#search() },
        {
          keys: ["e"],
          about: "Errors only on or off",
          run: () =>
            setQuery({ errors: currentRoute.value.query.get("errors") ? null : "1", tab: null }),
        },
        {
          keys: ["p"],
          about: "Pause or resume the log",
          run: () => this.#parts.log.pause(!this.#parts.log.paused),
        },
        { keys: ["G"], about: "Jump to the latest event", run: () => this.#parts.log.latest() },
        { keys: ["Escape"], about: "Close the details", run: () => select({}) },
      ]),
    );
    if (model.open) this.#parts.log.follow();
    this.#draw();
  }

  /** @param {RunModel} model */
  #wire(model) {
    const { log, timeline, calls, graph } = this.#parts;
    this.#head.model = model;
    this.#head.actions = this.actions;
    log.model = timeline.model = calls.model = graph.model = model;
    log.onSelect = (event) => this.#select({ event: event.event_id });
    log.onFilter = ({ agent, type, errors, text }) =>
      this.#filter({ agent, type, errors: errors ? "1" : null, q: text });
    timeline.onFilter = ({ agent, errors, text }) =>
      this.#filter({ agent, errors: errors ? "1" : null, q: text });
    timeline.onSelect =
      calls.onSelect =
      graph.onSelect =
        (call) => this.#select({ call: call.call_id });
    this.#detail.onClose = () => select({});
    this.#detail.onEvent = (eventId) =>
      change({ query: { tab: null }, selection: { event: eventId } });
    this.#detail.onCall = (callId) => select({ call: callId });
    this.#tabs.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      const names = this.#names();
      const at = names.findIndex(([name]) => name === this.#tab);
      this.#openTab((at + step + names.length) % names.length);
      queueMicrotask(() => find(this.#tabs, "[aria-selected=true]")?.focus());
    });
  }

  #names() {
    // The transitions of an execution are not calls; its bars are on its board.
    const onlyLog = this.model.summary?.kind === "execution" && !this.model.calls().length;
    return TABS.filter(
      ([name]) => name === "log" || (name === "graph" ? this.model.graph : !onlyLog),
    );
  }

  /** @param {Record<string, string | null> & {q: string}} query */
  #filter(query) {
    const isTyped = query.q !== (currentRoute.value.query.get("q") ?? "");
    setQuery(query, { replace: isTyped });
  }

  /** Opens the details of a row; from one row to the next without a history entry. @param {Record<string, string>} row */
  #select(row) {
    select(row, { replace: !this.#detail.hidden });
  }

  /** @param {number} at */
  #openTab(at) {
    const tab = this.#names()[at]?.[0];
    if (tab) setQuery({ tab: tab === "log" ? null : tab });
  }

  /** @param {number} step */
  #move(step) {
    if (this.#tab !== "graph") this.#parts[this.#tab].move(step);
  }

  #search() {
    setQuery({ tab: null });
    this.#drawNow();
    this.#parts.log.focusSearch();
  }

  #drawNow() {
    const { model } = this;
    if (!this.isConnected) return;
    const { query, selection } = currentRoute.value;
    model.choose(Number(query.get("attempt")) || null);
    const names = this.#names();
    const tab = names.find(([name]) => name === query.get("tab"))?.[0] ?? "log";
    this.#drawTabs(names, tab);
    const filter = {
      agent: query.get("agent") ?? "",
      errors: query.has("errors"),
      text: query.get("q") ?? "",
    };
    this.#parts.log.filter = { ...filter, type: query.get("type") ?? "" };
    this.#parts.timeline.filter = filter;
    const part = this.#parts[tab];
    if (!model.events.length && !model.caughtUp) {
      if (!this.#panel.querySelector(".skeleton")) fill(this.#panel, loading("events", 12));
    } else if (this.#panel.firstElementChild !== part) {
      fill(this.#panel, part);
      this.#selected = "";
    }
    this.#drawSelection(selection.get("event"), selection.get("call"));
  }

  /** @param {[Tab, string][]} names @param {Tab} tab */
  #drawTabs(names, tab) {
    const { model } = this;
    const counts = {
      log: model.events.length,
      timeline: 0,
      calls: model.toolCalls.length,
      graph: 0,
    };
    this.#tab = tab;
    if (!isOutdated(this.#tabs, `${tab} ${names.length} ${Object.values(counts).join()}`)) return;
    const focused = this.#tabs.contains(document.activeElement);
    fill(
      this.#tabs,
      ...names.map(([name, title], at) =>
        button(
          () => this.#openTab(at),
          {
            role: "tab",
            id: `tab-${name}`,
            "aria-selected": String(name === tab),
            "aria-controls": "run-panel",
            tabindex: name === tab ? 0 : -1,
          },
          title,
          counts[name] ? span("count", numberText(counts[name])) : null,
        ),
      ),
    );
    this.#panel.setAttribute("aria-labelledby", `tab-${tab}`);
    if (focused) find(this.#tabs, "[aria-selected=true]")?.focus();
  }

  /** @param {string | null} eventId @param {string | null} callId */
  #drawSelection(eventId, callId) {
    const { model } = this;
    const event = eventId ? model.event(eventId) : undefined;
    const call = callId ? model.call(callId) : undefined;
    const selected = event
      ? `event ${eventId} ${model.late.has(event.event_id)}`
      : call
        ? `call ${callId} ${call.status} ${call.duration_ms} ${call.cost}`
        : "";
    if (selected === this.#selected) return;
    this.#selected = selected;
    this.#detail.hidden = !selected;
    this.#frame.classList.toggle("split", !!selected);
    if (event) this.#detail.showEvent(event, model);
    else if (call) this.#detail.showCall(call, model);
    if (this.#tab === "log") this.#parts.log.reveal(event?.event_id ?? null);
    else
      this.#parts[this.#tab].reveal(
        call?.call_id ?? (event ? (model.callOf(event)?.call_id ?? null) : null),
      );
  }
}

define("lw-run", RunView);
