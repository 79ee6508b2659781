/** The messages of a model call: who said what, which tools were called, and images by their type and size. */

import { valuePreview } from "../core/preview.js";
import { h } from "./dom.js";
import { sizeText } from "./format.js";
import { icon } from "./icons.js";
import { div, p, span } from "./markup.js";
import { valueText, valueTree } from "./value-tree.js";

/** @typedef {{role: string, parts: Part[]}} Message */
/** @typedef {{[name: string]: unknown}} Part */

const LONG_TEXT = 1200; // characters; a longer text is collapsed to its beginning
const MEDIA = ["image", "audio", "video", "file", "document"];

/**
 * The recorded input or output as messages. Text alone is one message; a value of another shape has none.
 * @param {unknown} value @param {string} role of text alone
 * @returns {Message[]}
 */
export function messagesOf(value, role) {
  if (typeof value === "string") return [{ role, parts: [{ type: "text", text: value }] }];
  const items = Array.isArray(value) ? value : isMap(value) ? [value] : [];
  const messages = items.map((item) => messageOf(item, role));
  return messages.some((message) => message === null) ? [] : /** @type {Message[]} */ (messages);
}

/** @param {unknown} item @param {string} role @returns {Message | null} */
function messageOf(item, role) {
  if (typeof item === "string") return { role, parts: [{ type: "text", text: item }] };
  if (!isMap(item)) return null;
  const content = item["content"] ?? item["parts"] ?? null;
  if (typeof item["role"] !== "string" && content === null) return null;
  const parts = Array.isArray(content) ? content : content === null ? [] : [content];
  return {
    role: typeof item["role"] === "string" ? item["role"] : role,
    parts: parts.map((part) => (isMap(part) ? part : { type: "text", text: valueText(part) })),
  };
}

/** @param {Message[]} messages */
export function messageList(messages) {
  return h("ol", { class: "messages" }, ...messages.map(messageItem));
}

/** @param {Message} message */
function messageItem({ role, parts }) {
  return h(
    "li",
    { class: "message", data: { role } },
    h("h4", {}, role),
    ...(parts.length ? parts.map(partElement) : [p("dim", "No content recorded.")]),
  );
}

/** @param {Part} part */
function partElement(part) {
  const type = String(part["type"] ?? "text");
  const text = part["text"] ?? (type === "text" ? part["content"] : undefined);
  if (type === "tool_call" || type === "tool_use")
    return collapsible(
      [icon("tool"), h("strong", {}, String(part["name"] ?? "tool"))],
      part["arguments"] ?? part["input"],
    );
  if (type === "tool_result" || type === "tool_call_response")
    return collapsible(
      [icon("tool"), span("dim", "Result")],
      part["content"] ?? part["result"] ?? part["response"],
    );
  if (MEDIA.includes(type)) return p("media", icon("file"), mediaText(type, part));
  if (typeof text !== "string") return valueTree(part, { open: 1 });
  const isThought = type === "reasoning" || type === "thinking";
  return isThought
    ? collapsible([icon("thought"), span("dim", "Reasoning")], text)
    : longText(text);
}

/** `image/png, 34.1 kB` @param {string} type @param {Part} part */
function mediaText(type, part) {
  const size = part["size"] ?? part["bytes"];
  const name = typeof part["media_type"] === "string" ? part["media_type"] : type;
  return typeof size === "number" ? `${name}, ${sizeText(size)}` : name;
}

/** @param {(Element | string)[]} summary @param {unknown} value */
function collapsible(summary, value) {
  return h(
    "details",
    {},
    h("summary", {}, ...summary, span("cut dim preview", valuePreview(value))),
    typeof value === "string" ? div("message-text", value) : valueTree(value ?? null, { open: 2 }),
  );
}

/** @param {string} text */
function longText(text) {
  if (text.length <= LONG_TEXT) return div("message-text", text);
  return h(
    "details",
    { class: "long" },
    h("summary", {}, div("message-text", `${text.slice(0, LONG_TEXT)} …`)),
    div("message-text", text),
  );
}

/** @param {unknown} value @returns {value is {[name: string]: unknown}} */
function isMap(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
