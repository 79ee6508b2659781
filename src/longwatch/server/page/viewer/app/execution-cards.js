/**
 * The cards of an execution beside its stages: the verdict and its evidence, or the probable end and why the execution
 * is still running; and how it is polled.
 */

import { fill, find, h, isOutdated, setText } from "./dom.js";
import { etaText, isOpen, leaseText, nextPollText, roundedText } from "./execution-text.js";
import {
  agoText,
  countText,
  dateTimeElement,
  durationText,
  elapsedText,
  isoTime,
} from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { p, span } from "./markup.js";
import { stageStrip } from "./stage-strip.js";
import { valueTree } from "./value-tree.js";

/** @import { Child } from "./dom.js" */
/** @import { Eta, Execution, Fact } from "./types.js" */

/** Facts that other parts of the page show. */
const SHOWN_ELSEWHERE = [
  ...["waiting for", "phase", "unwatched", "unreachable", "missing", "unknown status"],
  ...["overdue", "slow", "silent", "expected", "waves"],
];
const FEWEST_SAMPLES = 10; // past executions, for an ETA

/**
 * Draw the cards again if something other than the clock has changed, and update the texts that count.
 * @param {HTMLElement} cards @param {Execution} execution @param {number} now
 */
export function showCards(cards, execution, now) {
  const { version, status, verdict, explained, eta, closed } = execution;
  if (isOutdated(cards, JSON.stringify([version, status, verdict, explained, eta, closed]))) {
    const drawn = JSON.stringify(verdict ?? "");
    // Evidence that the user has opened stays open while the verdict is the same.
    const isInUse = verdict && find(cards, "details[open]") && cards.dataset["verdict"] === drawn;
    if (!isInUse) fill(cards, ...cardsOf(execution, now));
    cards.dataset["verdict"] = drawn;
  }
  tickCards(cards, execution, now);
}

/** @param {Execution} execution @param {number} now @returns {HTMLElement[]} */
function cardsOf(execution, now) {
  return execution.verdict
    ? [verdictCard(execution), evidenceCard(execution), pollingCard(execution, now)]
    : [etaCard(execution, now), progressCard(execution, now), pollingCard(execution, now)];
}

/** @param {HTMLElement} cards @param {Execution} execution @param {number} now */
function tickCards(cards, execution, now) {
  const { eta, started_at: started } = execution;
  /** @type {Record<string, (element: HTMLElement) => string>} */
  const texts = {
    ago: ({ dataset }) => agoText(Number(dataset["ago"]), now),
    next: () => nextPollText(execution, now),
    lease: () => leaseText(execution, now),
    elapsed: () => elapsedText(now - started),
    left: () => etaText(eta, now),
  };
  for (const [name, text] of Object.entries(texts))
    for (const element of cards.querySelectorAll(`[data-${name}]`))
      setText(element, text(/** @type {HTMLElement} */ (element)));
  if (eta)
    find(cards, ".eta-now")?.style.setProperty("left", `${etaShare(eta, now - started) * 100}%`);
}

/** @param {string} label @param {string} title @param {...Child} children */
const card = (label, title, ...children) =>
  h("section", { class: "card", "aria-label": label }, h("h2", {}, title), ...children);

/** @param {string[]} texts @param {string} [className] */
const list = (texts, className = "reasons") =>
  texts.length ? h("ul", { class: className }, ...texts.map((text) => h("li", {}, text))) : null;

/** @param {Execution} execution */
function verdictCard({
  verdict,
  started_at: started,
  progress_text: items,
  warning_count: warnings,
}) {
  if (!verdict) return h("section");
  const { status, at, corrects, late, message } = verdict;
  const element = card(
    "Verdict",
    "Verdict",
    p(
      "verdict-status",
      statusMark(status),
      warnings ? span("tag warn", countText(warnings, "warning")) : null,
      late ? span("tag warn", "late") : null,
      span("dim", `after ${durationText(at - started)}`),
    ),
    p("nums", items),
    corrects ? p("dim", `Corrects an earlier verdict: ${corrects}.`) : null,
    list((message ?? "").split("; ").filter(Boolean)),
    list(verdict.warnings, "reasons warnings"),
  );
  element.classList.add("verdict", `is-${statusOf(status)}`);
  return element;
}

/** @param {Execution} execution */
function evidenceCard({ verdict }) {
  const evidence = (verdict?.evidence ?? []).map(({ call, at, fields }) =>
    h(
      "div",
      { class: "evidence" },
      h("p", {}, h("code", {}, call), " ", dateTimeElement(at)),
      valueTree(fields, { open: 3 }),
    ),
  );
  const none = p("dim", "No evidence was recorded.");
  return card("Evidence", "Evidence", ...(evidence.length ? evidence : [none]));
}

