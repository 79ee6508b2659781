/** `<lw-run-head>`: name, status, times, counts and conditions of a run, and its links. */

import { offline, offlineSince } from "./connection.js";
import { beforePaint, fill, h, isOutdated, setText, updateChildren } from "./dom.js";
import { div, spacer, span } from "./markup.js";
import { Part, define } from "./element.js";
import { agoText, conditionText, countText, dateTimeText, timeElement, utcText } from "./format.js";
import { icon, linkTo, statusMark, statusOf } from "./icons.js";
import { showBanners } from "./placeholders.js";
import { setQuery } from "./router.js";
import { endText, isOpen, lengthText, ranText } from "./run-times.js";
import { everySecond } from "./ticker.js";
import { idMark, linkButton } from "./toast.js";

/** @import { RunModel } from "./run-model.js" */
/** @typedef {{href: string, label: string, title: string, download?: boolean, symbol?: string}} HeadLink */
/** @typedef {{links?: HeadLink[], note?: string}} HeadActions */

export class RunHead extends Part {
  /** @type {RunModel} */
  model;
  /** @type {HeadActions} */
  actions = {};

  #draw = beforePaint(() => this.#drawNow());
  #title = h("h1", { class: "cut" });
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
        ...(this.actions.links ?? []).map(({ href, symbol = "download", label, title, download }) =>
          linkTo(href, symbol, label, title, download),
        ),
      );
    }
    this.onDisconnect(
      model.watch(this.#draw),
      everySecond(() => model.open && this.#draw()),
      offline.watch(this.#draw),
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
    updateChildren(this.#facts, facts(model, now), {
      key: ([key]) => key,
      make: ([key]) => h("li", { class: `fact-${key}` }),
      update: (item, [, text, make]) => isOutdated(item, text) && fill(item, make()),
    });
    const banners = model.conditions(now).map((condition) => ({
      key: condition.name === "silent" ? condition.name : condition.message,
      text: conditionText(condition, summary?.last_event_at ?? now, now),
    }));
    showBanners(this.#conditions, banners);
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

/**
 * The facts of the head: a key, the text that is compared, and a function that creates the content.
 * @param {RunModel} model @param {number} now @returns {[string, string, () => Node][]}
 */
function facts(model, now) {
  const { summary } = model;
  /** @type {[string, string, () => Node][]} */
  const found = [];
  /** @type {(key: string, text: string, make?: (text: string) => Node) => void} */
  const add = (key, text, make = (shown) => document.createTextNode(shown)) =>
    found.push([key, text, () => make(text)]);
  if (summary) {
    const took = summary.duration_between
      ? ranText(summary.duration_between)
      : lengthText(summary, now);
    const begun = dateTimeText(summary.started_at, now);
    add("kind", summary.kind, (kind) => span("tag", kind));
    add("length", took, (text) => h("strong", { class: "nums" }, text));
    add("started", `started ${begun}`, () =>
      h("span", {}, "started ", timeElement(summary.started_at, begun)),
    );
    if (summary.ended_between) {
      const { status, ended_between } = summary;
      const ended = endText({ status, ended_between }, now);
      const utc = ended_between.map((at) => (at === null ? "unknown" : utcText(at)));
      add("ended", ended, () =>
        h("span", { class: `is-${statusOf(status)}`, title: utc.join(" to ") }, ended),
      );
    }
    if (summary.agents.length)
      add("agents", countText(summary.agents.length, "agent"), (text) =>
        h("span", { title: summary.agents.join(", ") }, text),
      );
    add("events", countText(summary.events, "event"));
    if (summary.failed_calls)
      add("failed", countText(summary.failed_calls, "failed call"), (text) =>
        span("is-failed", text),
      );
    if (summary.warning_count)
      add("warnings", countText(summary.warning_count, "warning"), (text) =>
        span("tag warn", text),
      );
    if (isOpen(summary)) {
      const last = agoText(summary.last_event_at, now);
      add("last", `last event ${summary.last_event_type} ${last}`, () =>
        span(
          "dim",
          "last event ",
          h("code", {}, summary.last_event_type),
          " ",
          timeElement(summary.last_event_at, last),
        ),
      );
    }
  }
  const read = model.events.length;
  const reading = `reading history${read ? `, ${countText(read, "event")} so far` : ""} …`;
  const [symbol, progress] =
    model.open && offline.value
      ? ["lost", `offline ${offlineSince()}`]
      : model.caughtUp
        ? ["succeeded", "caught up"]
        : ["running", reading];
  add("caught-up", progress, () =>
    h("span", { class: "status dim", role: "status" }, icon(symbol), progress),
  );
  if (summary?.error)
    add("error", summary.error, () =>
      span(`problem${summary.status === "died" ? " is-died" : ""}`, summary.error),
    );
  return found;
}

define("lw-run-head", RunHead);
