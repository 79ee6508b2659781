/**
 * What there is to know of an execution beside its stages: how it ended and on which evidence, or when it will
 * probably end, and why it is still running.
 */

import { fill, find, h, isOutdated, setText } from "./dom.js";
import { div, p, span } from "./markup.js";
import { etaText, isOpen, leaseText, nextPollText, roundedText } from "./execution-text.js";
import {
  agoText,
  countText,
  isoTime,
  durationText,
  dateTimeText,
  elapsedText,
  timeElement,
} from "./format.js";
import { statusMark, statusOf } from "./icons.js";
import { valueTree } from "./value-tree.js";
import { stageStrip } from "./stage-strip.js";

/** @import { Eta, Execution, Fact } from "./types.js" */

const FROM_OUTSIDE = [
  "waiting for",
  "phase",
  "unwatched",
  "unreachable",
  "missing",
  "unknown status",
  "overdue",
  "slow",
  "silent",
  "expected",
  "waves",
]; // told elsewhere on the page
const FEWEST = 10; // past executions, for an ETA

/** @param {Execution} execution @param {number} now @returns {HTMLElement[]} */
export function cardsOf(execution, now) {
  return execution.verdict
    ? [verdictCard(execution), evidenceCard(execution), watchCard(execution, now)]
    : [etaCard(execution, now), progressCard(execution, now), watchCard(execution, now)];
}

/**
 * Texts that count, without making anything anew.
 * @param {HTMLElement} cards
 * @param {Execution} execution
 * @param {number} now
 */
export function tickCards(cards, execution, now) {
  for (const said of cards.querySelectorAll("[data-ago]"))
    setText(said, agoText(Number(/** @type {HTMLElement} */ (said).dataset["ago"]), now));
  for (const said of cards.querySelectorAll("[data-next]"))
    setText(said, nextPollText(execution, now));
  for (const said of cards.querySelectorAll("[data-lease]"))
    setText(said, leaseText(execution, now));
  for (const said of cards.querySelectorAll("[data-elapsed]"))
    setText(said, elapsedText(now - execution.started_at));
  const { eta } = execution;
  for (const said of cards.querySelectorAll("[data-left]")) setText(said, etaText(eta, now));
  if (eta)
    find(cards, ".eta-now")?.style.setProperty(
      "left",
      `${etaShare(eta, now - execution.started_at) * 100}%`,
    );
}

/** @param {Execution} execution */
function verdictCard({
  verdict,
  started_at: started,
  progress_text: items,
  warning_count: warnings,
}) {
  if (!verdict) return h("section");
  const reasons = (verdict.message ?? "").split("; ").filter(Boolean);
  return h(
    "section",
    { class: `card verdict is-${statusOf(verdict.status)}`, "aria-label": "Verdict" },
    h("h2", {}, "Verdict"),
    p(
      "verdict-word",
      statusMark(verdict.status),
      warnings ? span("tag warn", countText(warnings, "warning")) : null,
      verdict.late ? span("tag warn", "late") : null,
      span("dim", `after ${durationText(verdict.at - started)}`),
    ),
    p("nums", items),
    verdict.corrects ? p("dim", `Corrects an earlier verdict: ${verdict.corrects}.`) : null,
    reasons.length
      ? h("ul", { class: "reasons" }, ...reasons.map((reason) => h("li", {}, reason)))
      : null,
    verdict.warnings.length
      ? h(
          "ul",
          { class: "reasons warnings" },
          ...verdict.warnings.map((warning) => h("li", {}, warning)),
        )
      : null,
  );
}

/** @param {Execution} execution */
function evidenceCard({ verdict }) {
  return h(
    "section",
    { class: "card", "aria-label": "Evidence" },
    h("h2", {}, "Evidence"),
    ...(verdict?.evidence ?? []).map((each) =>
      div(
        "evidence",
        h(
          "p",
          {},
          h("code", {}, each.call),
          " ",
          timeElement(each.at, dateTimeText(each.at, Date.now())),
        ),
        valueTree(each.fields, { open: 3 }),
      ),
    ),
    verdict?.evidence.length ? null : p("dim", "None was recorded."),
  );
}

/** @param {Execution} execution @param {number} now */
function progressCard(execution, now) {
  const { progress_text: items, phase } = execution;
  return h(
    "section",
    { class: "card", "aria-label": "Progress" },
    h("h2", {}, isOpen(execution) ? "Still running" : "Kept by another program"),
    p("big nums", items),
    stageStrip(execution),
    h(
      "p",
      {},
      isOpen(execution)
        ? `Waiting for ${execution.waiting_for ?? "its end"}.`
        : "longwatch does not poll it.",
    ),
    phase
      ? p(
          "dim",
          `Phase ${phase.replace(/_/g, " ")}, under way for `,
          h(
            "span",
            { class: "nums", data: { elapsed: "" } },
            elapsedText(now - execution.started_at),
          ),
        )
      : null,
  );
}

