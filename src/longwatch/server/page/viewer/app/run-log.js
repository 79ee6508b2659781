/**
 * `<lw-log>`: the events of a run, one a row, as they happen. Filter, search, pause, jump to the latest.
 */

import { beforePaint, button, fill, h, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { timeText, numberText, countText, timeElement } from "./format.js";
import { agentMark, icon, iconButton } from "./icons.js";
import { SearchField } from "./list-filters.js";
import { eventMatcher } from "./log-filter.js";
import { state } from "./placeholders.js";
import { deathOf, isFailure, eventText } from "./event-text.js";
import "./window-list.js";

/** @import { LogFilter } from "./log-filter.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { RunEvent } from "./types.js" */

/** Words that no event has: the list was filtered to nothing. */
const NOTHING = {
  title: "No event matches",
  text: "Clear the search or choose other filters.",
  symbol: "search",
};

export class RunLog extends Part {
  /** @type {RunModel} */
  model;
  /** @type {LogFilter} */
  #filter = { agent: "", type: "", errors: false, text: "" };
  /** Called with the filters when the reader changes them. @type {(filter: LogFilter) => void} */
  onFilter = () => {};
  /** Called with the event that the reader chooses. @type {(event: RunEvent) => void} */
  onSelect = () => {};

  /** @type {RunEvent[]} what matches, in order */
  #shown = [];
  #seen = 0; // how many of the model's events the filter has afterPoll at
  #paused = false;
  #waiting = 0; // matching events that came while paused
  #draw = beforePaint(() => this.#drawNow());

  #list = h("lw-window", { class: "log-rows", "aria-label": "Events" });
  #empty = h("div", { hidden: true });
  #agents = h("select", {
    "aria-label": "Agent",
    on: { change: () => this.#change({ agent: this.#agents.value }) },
  });
  #types = h("select", {
    "aria-label": "Event type",
    on: { change: () => this.#change({ type: this.#types.value }) },
  });
  #errors = button(
    () => this.#change({ errors: !this.#filter.errors }),
    { class: "chip", "aria-pressed": "false" },
    "Errors only",
  );
  #search = new SearchField("Search events", "Search events", (text) => this.#change({ text }));
  #pause = iconButton("pause", "Pause", () => this.pause(!this.#paused), "");
  #latest = button(
    () => this.latest(),
    { class: "latest primary", hidden: true },
    icon("down"),
    h("span"),
  );
  #tally = h("span", { class: "dim nums tally", role: "status" });

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(
        div(
          "toolbar",
          this.#search.element,
          this.#agents,
          this.#types,
          this.#errors,
          spacer(),
          this.#tally,
          this.#pause,
        ),
        div("log-frame", this.#list, this.#empty, this.#latest),
      );
      this.#list.onSelect = (event) => this.onSelect(event);
      this.#list.onFollow = () => this.#draw();
    }
    this.onDisconnect(
      this.model.watch(({ reordered }) => {
        if (reordered) this.#seen = -1;
        this.#draw();
      }),
    );
    this.#draw();
  }

  focusSearch() {
    this.#search.focus();
  }

  /** @param {LogFilter} filter */
  set filter(filter) {
    const same = Object.entries(filter).every(
      ([name, value]) => this.#filter[/** @type {keyof LogFilter} */ (name)] === value,
    );
    if (same) return;
    this.#filter = filter;
    this.#search.show(filter.text);
    this.#seen = -1;
    this.#draw();
  }

  /**
   * Hold the list still while events go on coming, or let it go on.
   * @param {boolean} paused
   */
  pause(paused) {
    this.#paused = paused;
    fill(this.#pause, icon(paused ? "play" : "pause"));
    this.#pause.setAttribute("aria-label", paused ? "Go on" : "Pause");
    this.#pause.title = paused ? "Go on" : "Pause";
    this.#pause.setAttribute("aria-pressed", String(paused));
    this.#draw();
  }

  get paused() {
    return this.#paused;
  }

  latest() {
    if (this.#paused) this.pause(false);
    this.#drawNow();
    this.#list.follows = true;
    this.#draw();
  }

  /** Stay at the end from the beginning, as for a run that is still going on. */
  follow() {
    this.#list.follows = true;
  }

  /**
   * Show where an event is; nothing if the filter hides it.
   * @param {string | null} eventId
   */
  reveal(eventId) {
    this.#drawNow();
    this.#list.reveal((event) => event.event_id === eventId);
  }

  /** @param {number} step */
  move(step) {
    this.#list.move(step);
  }

  /** @param {Partial<LogFilter>} change */
  #change(change) {
    this.onFilter({ ...this.#filter, ...change });
  }

  #drawNow() {
    const anchor = this.#take();
    const shown = this.#shown;
    const { late } = this.model;
    this.#list.show(
      {
        items: shown,
        key: (event) => event.event_id,
        draw: (event) => row(event, late.has(event.event_id)),
      },
      { anchor },
    );
    const { events, agents, types, caughtUp } = this.model;
    this.#pause.hidden = !this.model.open && !this.#paused;
    options(this.#agents, "All agents", agents, this.#filter.agent);
    options(this.#types, "All types", types, this.#filter.type);
    this.#errors.setAttribute("aria-pressed", String(this.#filter.errors));
    const all = shown.length + this.#waiting === events.length;
    setText(
      this.#tally,
      all
        ? countText(events.length, "event")
        : `${numberText(shown.length)} of ${countText(events.length, "event")}`,
    );
    const none = !shown.length && !this.#waiting && events.length > 0 && caughtUp;
    this.#empty.hidden = !none;
    if (none && !this.#empty.hasChildNodes()) this.#empty.append(state(NOTHING));
    const behind = this.#waiting > 0 || (!this.#list.follows && this.model.open);
    this.#latest.hidden = !behind || !shown.length;
    setText(
      /** @type {Element} */ (this.#latest.lastElementChild),
      this.#waiting ? `${numberText(this.#waiting)} new` : "Jump to latest",
    );
  }

  /** Look at what is new; returns how many rows came in above the first one in sight. */
  #take() {
    const { events } = this.model;
    const matches = eventMatcher(this.#filter);
    if (this.#paused && this.#seen >= 0) {
      this.#waiting = events.slice(this.#seen).filter(matches).length;
      return 0;
    }
    this.#waiting = 0;
    if (this.#seen >= 0) {
      for (const event of events.slice(this.#seen)) if (matches(event)) this.#shown.push(event);
      this.#seen = events.length;
      return 0;
    }
    const first = this.#shown[this.#list.firstInSight];
    const before = this.#list.firstInSight;
    const active = this.#shown[this.#list.active];
    this.#shown = events.filter(matches);
    this.#seen = events.length;
    this.#list.deactivate();
    if (active) {
      const at = this.#shown.indexOf(active);
      if (at >= 0) queueMicrotask(() => this.#list.activate(at));
    }
    if (!first || before === 0) return 0;
    const now = this.#shown.indexOf(first);
    return now < 0 ? 0 : now - before;
  }
}

/** @param {RunEvent} event @param {boolean} late */
function row(event, late) {
  const bad = isFailure(event);
  const died = deathOf(event) !== null;
  return h(
    "div",
    { class: `log-row${died ? " died" : bad ? " bad" : ""}`, data: { event: event.event_id } },
    died
      ? h(
          "span",
          { class: "dim", title: "An observer wrote this event; it has no time of its own" },
          "–",
        )
      : timeElement(
          event.occurred_at,
          timeText(event.occurred_at),
          span("ms", `.${String(event.occurred_at % 1000).padStart(3, "0")}`),
        ),
    event.agent_name ? agentMark(event.agent_name) : h("span"),
    span("type cut", bad ? icon(died ? "died" : "failed") : null, event.type),
    span("words cut", late ? span("tag warn", "late") : null, eventText(event)),
  );
}

/**
 * Keep the choices of a field up to date without disturbing whoever is choosing.
 * @param {HTMLSelectElement} field
 * @param {string} all
 * @param {Map<string, number>} counts
 * @param {string} chosen
 */
function options(field, all, counts, chosen) {
  const names = [...counts.keys()].sort();
  if (chosen && !counts.has(chosen)) names.push(chosen);
  const known = [...field.options].map((option) => option.value);
  if (known.length !== names.length + 1 || names.some((name, at) => known[at + 1] !== name)) {
    fill(
      field,
      h("option", { value: "" }, all),
      ...names.map((name) => h("option", { value: name })),
    );
  }
  names.forEach((name, at) =>
    setText(
      /** @type {HTMLOptionElement} */ (field.options[at + 1]),
      `${name} (${numberText(counts.get(name) ?? 0)})`,
    ),
  );
  if (field.value !== chosen) field.value = chosen;
}

define("lw-log", RunLog);
