/** `<lw-stages>`: the stages of an execution with their items and steps, and the states of each as bars over time. */

import { pageNow } from "./connection.js";
import { beforePaint, button, fill, find, h, moveFocus, setText, updateChildren } from "./dom.js";
import { code, div, p, span } from "./markup.js";
import { Part, define } from "./element.js";
import { isOpen, termsOf } from "./execution-text.js";
import { spanKey, stretchOf } from "./execution-spans.js";
import { capital, countText, durationText, elapsedText, timeElement, timeText } from "./format.js";
import { statusMark } from "./icons.js";
import { isUnreported, stateMark, stateText, statesText, statusOfState } from "./item-states.js";
import { state } from "./placeholders.js";
import { everySecond } from "./ticker.js";
import { share, tickTimes } from "./time-scale.js";

/** @import { Child } from "./dom.js" */
/** @import { ExecutionModel } from "./execution-model.js" */
/** @import { Span } from "./execution-spans.js" */
/** @import { Terms } from "./execution-text.js" */
/** @import { Stretch } from "./time-scale.js" */
/** @import { Execution, Job, Server as Item, Wave as Stage } from "./types.js" */

const TICKS = 8;
const LAST_TICK = 0.95; // of the width: a label further right would be cut off
const LABEL = 0.06; // of the width
const LEAST_SHARE = 0.003; // of the width, so that a short state is visible
const MANY_ITEMS = 80; // from here on, stages that succeeded are collapsed
const FINAL = ["launched", "failed", "terminated", "cancelled", "succeeded"];

export class Stages extends Part {
  /** @type {ExecutionModel} */
  model;

  /** @type {Map<string, boolean>} stages that the user expanded or collapsed */
  #expanded = new Map();
  /** @type {Map<HTMLElement, Span>} bars that grow with time */
  #growing = new Map();
  /** @type {Execution | null} the execution of the shown texts */
  #shown = null;
  /** @type {Stretch} */
  #stretch = { from: 0, to: 1 };
  #axis = h("div", { class: "stage-axis", "aria-hidden": "true" });
  #marks = h("div", { class: "stage-marks", "aria-hidden": "true" });
  #list = div("stage-list");
  #coming = h("p", { class: "stage-coming dim", hidden: true });
  #frame = div("stage-frame", this.#marks, this.#axis, this.#list, this.#coming);
  #draw = beforePaint(() => this.#drawNow());

