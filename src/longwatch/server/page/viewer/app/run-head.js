/** `<lw-run-head>`: name, status, times, counts and conditions of a run, and its links. */

import { asOfText, stale } from "./connection.js";
import { beforePaint, fill, h, isOutdated, setText } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import {
  agoText,
  conditionText,
  countText,
  dateTimeElement,
  dateTimeText,
  timeElement,
  timeText,
  utcText,
} from "./format.js";
import { icon, statusMark, statusOf } from "./icons.js";
import { labelFacts } from "./run-labels.js";
import { errorFrame, showBanners, showFacts } from "./placeholders.js";
import { isGivenUp, noticeText } from "./notice-text.js";
import { setQuery } from "./router.js";
import { endText, isOpen, lengthMs, lengthText, ranText } from "./run-times.js";
import { everySecond } from "./ticker.js";
import { idMark, linkButton } from "./toast.js";
import { openWaitText, usageText, waitedText } from "./usage-text.js";

/** @import { Child } from "./dom.js" */
/** @import { RunModel } from "./run-model.js" */
/** @import { Summary } from "./types.js" */
/** @typedef {{links?: Child[], note?: string}} HeadActions */

export class RunHead extends Part {
  /** @type {RunModel} */
  model;
  /** @type {HeadActions} */
  actions = {};

  #draw = beforePaint(() => this.#drawNow());
  #title = h("h1", { class: "cut", dir: "auto" });
  #status = h("span");
  #attempts = h("select", {
    class: "attempts",
    "aria-label": "Attempt",
    hidden: true,
    on: { change: () => setQuery({ attempt: this.#attempts.value }) },
  });
  #facts = h("ul", { class: "run-facts" });
  #conditions = h("ul", { class: "conditions" });
  #buttons = div("toolbar run-buttons");

  connectedCallback() {
    const { model } = this;
    if (!this.hasChildNodes()) {
      this.append(
        div("run-title", this.#title, this.#status, this.#attempts, spacer(), this.#buttons),
        this.#facts,
        this.#conditions,
      );
      fill(
        this.#buttons,
        idMark("Run ID", model.runId),
        this.actions.note ? span("tag", this.actions.note) : linkButton(),
        ...(this.actions.links ?? []),
      );
    }
    this.onDisconnect(
      model.watch(this.#draw),
      everySecond(() => model.open && this.#draw()),
      stale.watch(this.#draw),
    );
    this.#drawNow();
  }

  #drawNow() {
    const { model } = this;
    const { summary } = model;
    const now = model.now();
    const name = summary?.name ?? model.runId;
    setText(this.#title, name);
    this.#title.title = name;
    const status = summary?.status ?? "pending";
    if (isOutdated(this.#status, status))
      fill(this.#status, summary ? statusMark(status, { badge: true }) : null);
    this.#drawAttempts(model, now);
    showFacts(this.#facts, [
      ...(summary ? summaryFacts(summary, now, Boolean(this.actions.note)) : []),
      ...stateFacts(model),
    ]);
    const waits = (summary?.waiting ?? []).map((wait) => ({
      key: `${wait.reason} ${wait.since}`,
      text: openWaitText(wait, now),
    }));
    const banners = model
      .conditions(now)
      .filter(({ name }) => name !== "waiting")
      .map((condition) => ({
        key: condition.name === "silent" ? condition.name : condition.message,
        text: conditionText(condition, summary?.last_event_at ?? now, now),
      }));
    showBanners(this.#conditions, [...waits, ...banners]);
  }

  /**
   * The choice of the attempt, for a run that was started several times. The URL of the last has no parameter.
   * @param {RunModel} model @param {number} now
   */
  #drawAttempts(model, now) {
    const attempts = model.summary?.attempts ?? [];
    const field = this.#attempts;
    field.hidden = attempts.length < 2;
    const shown = attempts.map(({ status, started_at }) => `${status} ${started_at}`).join();
    if (field.hidden || !isOutdated(field, `${model.attempt} ${shown}`)) return;
    fill(
      field,
      ...attempts.map(({ number, status, started_at }) =>
        h(
          "option",
          { value: number === attempts.length ? "" : number },
          `Attempt ${number} of ${attempts.length} · ${status} · ${dateTimeText(started_at, now)}`,
        ),
      ),
    );
    field.selectedIndex = model.attempt - 1;
  }
}

/** @param {Summary} summary @param {number} now @param {boolean} isReport @returns {[string, Element | null][]} */
function summaryFacts(summary, now, isReport) {
  const { agents, events, status, ended_between: between, failed_calls: failed } = summary;
  const { duration_between: duration, warning_count: warnings, last_event_at: lastAt } = summary;
  const took = duration ? ranText(duration) : lengthText(summary, now);
  const ended = between ? endText({ status, ended_between: between }, now) : "";
  const utc = (between ?? []).map((at) => (at === null ? "unknown" : utcText(at))).join(" to ");
  const last = ["last event ", h("code", {}, summary.last_event_type), " "];
  const waited = waitedText(summary, duration ? 0 : lengthMs(summary, now), now);
  return [
    ["kind", span("tag", summary.kind)],
    ["length", h("strong", { class: "nums" }, took)],
    ["started", h("span", {}, "started ", dateTimeElement(summary.started_at, now))],
    ["ended", ended ? h("span", { class: `is-${statusOf(status)}`, title: utc }, ended) : null],
    [
      "agents",
      agents.length
        ? h("span", { title: agents.join(", ") }, countText(agents.length, "agent"))
        : null,
    ],
    ...labelFacts(summary, isReport),
    ["events", h("span", {}, countText(events, "event"))],
    ["usage", summary.usage ? span("nums", usageText(summary.usage)) : null],
    ["waited", waited ? span("nums", waited) : null],
    ["failed", failed ? span("is-failed", countText(failed, "failed call")) : null],
    ["warnings", warnings ? span("tag warn", countText(warnings, "warning")) : null],
    [
      "last",
      isOpen(summary) ? span("dim", ...last, timeElement(lastAt, agoText(lastAt, now))) : null,
    ],
  ];
}

/** @param {RunModel} model @returns {[string, Element | null][]} */
function stateFacts({ events, open, caughtUp, summary, notices }) {
  const soFar = events.length ? `, ${countText(events.length, "event")} so far` : "";
  const [symbol, text] =
    open && stale.value
      ? ["lost", asOfText()]
      : caughtUp
        ? ["succeeded", "caught up"]
        : ["running", `reading history${soFar} …`];
  const died = summary?.status === "died" ? " is-died" : "";
  return [
    ["notified", notices ? noticeFact(notices) : null],
    ["caught-up", h("span", { class: "status dim", role: "status" }, icon(symbol), text)],
    ["error", summary?.error ? errorFrame(summary.error, died) : null],
  ];
}

/**
 * The last notification about the run, a link to its event.
 * @param {NonNullable<RunModel["notices"]>} notices
 */
function noticeFact({ last, count }) {
  const bad = isGivenUp(last);
  const href = `#${new URLSearchParams({ event: last.event_id })}`;
  return h(
    "a",
    { class: `status notice ${bad ? "is-failed" : "dim"}`, href, title: noticeText(last) },
    icon("bell"),
    bad ? "not notified" : "notified",
    " ",
    timeElement(last.occurred_at, timeText(last.occurred_at)),
    count > 1 ? ` · ${countText(count, "notification")}` : "",
  );
}

define("lw-run-head", RunHead);
