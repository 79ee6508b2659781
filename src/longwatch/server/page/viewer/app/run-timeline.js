/**
 * `<lw-timeline>`: agents, tools, models, nodes and waits as bars over time. The rows are those of the visible time; a live run
 * is followed until the user scrolls or zooms.
 */

import { jumpFrom, longestOf } from "./call-jumps.js";
import { endAt } from "./call-tree.js";
import { beforePaint, h } from "./dom.js";
import { div } from "./markup.js";
import { Part, define } from "./element.js";
import { followedStretch } from "./follow-window.js";
import { countText, durationText, numberText } from "./format.js";
import { searchWords, wordPattern } from "./highlight.js";
import { addShortcuts } from "./keys.js";
import { EVERY_LEVEL, OpenRows } from "./open-rows.js";
import { Pace } from "./pace.js";
import { state } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import { clampStretch, panStretch, share, stretchAround, zoomStretch } from "./time-scale.js";
import { Axis } from "./timeline-axis.js";
import { TimelineFacts } from "./timeline-facts.js";
import { TimelineLayout, positionOf } from "./timeline-layout.js";
import { addGestures } from "./timeline-gestures.js";
import { Overview } from "./timeline-overview.js";
import { drawRow, rowKey } from "./timeline-row.js";
import { TimelineToolbar } from "./timeline-toolbar.js";
import "./window-list.js";

/** @import { RunModel } from "./run-model.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { TimelineFilter } from "./timeline-filter.js" */
/** @import { Row } from "./timeline-rows.js" */
/** @import { Call } from "./types.js" */

const ZOOM = 0.5;
const PAN = 0.25;
const NO_FILTER = { agent: "", errors: false, text: "" };

export class Timeline extends Part {
  /** @type {RunModel} */
  model;
  /** Called with the call that the user selects. @type {(call: Call) => void} */
  onSelect = () => {};
  /** Called with the filter when the user changes it. @type {(filter: TimelineFilter) => void} */
  onFilter = () => {};

  /** @type {Stretch | null} the visible time; null for the whole run */
  #view = null;
  #follows = false;
  /** @type {number | undefined} the followed time in milliseconds, if the user chose it */
  #followedMs;
  /** @type {TimelineFilter} */
  #filter = NO_FILTER;
  #open = new OpenRows();
  #folds = true;
  #showsPath = false;
  #selected = ""; // id of the active row
  #announced = ""; // selected here: the URL follows later, when a folded row may be selected
  #jumped = ""; // id of the call that a jump selected, until the URL follows: the next jump may come before
  #lastFailure = ""; // id of the call that a jump led to, from which the next one continues
  #sought = ""; // id of a call to reveal, which is not laid out yet

  /** @type {TimelineFacts | null} */
  #facts = null;
  #version = -1;
  #pace = new Pace();
  /** @type {TimelineLayout | null} null: to be determined again */
  #layout = null;
  /** @type {readonly Row[]} the rows that the list's indexes name */
  #listed = [];
  /** @type {Int32Array} indexes of the rows in view */
  #shown = new Int32Array();
  #shownTime = "";
  #draw = beforePaint(() => this.#drawNow());

