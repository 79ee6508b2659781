/**
 * One turn: its prompt, its blocks as they come, and how it ended. A tool's result stands in the block that asked
 * for it.
 */

import { isOver } from "../core/turn-state.js";
import { runPath } from "./router.js";
import { button, fill, h, isOutdated, updateChildren, setText } from "./dom.js";
import { div, p, spacer, span } from "./markup.js";
import { timeText, durationText, timeElement } from "./format.js";
import { icon, statusMark } from "./icons.js";
import { copyButton } from "./toast.js";
import { valueText, valueTree } from "./value-tree.js";

/** @import { WireBlock } from "../core/turn-state.js" */
/** @import { ShownTurn } from "./session-model.js" */

const GLANCE = 110;

/** @param {ShownTurn} turn @param {(turnId: string) => void} interrupt */
export function turnCard(turn, interrupt) {
  return h(
    "li",
    { class: "turn", tabindex: -1, "aria-label": `Turn ${turn.number}` },
    h(
      "header",
      {},
      span("turn-status"),
      h("h3", {}, `Turn ${turn.number}`),
      span("dim turn-time nums"),
      spacer(),
      h(
        "a",
        {
          class: "button quiet",
          href: runPath(turn.id),
          title: "The turn as a run: log, timeline, export",
        },
        "Events",
      ),
      button(() => interrupt(turn.id), { class: "danger turn-stop" }, icon("stop"), "Interrupt"),
    ),
    turn.prompt ? p("prompt", turn.prompt) : null,
    h("ol", { class: "blocks" }),
    h("p", { class: "turn-waiting dim", hidden: true }),
    h("p", { class: "problem turn-missing", hidden: true }),
    h("p", { class: "problem turn-error", hidden: true }),
  );
}

/** @param {HTMLElement} card @param {ShownTurn} turn */
export function updateTurn(card, turn) {
  const shown = `${turn.status} ${turn.blocks.length} ${turn.last_updated} ${turn.error} ${turn.missing_lines}`;
  if (!isOutdated(card, shown)) return;
  const over = isOver(turn);
  fill(part(card, ".turn-status"), statusMark(turn.status, { badge: true }));
  fill(part(card, ".turn-time"), time(turn));
  part(card, ".turn-stop").hidden = over;
  const missing = part(card, ".turn-missing");
  missing.hidden = !turn.missing_lines;
  setText(missing, missingText(turn.missing_lines ?? []));
  const error = part(card, ".turn-error");
  error.hidden = !turn.error;
  setText(error, turn.error ?? "");
  const waiting = part(card, ".turn-waiting");
  waiting.hidden = over || turn.blocks.length > 0;
  setText(waiting, turn.status === "pending" ? "Waiting for its executor …" : "Working …");
  const results = new Map(
    turn.blocks
      .filter((block) => block.type === "tool_result")
      .map((block) => [block.content["tool_use_id"], block]),
  );
  const asked = new Set(
    turn.blocks
      .filter((block) => block.type === "tool_use")
      .map((block) => block.content["tool_use_id"]),
  );
  const blocks = turn.blocks.filter(
    (block) => block.type !== "tool_result" || !asked.has(block.content["tool_use_id"]),
  );
  updateChildren(part(card, ".blocks"), blocks, {
    key: (block) => block.id,
    make: (block) => h("li", { class: `block ${block.type}` }),
    update: (item, block) => {
      const result =
        block.type === "tool_use" ? results.get(block.content["tool_use_id"]) : undefined;
      if (!isOutdated(item, `${result?.id ?? ""} ${over}`)) return;
      const wasOpen = item.querySelector("details")?.open ?? false;
      fill(item, blockBody(block, result, over));
      const details = item.querySelector("details");
      if (details && wasOpen) details.open = true;
    },
  });
}

/** @param {WireBlock} block @param {WireBlock | undefined} result @param {boolean} over */
function blockBody(block, result, over) {
  const { content } = block;
  if (block.type === "content") return div("said", text(content["text"]));
  if (block.type === "thinking") {
    return h(
      "details",
      {},
      h(
        "summary",
        {},
        icon("thought"),
        span("dim", "Thinking"),
        span("cut dim glance", glance(content["text"])),
      ),
      div("said dim", text(content["text"])),
    );
  }
  if (block.type === "tool_use") {
    const status = result
      ? result.content["error"]
        ? "failed"
        : "completed"
      : over
        ? "skipped"
        : "started";
    return h(
      "details",
      {},
      h(
        "summary",
        {},
        statusMark(status, { quiet: true }),
        h("strong", {}, text(content["tool_name"])),
        span("cut dim glance", glance(content["parameters"])),
      ),
      labelled("Parameters", content["parameters"]),
      result ? resultBody(result) : p("dim", over ? "No result was told." : "No result yet."),
    );
  }
  return h(
    "details",
    {},
    h(
      "summary",
      {},
      icon("tool"),
      span("dim", "Result of another turn's tool"),
      span("cut dim glance", glance(content["result"])),
    ),
    resultBody(block),
  );
}

/** @param {WireBlock} result */
function resultBody({ content }) {
  return h(
    "div",
    {},
    content["error"] ? p("problem", text(content["error"])) : null,
    content["result"] === null || content["result"] === undefined
      ? null
      : labelled("Result", content["result"]),
  );
}

/** @param {string} name @param {unknown} value */
function labelled(name, value) {
  const shown =
    typeof value === "string"
      ? h("pre", { class: "output" }, value)
      : valueTree(value, { open: 1 });
  return h(
    "section",
    { class: "labelled" },
    h("header", {}, h("h4", {}, name), copyButton(name, valueText(value))),
    shown,
  );
}

/** @param {[number, number][]} gaps first and last line of each */
function missingText(gaps) {
  const spans = gaps.map(([low, high]) => (low === high ? `${low}` : `${low}–${high}`));
  const lines = gaps.length === 1 && gaps[0]?.[0] === gaps[0]?.[1] ? "line" : "lines";
  return `Missing ${lines} ${spans.join(", ")} of the agent's output.`;
}

/** @param {ShownTurn} turn */
function time(turn) {
  const began = Date.parse(turn.started_at ?? turn.created_at);
  const took =
    turn.completed_at && turn.started_at
      ? ` · ${durationText(Date.parse(turn.completed_at) - began)}`
      : "";
  return timeElement(began, `${timeText(began)}${took}`);
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string"
    ? value
    : value === null || value === undefined
      ? ""
      : JSON.stringify(value);
}

/** @param {unknown} value */
function glance(value) {
  return text(value).slice(0, GLANCE).replace(/\s+/g, " ");
}

/** @param {HTMLElement} card @param {string} selector */
function part(card, selector) {
  return /** @type {HTMLElement} */ (card.querySelector(selector));
}
