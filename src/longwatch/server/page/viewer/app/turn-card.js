/** One turn: its prompt, its blocks as they arrive, and how it ended. The result of a tool is in the block that called it. */

import { isOver } from "../core/turn-state.js";
import { button, fill, h, isOutdated, setText, updateChildren } from "./dom.js";
import { valuePreview } from "../core/preview.js";
import { waitText } from "../core/waits.js";
import { capital, durationText, timeElement, timeText } from "./format.js";
import { icon, statusMark } from "./icons.js";
import { div, p, spacer, span } from "./markup.js";
import { runPath } from "./router.js";
import { copyButton } from "./toast.js";
import { usageBrief, usageText } from "./usage-text.js";
import { valueText, valueTree } from "./value-tree.js";

/** @import { StreamingBlock, WireBlock } from "../core/turn-state.js" */
/** @import { Child } from "./dom.js" */
/** @import { ShownTurn } from "./session-model.js" */
/** @import { Usage } from "./types.js" */

/** @param {ShownTurn} turn @param {(turnId: string) => void} interrupt */
export function turnCard(turn, interrupt) {
  const title = "This turn as a run: log, timeline, export";
  return h(
    "li",
    { class: "turn", tabindex: -1, "aria-label": `Turn ${turn.number}` },
    h(
      "header",
      {},
      span("turn-status"),
      h("h2", {}, `Turn ${turn.number}`),
      span("dim turn-time nums"),
      span("dim turn-usage nums"),
      spacer(),
      h("a", { class: "button quiet", href: runPath(turn.id), title }, "Events"),
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
  const { status, blocks, streaming, error, usage, missing_lines: missing } = turn;
  const waits = (turn.waiting ?? []).map(waitText).join(", ");
  const streamed = streaming ? `${streaming.id} ${streaming.parts}` : "";
  const shownBefore = [status, blocks.length, turn.last_updated, error, missing, streamed, waits];
  if (!isOutdated(card, shownBefore.join(" "))) return;
  const over = isOver(turn);
  const working = status === "pending" ? "Waiting for an executor …" : "Working …";
  fill(part(card, ".turn-status"), statusMark(status, { badge: true }));
  fill(part(card, ".turn-time"), time(turn));
  setText(part(card, ".turn-usage"), usage ? usageBrief(/** @type {Usage} */ (usage)) : "");
  part(card, ".turn-usage").title = usage ? usageText(/** @type {Usage} */ (usage)) : "";
  part(card, ".turn-stop").hidden = over;
  showText(card, ".turn-missing", missing?.length ? missingText(missing) : null);
  showText(card, ".turn-error", error);
  const isIdle = !over && !blocks.length && !streaming;
  showText(card, ".turn-waiting", over ? null : capital(waits) || (isIdle ? working : null));
  const results = new Map(ofType(blocks, "tool_result").map((block) => [callIdOf(block), block]));
  const called = new Set(ofType(blocks, "tool_use").map(callIdOf));
  const shown = blocks.filter(
    (block) => block.type !== "tool_result" || !called.has(callIdOf(block)),
  );
  const list = part(card, ".blocks");
  keepReplaced(list, blocks);
  updateChildren(list, streaming ? [...shown, unfinished(streaming)] : shown, {
    key: (block) => block.id,
    make: (block) => h("li", { class: `block ${block.type}` }),
    update: (item, block) => {
      const isStreaming = block.id === streaming?.id;
      item.classList.toggle("streaming", isStreaming && !over);
      item.setAttribute("aria-busy", String(isStreaming && !over));
      if (isStreaming && showMore(item, block)) return;
      const result = block.type === "tool_use" ? results.get(callIdOf(block)) : undefined;
      if (!isOutdated(item, `${block.id} ${result?.id ?? ""} ${over}`)) return;
      const wasOpen = item.querySelector("details")?.open ?? false;
      fill(item, blockBody(block, result, over));
      const details = item.querySelector("details");
      if (details && wasOpen) details.open = true;
    },
  });
}

/**
 * A finished block stays in the element in which it was streaming, so that nothing moves.
 * @param {HTMLElement} list @param {WireBlock[]} blocks
 */
function keepReplaced(list, blocks) {
  const last = /** @type {HTMLElement | null} */ (list.querySelector(":scope > [aria-busy=true]"));
  const finished = last && blocks.findLast(({ replaces }) => replaces === last.dataset["key"]);
  if (finished) last.dataset["key"] = finished.id;
}

/** @param {StreamingBlock} streaming @returns {WireBlock} */
function unfinished({ id, type, created_at, text }) {
  return { id, type, created_at, sequence: Infinity, content: { text } };
}

/** Add the text that a streaming block has gained; false if it is not shown yet. @param {HTMLElement} item @param {WireBlock} block */
function showMore(item, { content }) {
  const shown = item.querySelector(".block-text");
  if (shown) setText(shown, text(content["text"]));
  const summary = item.querySelector(".preview");
  if (summary) setText(summary, valuePreview(content["text"]));
  return shown !== null;
}

/** @param {WireBlock[]} blocks @param {WireBlock["type"]} type */
const ofType = (blocks, type) => blocks.filter((block) => block.type === type);

/** @param {WireBlock} block */
const callIdOf = ({ content }) => content["tool_use_id"];

/** @param {WireBlock} block @param {WireBlock | undefined} result @param {boolean} over */
function blockBody(block, result, over) {
  const { content, type } = block;
  if (type === "content") return div("block-text", text(content["text"]));
  if (type === "thinking")
    return collapsed(
      [icon("thought"), span("dim", "Thinking"), preview(content["text"])],
      div("block-text dim", text(content["text"])),
    );
  if (type === "tool_result")
    return collapsed(
      [
        icon("tool"),
        span("dim", "Result of a tool call in another turn"),
        preview(content["result"]),
      ],
      resultBody(block),
    );
  const open = over ? "skipped" : "started";
  const status = !result ? open : result.content["error"] ? "failed" : "completed";
  const none = p("dim", over ? "No result recorded." : "No result yet.");
  return collapsed(
    [
      statusMark(status, { quiet: true }),
      h("strong", {}, text(content["tool_name"])),
      preview(content["parameters"]),
    ],
    labelled("Parameters", content["parameters"]),
    result ? resultBody(result) : none,
  );
}

/** @param {Child[]} summary @param {...Child} body */
const collapsed = (summary, ...body) => h("details", {}, h("summary", {}, ...summary), ...body);

/** @param {WireBlock} result */
function resultBody({ content }) {
  return h(
    "div",
    {},
    content["error"] ? p("problem", text(content["error"])) : null,
    (content["result"] ?? null) === null ? null : labelled("Result", content["result"]),
  );
}

/** @param {string} name @param {unknown} value */
function labelled(name, value) {
  return h(
    "section",
    { class: "labelled" },
    h("header", {}, h("h4", {}, name), copyButton(name, valueText(value))),
    typeof value === "string"
      ? h("pre", { class: "output" }, value)
      : valueTree(value, { open: 1 }),
  );
}

/** @param {[number, number][]} gaps first and last line of each */
function missingText(gaps) {
  const spans = gaps.map(([low, high]) => (low === high ? `${low}` : `${low}–${high}`));
  const lines = gaps.length === 1 && gaps[0]?.[0] === gaps[0]?.[1] ? "line" : "lines";
  return `Missing ${lines} ${spans.join(", ")} of the agent's output.`;
}

/** When the turn was created, and its duration since then, as that of its run. @param {ShownTurn} turn */
function time({ created_at: created, completed_at: completed }) {
  const began = Date.parse(created);
  const took = completed ? ` · ${durationText(Date.parse(completed) - began)}` : "";
  return timeElement(began, `${timeText(began)}${took}`);
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : (value ?? null) === null ? "" : JSON.stringify(value);
}

/** @param {unknown} value */
function preview(value) {
  return span("cut dim preview", valuePreview(value));
}

/** @param {HTMLElement} card @param {string} selector @param {string | null} shown */
function showText(card, selector, shown) {
  const element = part(card, selector);
  element.hidden = !shown;
  setText(element, shown ?? "");
}

/** @param {HTMLElement} card @param {string} selector */
function part(card, selector) {
  return /** @type {HTMLElement} */ (card.querySelector(selector));
}