/** @param {Execution} execution @param {number} now */
function etaCard(execution, now) {
  const { eta, deadline_at: deadline } = execution;
  const until =
    deadline === null
      ? null
      : p(
          "dim",
          "Deadline ",
          timeElement(deadline, dateTimeText(deadline, now)),
          ". Past it the source is polled at once, and its response decides.",
        );
  if (!eta)
    return h(
      "section",
      { class: "card", "aria-label": "ETA" },
      h("h2", {}, "ETA"),
      p(
        "dim",
        `Not known yet: it takes ${FEWEST} past executions of the same shape in the journal.`,
      ),
      until,
    );
  return h(
    "section",
    { class: "card", "aria-label": "ETA" },
    h("h2", {}, "ETA"),
    h("p", { class: "big nums", data: { left: "" } }, etaText(eta, now)),
    eta.earliest_at === null ? null : h("p", {}, eta.text),
    etaBar(eta, now - execution.started_at),
    p("dim", `From ${eta.samples} past executions of the same shape.`),
    until,
  );
}

/**
 * The time that has passed against what is usual.
 * @param {Eta} eta
 * @param {number} elapsed
 */
function etaBar(eta, elapsed) {
  const [low, high] = [etaShare(eta, eta.usual_low_ms), etaShare(eta, eta.usual_high_ms)];
  const said = `usually ${roundedText(eta.usual_low_ms)} to ${roundedText(eta.usual_high_ms)}, the longest took ${roundedText(eta.longest_ms)}`;
  return h(
    "div",
    { class: "eta-bar", role: "img", "aria-label": said, title: said },
    h("i", {
      class: "eta-usual",
      style: { left: `${low * 100}%`, width: `${Math.max(0.01, high - low) * 100}%` },
    }),
    h("i", {
      class: "eta-middle",
      style: { left: `${etaShare(eta, eta.usual_middle_ms) * 100}%` },
    }),
    h("i", {
      class: `eta-now${eta.beyond_usual ? " beyond" : ""}`,
      style: { left: `${etaShare(eta, elapsed) * 100}%` },
    }),
  );
}

/** @param {Eta} eta @param {number} ms */
function etaShare(eta, ms) {
  return Math.min(1, Math.max(0, ms / (Math.max(eta.longest_ms, eta.usual_high_ms) * 1.15 || 1)));
}

/** @param {Execution} execution @param {number} now */
function watchCard(execution, now) {
  const list = h("dl", { class: "facts" });
  const facts = execution.verdict
    ? endedFacts(execution)
    : execution.explained.filter(({ about }) => !FROM_OUTSIDE.includes(about));
  for (const fact of facts) {
    list.append(h("dt", {}, fact.about), factText(fact, now));
  }
  return h(
    "section",
    { class: "card", "aria-label": "Polling" },
    h("h2", {}, execution.verdict ? "How it was polled" : "Polling"),
    list,
  );
}

/** @param {Fact} fact @param {number} now */
function factText({ about, text, at }, now) {
  // These count on while nothing is written.
  if (about === "next poll") return h("dd", {}, h("span", { class: "nums", data: { next: "" } }));
  if (about === "lease") return h("dd", {}, h("span", { class: "nums", data: { lease: "" } }));
  if (at !== null && at > now) return h("dd", {}, timeElement(at, dateTimeText(at, now)));
  const when =
    at === null
      ? null
      : span(
          "dim",
          text ? " · " : "",
          h("time", { title: isoTime(at), data: { ago: String(at) } }),
        );
  return h("dd", {}, text, when);
}

/** @param {Execution} execution @returns {Fact[]} */
function endedFacts(execution) {
  const {
    last_answer_at: answered,
    last_change_at: changed,
    deadline_at: deadline,
    last_error: error,
    version,
  } = execution;
  return [
    { about: "source", text: execution.source, at: null },
    { about: "last response", text: "", at: answered },
    { about: "last change", text: "", at: changed },
    { about: "deadline", text: execution.late ? "ended after it" : "", at: deadline },
    { about: "last error", text: error ?? "", at: null },
    { about: "writes", text: String(version), at: null },
  ].filter(({ text, at }) => text || at !== null);
}

/**
 * Put the cards there, and make them anew only if something is told otherwise.
 * @param {HTMLElement} cards
 * @param {Execution} execution
 * @param {number} now
 */
export function showCards(cards, execution, now) {
  const { version, status, verdict, explained, eta, closed } = execution;
  if (isOutdated(cards, JSON.stringify([version, status, verdict, explained, eta, closed]))) {
    const open = [...cards.querySelectorAll("details[open]")].length;
    const kept = open && cards.dataset["kept"] === JSON.stringify(execution.verdict);
    if (!kept) fill(cards, ...cardsOf(execution, now));
    cards.dataset["kept"] = JSON.stringify(execution.verdict ?? "");
  }
  tickCards(cards, execution, now);
}