  #list = h("lw-window", { class: "bars", role: "tree", "aria-label": "Timeline of calls" });
  #axis = new Axis();
  #overview = new Overview();
  #none = h("p", { class: "no-rows dim", hidden: true });
  #empty = h(
    "div",
    { hidden: true },
    state({
      title: "No calls yet",
      text: "Agents, tools, models and nodes appear here when the run records them.",
      symbol: "tool",
    }),
  );
  #toolbar = new TimelineToolbar({
    onFilter: (change) => this.#changeFilter(change),
    onLevels: (levels) => this.#change(() => this.#open.show(levels)),
    onAgent: (agent) => this.#change(() => this.#open.toggleAgent(agent)),
    onFold: () => this.#fold(),
    onPath: () => this.#showPath(),
    onFailure: (step) => this.#jumpToFailure(step),
    onLongest: () => this.#jumpToLongest(),
    onZoom: (isIn) => this.zoom(isIn ? ZOOM : 1 / ZOOM),
    onFit: () => this.fit(),
    onFollow: () => (this.#follows ? this.#release() : this.follow()),
  });
  #frame = div(
    "timeline-frame",
    this.#toolbar.text,
    this.#overview.element,
    this.#axis.ticks,
    this.#axis.quiet,
    div("bars-frame", this.#axis.bands, this.#list, this.#none),
    this.#axis.now,
  );

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(this.#toolbar.element, this.#frame, this.#empty);
      this.#wire();
      if (this.model.open) this.follow();
    }
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", this.#draw);
    const theme = new MutationObserver(this.#draw);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.onDisconnect(
      this.model.watch(this.#draw),
      everySecond(() => this.model.open && this.#draw()),
      () => scheme.removeEventListener("change", this.#draw),
      () => theme.disconnect(),
      () => this.#pace.stop(),
      addShortcuts("Timeline", this.#shortcuts()),
    );
    this.onResize(this.#draw);
    this.#draw();
  }

  #wire() {
    this.#list.onSelect = (index) => this.#select(index);
    this.#list.onOpen = (index) => this.#toggle(this.#rowAt(index));
    this.#list.onFollow = (follows) => !follows && this.#release();
    // Also if all rows fit, so that there is nothing to scroll.
    const scrollUp = (/** @type {WheelEvent} */ { deltaY }) => void (deltaY < 0 && this.#release());
    this.#list.addEventListener("wheel", scrollUp, { passive: true });
    addGestures(this.#list, this.#axis.ticks, {
      pan: (part) => this.pan(part),
      zoom: (factor, at) => this.zoom(factor, at),
      isZoomed: () => this.#view !== null,
    });
    this.#overview.onRange = (range) => this.#look(range);
  }

  #shortcuts() {
    return [
      { keys: ["/"], about: "Search calls", run: () => this.#toolbar.focusSearch() },
      {
        keys: ["e"],
        about: "Failed calls only on or off",
        run: () => this.#changeFilter({ errors: !this.#filter.errors }),
      },
      { keys: ["n"], about: "Next failure", run: () => this.#jumpToFailure(1) },
      { keys: ["N"], about: "Previous failure", run: () => this.#jumpToFailure(-1) },
      { keys: ["l"], about: "Longest call", run: () => this.#jumpToLongest() },
      { keys: ["t"], about: "First try of a retried call", run: () => this.#jumpToFirstTry() },
      { keys: ["c"], about: "Highlight the critical path", run: () => this.#showPath() },
      { keys: ["r"], about: "Fold or unfold repeated calls", run: () => this.#fold() },
      { keys: ["["], about: "Fewer levels", run: () => this.#changeLevels(-1) },
      { keys: ["]"], about: "More levels", run: () => this.#changeLevels(1) },
      { keys: ["{"], about: "Collapse all", run: () => this.#change(() => this.#open.show(1)) },
      {
        keys: ["}"],
        about: "Expand all",
        run: () => this.#change(() => this.#open.show(EVERY_LEVEL)),
      },
      { keys: ["G"], about: "Follow the newest call", run: () => this.follow() },
      { keys: ["+", "="], about: "Zoom in", run: () => this.zoom(ZOOM) },
      { keys: ["-"], about: "Zoom out", run: () => this.zoom(1 / ZOOM) },
      { keys: ["0"], about: "Fit the whole run", run: () => this.fit() },
      { keys: ["ArrowLeft"], about: "Earlier", run: () => this.pan(-PAN) },
      { keys: ["ArrowRight"], about: "Later", run: () => this.pan(PAN) },
    ];
  }

  /** @param {TimelineFilter} filter */
  set filter({ agent, errors, text }) {
    const old = this.#filter;
    if (old.agent === agent && old.errors === errors && old.text === text) return;
    this.#change(() => (this.#filter = { agent, errors, text }));
  }

  /** Zoom around a point from 0 to 1; without one, around the selected call. @param {number} factor */
  zoom(factor, at = this.#middle()) {
    const whole = this.#whole();
    const next = zoomStretch(this.#view ?? whole, whole, factor, at);
    this.#look(next.to - next.from >= (whole.to - whole.from) * 0.999 ? null : next);
  }

  /** Of the selected call if it is in view, else of the visible time. */
  #middle() {
    const { tree } = this.#factsNow();
    const at = this.#selectedCall();
    if (at === undefined) return 0.5;
    const end = endAt(tree, at, this.#openEnd());
    const found = share(this.#view ?? this.#whole(), ((tree.starts[at] ?? end) + end) / 2);
    return found > 0 && found < 1 ? found : 0.5;
  }

  /** @param {number} part */
  pan(part) {
    if (this.#view) this.#look(panStretch(this.#view, this.#whole(), part));
  }

  fit() {
    this.#look(null);
  }

  /** Stay at the newest call. A user who zoomed keeps the length of the visible time. */
  follow() {
    if (this.#view) this.#followedMs = this.#view.to - this.#view.from;
    this.#follows = this.model.open;
    this.#list.follows = true;
    this.#draw();
  }

  #release() {
    this.#follows = false;
    this.#list.follows = false;
    this.#draw();
  }

  /** Show this time, and stop following. @param {Stretch | null} view */
  #look(view) {
    this.#view = view;
    this.#release();
  }

  /**
   * Select the row of a call, open the rows above it and show its time.
   * @param {string | null} callId
   */
  reveal(callId) {
    this.#drawNow();
    const { tree } = this.#factsNow();
    const at = tree.indexes.get(callId ?? "");
    this.#jumped = "";
    if (callId !== null && (callId === this.#selected || callId === this.#announced)) return;
    this.#announced = "";
    this.#selected = callId ?? "";
    this.#sought = at === undefined ? this.#selected : "";
    if (at === undefined) return this.#list.deactivate();
    if (this.#layoutNow().indexOf(this.#selected) === undefined)
      this.#change(() => this.#openAbove(at));
    const from = tree.starts[at] ?? 0;
    const to = endAt(tree, at, this.#openEnd());
    this.#look(this.#view && stretchAround(this.#view, { from, to }));
    this.#drawNow();
    const position = this.#positionOfSelected();
    if (position >= 0) this.#list.activate(position, { centre: true });
  }

  /** @param {number} step */
  move(step) {
    this.#list.move(step);
  }

  /** @param {() => void} change of which rows there are */
  #change(change) {
    change();
    this.#layout = null;
    this.#draw();
  }

  /** @param {Partial<TimelineFilter>} change */
  #changeFilter(change) {
    this.filter = { ...this.#filter, ...change }; // at once: the next change may come before the URL's
    this.onFilter(this.#filter);
  }

  #fold() {
    this.#change(() => (this.#folds = !this.#folds));
  }

  #showPath() {
    this.#showsPath = !this.#showsPath;
    this.#list.classList.toggle("shows-path", this.#showsPath);
    this.#draw();
  }

  /** @param {1 | -1} step */
  #changeLevels(step) {
    const all = this.#factsNow().levels;
    const levels = Math.max(1, Math.min(this.#open.levels, all) + step);
    this.#change(() => this.#open.show(levels >= all ? EVERY_LEVEL : levels));
  }

  /** @param {Row} row */
  #toggle(row) {
    if (row.hasMore) this.#change(() => this.#open.toggle(row));
  }

  /** @param {number} at */
  #openAbove(at) {
    const { tree, repeats } = this.#factsNow();
    for (let each = at; each >= 0; each = tree.parents[each] ?? -1) {
      const group = repeats.get(each);
      if (group) this.#open.open(group.key);
      if (each !== at) this.#open.open(tree.calls[each]?.call_id ?? "");
    }
  }

  /** @param {number} index */
  #select(index) {
    const { id, call, repeats } = this.#rowAt(index);
    this.#selected = id;
    this.#jumped = "";
    if (repeats) return this.#release();
    this.#announced = call.call_id;
    this.onSelect(call);
  }

  /** @param {number | undefined} at */
  #jump(at) {
    const call = this.#factsNow().tree.calls[at ?? -1];
    if (call) this.onSelect(call);
  }

  /** @param {1 | -1} step */
  #jumpToFailure(step) {
    const { tree } = this.#factsNow();
    const current =
      tree.indexes.get(this.#jumped) ??
      this.#selectedCall() ??
      tree.indexes.get(this.#lastFailure) ??
      -1;
    const next = jumpFrom(this.#layoutNow().failures, current, step);
    this.#jumped = this.#lastFailure = tree.calls[next ?? -1]?.call_id ?? "";
    this.#jump(next);
  }

  #jumpToLongest() {
    this.#jump(longestOf(this.#factsNow().tree, this.#openEnd()));
  }

  #jumpToFirstTry() {
    this.#jump(this.#factsNow().retries.get(this.#selectedCall() ?? -1)?.first);
  }

  /** A run of a few calls is shown whole, however long it takes. @param {Stretch} whole */
  #followedView(whole) {
    const { calls, starts, byStart } = this.#factsNow().tree;
    if (!this.#followedMs && calls.length <= this.#list.visibleRows) return null;
    const newest = starts[byStart.at(-1) ?? -1] ?? 0;
    return followedStretch(whole, this.model.now(), newest, this.#followedMs);
  }

  #selectedCall() {
    return this.#factsNow().tree.indexes.get(this.#selected);
  }

  /** @param {number} index as in the list, which may not show the latest layout yet */
  #rowAt(index) {
    return /** @type {Row} */ (this.#listed[index]);
  }

  /** @returns {Stretch} */
  #whole() {
    const { run } = this.#factsNow();
    const to = Math.max(run.from + 1, this.#openEnd());
    return { from: run.from, to: to + (to - run.from) * 0.02 };
  }

  /** The end of the bar of a call without an end: now, or the last time the run is known to have been alive. */
  #openEnd() {
    const { to } = this.#factsNow().run;
    return to === Infinity ? this.model.now() : to;
  }

  #factsNow() {
    if (!this.#facts) this.#update();
    return /** @type {TimelineFacts} */ (this.#facts);
  }

  /** Determine the facts of the current version of the run; of a large live run only now and then. */
  #update() {
    const { model } = this;
    const version = model.version * 2 + Number(model.caughtUp);
    if (version === this.#version) return;
    const mayWait = this.#facts && (model.open || !model.caughtUp);
    if (mayWait && !this.#pace.isDue) return this.#pace.later(this.#draw);
    this.#version = version;
    this.#pace.run(() => {
      const run = { from: model.startedAt, to: model.open ? Infinity : model.lastAt };
      this.#facts = new TimelineFacts(model.spans(), run, model.now(), model.summary?.failure);
      this.#layout = null;
      this.#layoutNow();
    });
  }

  #layoutNow() {
    if (this.#layout) return this.#layout;
    this.#shownTime = "";
    this.#layout = new TimelineLayout(this.#factsNow(), {
      filter: this.#filter,
      folds: this.#folds,
      open: this.#open,
    });
    return this.#layout;
  }

  #drawNow() {
    if (!this.isConnected) return;
    this.#update();
    const { tree, run } = this.#factsNow();
    this.#empty.hidden = tree.calls.length > 0;
    this.#frame.hidden = this.#toolbar.element.hidden = !tree.calls.length;
    if (!tree.calls.length) return;
    const whole = this.#whole();
    const isLive = run.to === Infinity;
    if (this.#follows && !isLive) this.#follows = this.#list.follows = false;
    if (this.#follows) this.#view = this.#followedView(whole);
    const view = this.#view ? clampStretch(this.#view, whole) : whole;
    this.#drawRows(view);
    this.#axis.draw(view, run.from, this.#factsNow().quiet, isLive ? this.model.now() : null);
    this.#overview.draw(this.#factsNow(), whole, this.#view && view, this.#openEnd());
    this.#drawToolbar(view, isLive);
    const sought = this.#sought;
    if (!tree.indexes.has(sought)) return;
    this.#sought = this.#selected = "";
    this.reveal(sought);
  }

  /** @param {Stretch} view */
  #drawRows(view) {
    const layout = this.#layoutNow();
    this.#listed = layout.rows;
    const time = `${view.from}/${view.to}`;
    const isMoved = time !== this.#shownTime;
    const first = this.#shown[this.#list.firstVisible];
    const before = this.#list.firstVisible;
    if (isMoved) this.#shown = layout.inView(view);
    const hasRows = this.#shownTime !== "";
    this.#shownTime = time;
    const chart = {
      facts: this.#factsNow(),
      view,
      openEnd: this.#openEnd(),
      showsPath: this.#showsPath,
      pattern: wordPattern(searchWords(this.#filter.text)),
      onToggle: (/** @type {Row} */ row) => this.#toggle(row),
      onSelect: (/** @type {Call} */ call) => this.onSelect(call),
    };
    this.#list.mark(this.#positionOfSelected());
    this.#list.show(
      {
        items: this.#shown,
        key: (index) => rowKey(this.#rowAt(index), chart),
        draw: (index) => drawRow(this.#rowAt(index), chart),
        newest: positionOf(this.#shown, layout.newest),
      },
      {
        fresh: isMoved,
        // Rows that come into view above must not move those that the user is looking at.
        anchor: isMoved && hasRows && before > 0 ? positionOf(this.#shown, first ?? 0) - before : 0,
      },
    );
    this.#none.hidden = this.#shown.length > 0;
    this.#none.textContent = layout.rows.length
      ? "No call in this time. Press 0 to see the whole run."
      : "No call matches. Clear the search or choose other filters.";
  }

  #positionOfSelected() {
    const row = this.#layoutNow().indexOf(this.#selected);
    if (row === undefined) return -1;
    const position = positionOf(this.#shown, row);
    return this.#shown[position] === row ? position : -1;
  }

  /** @param {Stretch} view @param {boolean} isLive */
  #drawToolbar(view, isLive) {
    const { tree, levels } = this.#factsNow();
    const { agents, calls, failures } = this.#layoutNow();
    const found = calls < tree.calls.length ? `${numberText(calls)} of ` : "";
    this.#toolbar.show({
      filter: this.#filter,
      agents,
      levels: this.#open.levels,
      allLevels: levels,
      folds: this.#folds,
      showsPath: this.#showsPath,
      failures: failures.length,
      failure: failures.indexOf(this.#selectedCall() ?? -1) + 1,
      isLive,
      follows: this.#follows,
      text: `${found}${countText(tree.calls.length, "call")}, ${durationText(Math.min(view.to, this.#openEnd()) - view.from)} in view`,
    });
  }
}

define("lw-timeline", Timeline);