/** @param {Execution} execution @param {number} now */
function progressCard(execution, now) {
  const { progress_text: items, phase, waiting_for: waiting, started_at: started } = execution;
  const isPolled = isOpen(execution);
  const elapsed = h("span", { class: "nums", data: { elapsed: "" } }, elapsedText(now - started));
  return card(
    "Progress",
    isPolled ? "Still running" : "Managed by another program",
    p("big nums", items),
    stageStrip(execution),
    h("p", {}, isPolled ? `Waiting for ${waiting ?? "its end"}.` : "longwatch does not poll it."),
    phase ? p("dim", `Phase ${phase.replace(/_/g, " ")}, running for `, elapsed) : null,
  );
}

/** @param {Execution} execution @param {number} now */
function etaCard(execution, now) {
  const { eta, deadline_at: deadline, started_at: started } = execution;
  const until =
    deadline === null
      ? null
      : p(
          "dim",
          "Deadline ",
          dateTimeElement(deadline, now),
          ". After it, the source is polled at once and its response decides.",
        );
  if (!eta) {
    const text = `Not available yet: an ETA needs ${FEWEST_SAMPLES} past executions of the same shape in the journal.`;
    return card("ETA", "ETA", p("dim", text), until);
  }
  return card(
    "ETA",
    "ETA",
    h("p", { class: "big nums", data: { left: "" } }, etaText(eta, now)),
    eta.earliest_at === null ? null : h("p", {}, eta.text),
    etaBar(eta, now - started),
    p("dim", `From ${countText(eta.samples, "past execution")} of the same shape.`),
    until,
  );
}

/** The elapsed time against the usual range. @param {Eta} eta @param {number} elapsed */
function etaBar(eta, elapsed) {
  const [low, middle, high] = [eta.usual_low_ms, eta.usual_middle_ms, eta.usual_high_ms];
  const left = (/** @type {number} */ ms) => ({ left: `${etaShare(eta, ms) * 100}%` });
  const width = `${Math.max(0.01, etaShare(eta, high) - etaShare(eta, low)) * 100}%`;
  const label = `usually ${roundedText(low)} to ${roundedText(high)}, longest ${roundedText(eta.longest_ms)}`;
  return h(
    "div",
    { class: "eta-bar", role: "img", "aria-label": label, title: label },
    h("i", { class: "eta-usual", style: { ...left(low), width } }),
    h("i", { class: "eta-middle", style: left(middle) }),
    h("i", { class: `eta-now${eta.beyond_usual ? " beyond" : ""}`, style: left(elapsed) }),
  );
}

/** @param {Eta} eta @param {number} ms */
function etaShare(eta, ms) {
  return Math.min(1, Math.max(0, ms / (Math.max(eta.longest_ms, eta.usual_high_ms) * 1.15 || 1)));
}

/** @param {Execution} execution @param {number} now */
function pollingCard(execution, now) {
  const facts = execution.verdict
    ? endedFacts(execution)
    : execution.explained.filter(({ about }) => !SHOWN_ELSEWHERE.includes(about));
  const rows = facts.flatMap((fact) => [h("dt", {}, fact.about), factText(fact, now)]);
  return card("Polling", "Polling", h("dl", { class: "facts" }, ...rows));
}

/** @param {Fact} fact @param {number} now */
function factText({ about, text, at }, now) {
  // These two count while nothing is written.
  const counting = { "next poll": "next", lease: "lease" }[about];
  if (counting) return h("dd", {}, h("span", { class: "nums", data: { [counting]: "" } }));
  if (at === null) return h("dd", {}, text);
  if (at > now) return h("dd", {}, dateTimeElement(at, now));
  const time = h("time", { title: isoTime(at), data: { ago: String(at) } });
  return h("dd", {}, text, span("dim", text ? " · " : "", time));
}

/** @param {Execution} execution @returns {Fact[]} */
function endedFacts(execution) {
  return [
    { about: "source", text: execution.source, at: null },
    { about: "last response", text: "", at: execution.last_answer_at },
    { about: "last change", text: "", at: execution.last_change_at },
    {
      about: "deadline",
      text: execution.late ? "ended after it" : "",
      at: execution.deadline_at,
    },
    { about: "last error", text: execution.last_error ?? "", at: null },
    { about: "writes", text: String(execution.version), at: null },
  ].filter(({ text, at }) => text || at !== null);
}
