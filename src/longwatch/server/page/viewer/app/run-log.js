/** `<lw-log>`: the events of a run, one per row, live. Filter, search, pause, jump to the latest. */

import { beforePaint, button, fill, h, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { countText, millisecondsText, numberText, timeElement, timeText } from "./format.js";
import { agentMark, icon, iconButton } from "./icons.js";
import { SearchField } from "./list-filters.js";
import { excerpt, highlight, searchWords, wordPattern } from "./highlight.js";
import { eventMatcher, searchedText } from "./log-filter.js";
import { state } from "./placeholders.js";
import { deathOf, eventText, isFailure } from "./event-text.js";
import "./window-list.js";

/** @import { LogFilter } from "./log-filter.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { RunEvent } from "./types.js" */

const NO_MATCH = {
  title: "No event matches",
  text: "Clear the search or choose other filters.",
  symbol: "search",
};

export class RunLog extends Part {
  /** @type {RunModel} */
  model;
  /** @type {LogFilter} */
  #filter = { agent: "", type: "", errors: false, text: "" };
  /** Called with the filters when the user changes them. @type {(filter: LogFilter) => void} */
  onFilter = () => {};
  /** Called with the event that the user selects. @type {(event: RunEvent) => void} */
  onSelect = () => {};

  /** @type {RunEvent[]} the matching events, in order */
  #shown = [];
  #filtered = 0; // number of the model's events that were filtered; -1: filter all again
  #paused = false;
  #waiting = 0; // matching events that arrived while paused
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
  #counts = h("span", { class: "dim nums tally", role: "status" });

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
          this.#counts,
          this.#pause,
        ),
        div("log-frame", this.#list, this.#empty, this.#latest),
      );
      this.#list.onSelect = (event) => this.onSelect(event);
      this.#list.onFollow = () => this.#draw();
    }
    this.onDisconnect(
      this.model.watch(({ reordered }) => {
        if (reordered) this.#filtered = -1;
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
    this.#filtered = -1;
    this.#draw();
  }

  /** Pause or resume the list; events keep arriving. @param {boolean} paused */
  pause(paused) {
    this.#paused = paused;
    fill(this.#pause, icon(paused ? "play" : "pause"));
    this.#pause.title = paused ? "Resume" : "Pause";
    this.#pause.setAttribute("aria-label", this.#pause.title);
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

  /** Start at the end, for a run that is still open. */
  follow() {
    this.#list.follows = true;
  }

  /**
   * Scroll to an event and select it, unless the filter hides it.
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
    this.filter = { ...this.#filter, ...change }; // at once: the next change may come before the URL's
    this.onFilter(this.#filter);
  }

  #drawNow() {
    const anchor = this.#filterEvents();
    const shown = this.#shown;
    const { late } = this.model;
    const words = searchWords(this.#filter.text);
    this.#list.show(
      {
        items: shown,
        key: (event) => `${event.event_id} ${words.join(" ")}`,
        draw: (event) => row(event, late.has(event.event_id), words),
      },
      { anchor },
    );
    const { events, agents, types, caughtUp } = this.model;
    this.#pause.hidden = !this.model.open && !this.#paused;
    updateOptions(this.#agents, "All agents", agents, this.#filter.agent);
    updateOptions(this.#types, "All types", types, this.#filter.type);
    this.#errors.setAttribute("aria-pressed", String(this.#filter.errors));
    const all = shown.length + this.#waiting === events.length;
    setText(
      this.#counts,
      all
        ? countText(events.length, "event")
        : `${numberText(shown.length)} of ${countText(events.length, "event")}`,
    );
    const none = !shown.length && !this.#waiting && events.length > 0 && caughtUp;
    this.#empty.hidden = !none;
    if (none && !this.#empty.hasChildNodes()) this.#empty.append(state(NO_MATCH));
    const behind = this.#waiting > 0 || (!this.#list.follows && this.model.open);
    this.#latest.hidden = !behind || !shown.length;
    setText(
      /** @type {Element} */ (this.#latest.lastElementChild),
      this.#waiting ? `${numberText(this.#waiting)} new` : "Jump to latest",
    );
  }

  /** Filter the new events; returns the number of rows inserted above the first visible one. */
  #filterEvents() {
    const { events } = this.model;
    const matches = eventMatcher(this.#filter);
    if (this.#paused && this.#filtered >= 0) {
      this.#waiting = events.slice(this.#filtered).filter(matches).length;
      return 0;
    }
    this.#waiting = 0;
    if (this.#filtered >= 0) {
      for (const event of events.slice(this.#filtered)) if (matches(event)) this.#shown.push(event);
      this.#filtered = events.length;
      return 0;
    }
    const first = this.#shown[this.#list.firstVisible];
    const before = this.#list.firstVisible;
    const active = this.#shown[this.#list.active];
    this.#shown = events.filter(matches);
    this.#filtered = events.length;
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

/** @param {RunEvent} event @param {boolean} late @param {string[]} words of the search */
function row(event, late, words) {
  const pattern = wordPattern(words);
  const bad = isFailure(event);
  const died = deathOf(event) !== null;
  return h(
    "div",
    { class: `log-row${died ? " died" : bad ? " bad" : ""}`, data: { event: event.event_id } },
    died
      ? h(
          "span",
          { class: "dim", title: "Written by an observer; this event has no time of its own" },
          "–",
        )
      : timeElement(
          event.occurred_at,
          timeText(event.occurred_at),
          span("ms", millisecondsText(event.occurred_at)),
        ),
    event.agent_name ? agentMark(event.agent_name) : h("span"),
    span(
      "type cut",
      bad ? icon(died ? "died" : "failed") : null,
      span("", ...highlight(event.type, pattern)),
    ),
    h(
      "span",
      { class: "event-text cut", dir: "auto" },
      late ? span("tag warn", "late") : null,
      ...highlight(textFor(event, words), pattern),
    ),
  );
}

/** The text of the row: an excerpt around a match that the text does not show. @param {RunEvent} event @param {string[]} words */
function textFor(event, words) {
  const text = eventText(event);
  const shown = `${event.type} ${event.agent_name ?? ""} ${text}`.toLowerCase();
  const hidden = wordPattern(words.filter((word) => !shown.includes(word)));
  return hidden ? excerpt(searchedText(event), hidden) : text;
}

/**
 * Update the options of a field without closing it while the user is choosing.
 * @param {HTMLSelectElement} field @param {string} all @param {ReadonlyMap<string, number>} counts
 * @param {string} chosen
 */
function updateOptions(field, all, counts, chosen) {
  const names = [...counts.keys()].sort();
  if (chosen && !counts.has(chosen)) names.push(chosen);
  const shown = [...field.options].map((option) => option.value);
  if (shown.length !== names.length + 1 || names.some((name, at) => shown[at + 1] !== name)) {
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