  connectedCallback() {
    if (!this.hasChildNodes()) this.append(this.#frame);
    this.onDisconnect(
      this.model.watch(this.#draw),
      everySecond((now) => this.#tick(now)),
    );
    this.onResize(this.#draw);
    this.#drawNow();
  }

  /** @param {number} step */
  move(step) {
    moveFocus(this.querySelectorAll(".stage-head button"), step);
  }

  #drawNow() {
    const execution = this.model.execution;
    if (!execution || !this.isConnected) return;
    const terms = termsOf(execution.source);
    this.#stretch = stretchOf(execution, pageNow());
    this.#growing.clear();
    this.#shown = null;
    updateChildren(
      this.#list,
      execution.waves.map((stage, at) => ({ stage, at })),
      {
        key: ({ stage, at }) => `${at} ${stage.name}`,
        make: () => h("section", { class: "stage" }),
        update: (element, { stage, at }) => this.#drawStage(element, stage, at, execution),
      },
    );
    this.#drawAxis(execution);
    const { total_waves: total } = execution;
    const coming = total === null ? null : total - execution.waves.length;
    this.#coming.hidden = coming === 0 || !isOpen(execution);
    setText(
      this.#coming,
      coming === null
        ? `More ${terms.stage}s may follow: the total is not set.`
        : `${countText(coming, `more ${terms.stage}`)} to come.`,
    );
    if (!execution.waves.length)
      fill(
        this.#list,
        state({
          symbol: "board",
          title: `No ${terms.stage} yet`,
          text: `${capital(terms.stage)}s appear here when they are added.`,
        }),
      );
    this.#tick(pageNow());
  }

  /**
   * @param {HTMLElement} element @param {Stage} stage @param {number} at
   * @param {Execution} execution
   */
  #drawStage(element, stage, at, execution) {
    const key = `${at} ${stage.name}`;
    const terms = termsOf(execution.source);
    const isExpanded =
      this.#expanded.get(key) ?? (execution.servers < MANY_ITEMS || stage.status !== "succeeded");
    const counts = execution.progress[at]?.states ?? {};
    const id = `stage-${at}`;
    const focused = element.contains(document.activeElement);
    const toggle = () => {
      this.#expanded.set(key, !isExpanded);
      this.#draw();
    };
    fill(
      element,
      h(
        "h3",
        { class: "stage-head" },
        button(
          toggle,
          { class: "quiet", "aria-expanded": String(isExpanded), "aria-controls": id },
          h("span", { class: "twist", "aria-hidden": "true" }, isExpanded ? "▾" : "▸"),
          statusMark(stage.status, { quiet: true }),
          span("cut", stage.name),
        ),
        span("dim stage-counts", statesText(counts, terms)),
        span(
          "stage-jobs",
          ...(stage.jobs.length
            ? stage.jobs.map((job) => jobMark(job, terms))
            : [span("dim", "no job yet")]),
        ),
      ),
      h(
        "ul",
        {
          id,
          class: `items${stage.servers.length >= MANY_ITEMS ? " many" : ""}`,
          hidden: !isExpanded,
          "aria-label": `${capital(terms.item)}s of ${stage.name}`,
        },
        ...(isExpanded ? stage.servers.map((item) => this.#item(stage, item, execution)) : []),
      ),
    );
    if (focused) find(element, "button")?.focus();
  }

  /** @param {Stage} stage @param {Item} item @param {Execution} execution */
  #item(stage, item, execution) {
    const terms = termsOf(execution.source);
    const { server_id: id, instance_id: instance } = item;
    const names = [
      h("code", { class: "cut", title: id }, id),
      instance ? h("code", { class: "cut dim", title: `instance ${instance}` }, instance) : null,
    ];
    const mark = isUnreported(item)
      ? span("dim", "not listed yet")
      : stateMark(item.state, terms, item.word);
    const steps = item.actions.map((step) => {
      const name = h("span", { class: "cut dim", title: `${terms.step} ${step.name}` }, step.name);
      const key = spanKey(stage.name, id, step.name);
      const row = this.#row(key, step, execution, stateMark(step.state, terms), name);
      row.classList.add("step");
      if (step.reason) row.append(p("item-reason is-failed", step.reason));
      return row;
    });
    const row = this.#row(spanKey(stage.name, id), item, execution, mark, ...names);
    return h("li", {}, row, reasonMark(item), ...steps);
  }

  /**
   * @param {string} key @param {{state: string, since: number | null}} part
   * @param {Execution} execution @param {Child} mark @param {...Child} names
   */
  #row(key, part, execution, mark, ...names) {
    return div(
      "item",
      span("item-name", ...names),
      span("item-state", mark, sinceMark(part)),
      this.#bars(key, part, execution),
    );
  }

  /**
   * @param {string} key @param {{state: string, since: number | null}} now
   * @param {Execution} execution
   */
  #bars(key, now, execution) {
    const spans = this.model.spans.of(key, now);
    const terms = termsOf(execution.source);
    const space = h("span", {
      class: "bar-space",
      role: "img",
      "aria-label":
        spans
          .map((span) => `${stateText(span.state, terms)} from ${timeText(span.from)}`)
          .join(", ") || "not reported yet",
    });
    for (const span of spans) {
      const bar = h("i", {
        class: `bar is-${statusOfState(span.state)} at-${span.state}${FINAL.includes(span.state) ? " final" : ""}`,
      });
      if (span.to === null && isOpen(execution)) {
        bar.classList.add("growing");
        this.#growing.set(bar, span);
      }
      this.#place(bar, span, execution.ended_at ?? pageNow(), terms);
      space.append(bar);
    }
    return space;
  }

  /** @param {HTMLElement} bar @param {Span} span @param {number} end @param {Terms} terms */
  #place(bar, span, end, terms) {
    const to = Math.max(span.to ?? end, span.from);
    const left = Math.min(1 - LEAST_SHARE, Math.max(0, share(this.#stretch, span.from)));
    const right = Math.min(1, Math.max(left + LEAST_SHARE, share(this.#stretch, to)));
    bar.style.setProperty("left", `${left * 100}%`);
    bar.style.setProperty("width", `${(right - left) * 100}%`);
    bar.title = `${stateText(span.state, terms)} for ${durationText(to - span.from)}, from ${timeText(span.from)}`;
  }

  /** @param {Execution} execution */
  #drawAxis(execution) {
    const { from, to } = this.#stretch;
    const { deadline_at: deadline, eta } = execution;
    const position = (/** @type {number} */ at) => share(this.#stretch, at);
    const labels = /** @type {number[]} */ ([]);
    /** @type {(name: string, label: string, start: number | null, end?: number) => Child} */
    const mark = (name, label, start, end) => {
      if (start === null || start <= from || start >= to) return null;
      const left = position(start);
      labels.push(left);
      const style = /** @type {Record<string, string>} */ ({ left: `${left * 100}%` });
      if (end !== undefined) style["width"] = `${(position(end) - left) * 100}%`;
      return h("i", { class: `mark-${name}`, style }, h("span", {}, label));
    };
    const latest = Math.min(eta?.latest_at ?? from, to);
    fill(
      this.#marks,
      isOpen(execution) && eta ? mark("eta", "probable end", eta.earliest_at, latest) : null,
      mark("deadline", "deadline", deadline),
      isOpen(execution) ? h("i", { class: "mark-now" }) : null,
    );
    const isFree = (/** @type {number} */ at) =>
      at < LAST_TICK && labels.every((label) => at < label - LABEL || at > label + 2 * LABEL);
    const most = this.#axis.clientWidth > 520 ? TICKS : TICKS / 2;
    const ticks = tickTimes(this.#stretch, from, most).filter((at) => isFree(position(at)));
    const label = (/** @type {number} */ at) =>
      at === from ? "0" : `+${durationText(at - from).replace(/ 00 s$|\.0(?= s$)/, "")}`;
    fill(
      this.#axis,
      ...ticks.map((at) =>
        h("span", { style: { left: `${position(at) * 100}%` } }, timeElement(at, label(at))),
      ),
    );
  }

  /** @param {number} now */
  #tick(now) {
    const execution = this.model.execution;
    if (!execution || (execution === this.#shown && !isOpen(execution))) return;
    for (const text of this.querySelectorAll(".since")) {
      const since = Number(/** @type {HTMLElement} */ (text).dataset["since"]);
      const final = text.classList.contains("reached");
      const reached = `at +${elapsedText(since - execution.started_at)}`;
      const lasting = elapsedText((execution.ended_at ?? now) - since);
      setText(text, !since ? "" : final ? reached : lasting);
    }
    this.#shown = execution;
    if (!isOpen(execution)) return;
    if (now > this.#stretch.to) return this.#draw();
    for (const [bar, span] of this.#growing) this.#place(bar, span, now, termsOf(execution.source));
    find(this.#marks, ".mark-now")?.style.setProperty(
      "left",
      `${share(this.#stretch, now) * 100}%`,
    );
  }
}

/** The reason of an item's state. A failed item always has one. @param {Item} item */
function reasonMark({ state: now, reason, failure_reason: failure }) {
  if (failure) return p("item-reason is-failed", failure);
  return reason ? p(`item-reason is-${statusOfState(now)}`, reason) : null;
}

/**
 * The time in the current state; for a final state, when it was reached.
 * @param {{state: string, since: number | null}} of
 */
function sinceMark({ state: now, since }) {
  const final = FINAL.includes(now);
  return h("span", {
    class: `since dim nums${final ? " reached" : ""}`,
    title: final ? "Reached, after the start" : "Time in this state",
    data: { since: String(since ?? "") },
  });
}

/** @param {Job} job @param {Terms} terms */
function jobMark(job, terms) {
  const where = [job.region, job.account].filter(Boolean).join(" ");
  return h(
    "span",
    {
      class: "job",
      title: `job ${job.job_id}${where ? ` in ${where}` : ""}${job.word ? `; status in the source: ${job.word}` : ""}`,
    },
    code("cut", job.job_id),
    span(
      `dim${job.state === "missing" ? " is-partial" : ""}`,
      isUnreported(job) ? "no response yet" : stateText(job.state, terms),
    ),
  );
}

define("lw-stages", Stages);
