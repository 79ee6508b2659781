/**
 * One line that distinguishes an event or a call from its siblings: a preview of its content. The same rules as in
 * Python. Of a long text, a large map and a large list only the beginning is read, or the size.
 */

import { ENDS, warningCount } from "./endings.js";
import { compareText } from "./order.js";
import { errorTextOf, payloadOf, textOf } from "./payloads.js";

/** @import { WireEvent } from "./order.js" */
/** @import { Payload } from "./payloads.js" */

export const PREVIEW_CHARACTERS = 120;
const FIELD_CHARACTERS = 60; // of a value after its name
const SAMPLED = 4; // characters that are read for each one shown, because gaps and colours shrink
const [MOST_FIELDS, MOST_ITEMS, SMALL] = [40, 8, 2]; // of maps and lists; levels of maps inside fields
const DEEPEST = 4;

const MESSAGES = ["message", "text", "line", "data"]; // lead in an event that is not of a call
const DISTINCTIVE = new Map(
  [
    ["command", "cmd", "script", "sql"],
    ["query", "q", "question", "search", "pattern"],
    ["url", "uri", "endpoint"],
    ["path", "file_path", "filename", "file", "key"],
    ["prompt", "messages", "instruction", "instructions", "task", "request"],
    ["input", "topic", "subject", "title", "headline", "symbol", "name"],
    ["text", "message", "content", "description", "summary"],
  ].flatMap((names, at) =>
    names.map((name) => /** @type {[string, number]} */ ([name, MESSAGES.length + at])),
  ),
);
const [NAMED, SCALAR, ID, CONTAINER, SETTING] = [100, 101, 102, 103, 104]; // ranks below NAMED need no name
const SETTINGS = new Set(
  (
    "self cls ctx context config configuration settings options client session headers timeout timeout_seconds " +
    "retries max_retries temperature top_p top_k seed max_tokens stream streaming model model_name provider " +
    "verbose debug callbacks metadata encoding api_key"
  ).split(" "),
);
// Fields of the events of calls that are shown elsewhere, or distinguish nothing.
const ENVELOPE = new Set(
  (
    "operation tool_name name system status agent_name role node_id node_name node_type kind attributes " +
    "duration_ms execution_time_ms error_message error error_code traceback tool_use_id line_number after_line " +
    "item recorded_by trace_id span_id conversation_id session_id input parameters arguments args " +
    "output result response"
  ).split(" "),
);
const INPUTS = ["input", "parameters", "arguments", "args"];
const MODEL_INPUTS = ["input", "messages", "prompt"]; // its parameters are settings
const OUTPUTS = ["output", "result", "response"];
const OUTCOMES = ["message", "text", "result", "output", "name", "status"]; // of an event that ends a run
const CALLS = "tool_call model_call agent_start agent_end node_start node_stop".split(" ");
const ROLES = ["human", "ai", "tool", "system"]; // types of messages without a role
const REDACTED = "[REDACTED]";

const COLOUR = /\x1b\[[0-9;?]*[ -/]*[@-~]/g; // eslint-disable-line no-control-regex
const GAP =
  /[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028-\u202f\u205f\u2066-\u2069\u3000\ud800-\udfff\ufeff]+/gu; // eslint-disable-line no-control-regex
const PLAIN = /^[!-~]*(?: [!-~]+)*$/;
const SHORTENED = /…\[shortened, [0-9,]+ characters\]$/;
const MARKER_CHARACTERS = 60;
const ADDRESS = /^<[^\n]* at 0x[0-9a-f]+>$/; // an object without a text of its own

/** @typedef {Record<string, unknown>} Fields */

/** A value that JSON has no form for, as text. */
class Tagged {
  /** @param {string} text @param {{isScalar?: boolean, isEmpty?: boolean}} [is] */
  constructor(text, { isScalar = false, isEmpty = false } = {}) {
    this.text = text;
    this.isScalar = isScalar;
    this.isEmpty = isEmpty;
  }
}

/**
 * What the event reports, without the name and the status of its call.
 * @param {WireEvent} event @param {number} [limit]
 */
export function eventPreview(event, limit = PREVIEW_CHARACTERS) {
  const [{ type }, payload] = [event, payloadOf(event)];
  const error = errorTextOf(payload);
  const isToolBlock =
    type === "block" && (payload["kind"] === "tool_use" || payload["kind"] === "tool_result");
  if (isToolBlock || CALLS.includes(type)) {
    if (error !== null) return oneLine(error, limit);
    return (
      (outputPreview(payload, limit) ??
        inputPreview(type, payload, limit) ??
        otherFieldsPreview(type, payload, limit)) ||
      ""
    );
  }
  const text = TEXTS.get(type);
  if (text) return oneLine(text(payload), limit);
  if (error !== null) return oneLine(error, limit);
  if (ENDS.has(type)) return firstPreview(payload, OUTCOMES, limit) ?? "";
  return mapPreview(payload, limit, 0, MESSAGES);
}

/**
 * The arguments of a call that distinguish it.
 * @param {string} type @param {Payload} payload @param {number} [limit]
 */
export function inputPreview(type, payload, limit = PREVIEW_CHARACTERS) {
  return firstPreview(payload, type === "model_call" ? MODEL_INPUTS : INPUTS, limit);
}

/** The beginning of the result of a call. @param {Payload} payload @param {number} [limit] */
export function outputPreview(payload, limit = PREVIEW_CHARACTERS) {
  return firstPreview(payload, OUTPUTS, limit);
}

/**
 * The fields of a call's event where its producer states neither an input nor an output.
 * @param {string} type @param {Payload} payload @param {number} [limit]
 */
export function otherFieldsPreview(type, payload, limit = PREVIEW_CHARACTERS) {
  const names = Object.keys(payload);
  if (type === "model_call" || names.length > MOST_FIELDS) return null;
  const rest = names.filter((name) => !ENVELOPE.has(name));
  if (!rest.length) return null;
  return (
    mapPreview(Object.fromEntries(rest.map((name) => [name, payload[name]])), limit, 0) || null
  );
}

/**
 * What distinguishes a recorded value.
 * @param {unknown} value @param {number} [limit]
 */
export function valuePreview(value, limit = PREVIEW_CHARACTERS) {
  return preview(untagged(value), limit, 0);
}

/**
 * The beginning of a text without colours, control characters and line breaks.
 * @param {string} text @param {number} [limit]
 */
export function oneLine(text, limit = PREVIEW_CHARACTERS) {
  const sample = beginning(text, limit * SAMPLED);
  const shown = clean(sample);
  const fits = sample.length === text.length && lengthWithin(shown, limit);
  return fits ? shown : cut(`${shown}…`, limit);
}

/** @param {Payload} payload @param {string[]} names @param {number} limit @returns {string | null} */
function firstPreview(payload, names, limit) {
  for (const name of names) {
    const shown = valuePreview(payload[name], limit);
    if (shown) return shown;
  }
  return null;
}

/** @param {string} text */
function clean(text) {
  const plain = PLAIN.test(text) ? text : text.replace(COLOUR, "").replace(GAP, " ");
  return plain.replace(/^ +| +$/g, "");
}

/** @param {string} text @param {number} limit */
function cut(text, limit) {
  if (lengthWithin(text, limit)) return text;
  return `${beginning(text, limit - 1).replace(/[ …]+$/, "")}…`;
}

/** The first characters; an emoji is one, as in Python. @param {string} text @param {number} count */
function beginning(text, count) {
  if (text.length <= count) return text;
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join("");
}

/** @param {string} text @param {number} count */
function ending(text, count) {
  if (text.length <= count) return text;
  return Array.from(text.slice(-2 * count))
    .slice(-count)
    .join("");
}

/** @param {string} text @param {number} limit */
function lengthWithin(text, limit) {
  return text.length <= limit || (text.length <= 2 * limit && Array.from(text).length <= limit);
}

/**
 * The text; of a long one the beginning and the end, because siblings often begin alike.
 * @param {string} text @param {number} limit
 */
function ends(text, limit) {
  const marker = SHORTENED.exec(text.slice(-MARKER_CHARACTERS));
  if (marker) return oneLine(`${text.slice(0, text.length - marker[0].length)}…`, limit);
  const room = limit * SAMPLED;
  const sample = beginning(text, room);
  const isWhole = sample.length === text.length;
  const shown = clean(sample);
  if (isWhole && lengthWithin(shown, limit)) return shown;
  const last = Math.floor(limit / 3);
  const end = isWhole ? shown : clean(ending(text, room));
  const first = beginning(shown, limit - last - 3).replace(/ +$/, "");
  return `${first} … ${ending(end, last).replace(/^ +/, "")}`;
}

/** @param {unknown} value @param {number} limit @param {number} depth @returns {string} */
function preview(value, limit, depth) {
  if (typeof value === "string") return ends(value, limit);
  if (isMap(value)) return depth < DEEPEST ? mapPreview(value, limit, depth) : brief(value);
  if (Array.isArray(value))
    return depth < DEEPEST ? listPreview(value, limit, depth) : brief(value);
  return isEmpty(value) ? "" : brief(value);
}

/**
 * The most distinctive field, then the others; in an event that is not of a call these are all others.
 * @param {Fields} value @param {number} limit @param {number} depth @param {string[]} [first]
 * @returns {string}
 */
function mapPreview(value, limit, depth, first = []) {
  if (isMessage(value)) return messagePreview(value, limit, depth);
  const names = Object.keys(value);
  if (names.length > MOST_FIELDS || (depth && processText(value))) return brief(value);
  const ranked = names
    .filter((name) => name !== "…" && !isEmpty(untagged(value[name])))
    .map((name) => ({ name, rank: rankOf(name, untagged(value[name]), first) }))
    .sort((one, other) => one.rank - other.rank || compareText(one.name, other.name));
  const [lead, ...rest] = ranked;
  if (!lead) return "";
  const isEvent = first.length > 0;
  const others = rest.filter(({ rank }) => isEvent || rank !== SETTING || lead.rank === SETTING);
  const standsAlone = (lead.rank < NAMED || !others.length) && lead.rank !== SETTING;
  const found = untagged(value[lead.name]);
  const room = others.length ? Math.floor((limit * 2) / 3) : limit;
  const parts = [];
  if (typeof found === "string" && standsAlone) parts.push(ends(found, room));
  else if (isContainer(found) && (standsAlone || (lead.rank === CONTAINER && !isEvent)))
    parts.push(preview(found, room, depth + 1));
  else parts.push(field(lead.name, found));
  let length = Array.from(parts[0] ?? "").length;
  for (const { name } of others) {
    if (length > limit) break;
    const text = field(name, untagged(value[name]));
    parts.push(text);
    length += Array.from(text).length + 1;
  }
  return cut(parts.filter(Boolean).join(" "), limit);
}

/** @param {string} name @param {unknown} value @param {string[]} first */
function rankOf(name, value, first) {
  const isAddress =
    typeof value === "string" && value.startsWith("<") && ADDRESS.test(beginning(value, 200));
  if (value === false || value === REDACTED || isAddress) return SETTING;
  const at = first.indexOf(name);
  const rank = at >= 0 ? at : DISTINCTIVE.get(name);
  if (rank !== undefined) return rank;
  if (SETTINGS.has(name)) return SETTING;
  if (isContainer(value) || (value instanceof Tagged && !value.isScalar)) return CONTAINER;
  return name === "id" || name.endsWith("_id") ? ID : SCALAR;
}

/** @param {unknown[]} value @param {number} limit @param {number} depth @returns {string} */
function listPreview(value, limit, depth) {
  if (!value.length) return "";
  const last = untagged(value.at(-1));
  if (isMap(last) && isMessage(last)) return messagePreview(last, limit, depth);
  if (value.length === 1) return preview(last, limit, depth + 1);
  const sample = value.slice(0, MOST_ITEMS).map(untagged);
  if (sample.some(isContainer))
    return cut(`${value.length} items: ${preview(sample[0], limit, depth + 1)}`, limit);
  const rest = value.length > sample.length ? ["…"] : [];
  return cut([...sample.map((each) => brief(each)), ...rest].join(", "), limit);
}

/** Whether this is a message of a conversation with a model. @param {Fields} value */
function isMessage(value) {
  if (!Object.hasOwn(value, "content") && !Object.hasOwn(value, "parts")) return false;
  const kind = value["type"];
  return typeof value["role"] === "string" || (typeof kind === "string" && ROLES.includes(kind));
}

/**
 * The text of a message, else the tool that it calls, else the result that it reports.
 * @param {Fields} message @param {number} limit @param {number} depth @returns {string}
 */
function messagePreview(message, limit, depth) {
  const content = untagged(message["content"] ?? message["parts"] ?? null);
  if (!Array.isArray(content)) return preview(content, limit, depth + 1);
  /** @type {string[]} */
  const calls = [];
  for (const part of content.slice(0, MOST_ITEMS).map(untagged)) {
    if (typeof part === "string" && part) return ends(part, limit);
    if (!isMap(part) || part["type"] === "reasoning" || part["type"] === "thinking") continue;
    const text = textOf(part, "text") ?? (part["type"] === "text" ? textOf(part, "content") : null);
    if (text) return ends(text, limit);
    calls.push(partPreview(part, limit, depth + 1));
  }
  return calls.find(Boolean) ?? "";
}

/** @param {Fields} part @param {number} limit @param {number} depth */
function partPreview(part, limit, depth) {
  const name = textOf(part, "name");
  for (const key of ["arguments", "input", "content", "result", "response"]) {
    const value = untagged(part[key] ?? null);
    if (value === null) continue;
    const shown = preview(value, limit, depth);
    return name ? cut(`${oneLine(name, FIELD_CHARACTERS)}: ${shown}`, limit) : shown;
  }
  return oneLine(name ?? textOf(part, "media_type", "type") ?? "", limit);
}

/** @param {string} name @param {unknown} value */
function field(name, value) {
  return `${oneLine(name, FIELD_CHARACTERS)}=${brief(value)}`;
}

/**
 * A value in a list or after its name. Of a large one only the size.
 * @param {unknown} value @param {number} [depth] @returns {string}
 */
function brief(value, depth = 0) {
  if (typeof value === "string") {
    const shown = oneLine(value, FIELD_CHARACTERS);
    return shown.includes(" ") || !shown ? `"${shown}"` : shown;
  }
  if (typeof value === "number") return numberOf(value);
  if (value instanceof Tagged) return oneLine(value.text, FIELD_CHARACTERS);
  if (Array.isArray(value)) {
    if (value.length > MOST_ITEMS || depth >= SMALL) return `[${value.length} items]`;
    return cut(
      `[${value.map((each) => brief(untagged(each), depth + 1)).join(", ")}]`,
      FIELD_CHARACTERS,
    );
  }
  if (!isMap(value)) return String(value ?? null);
  const process = processText(value);
  if (process) return process;
  const names = Object.keys(value);
  if (names.length > MOST_ITEMS || depth >= SMALL) return `{${names.length} fields}`;
  const fields = names
    .sort(compareText)
    .map((name) => `${oneLine(name, FIELD_CHARACTERS)}=${brief(untagged(value[name]), depth + 1)}`);
  return cut(`{${fields.join(", ")}}`, FIELD_CHARACTERS);
}

/** `123@host` for the identity of a process, else nothing. @param {Fields} value */
function processText({ pid, host }) {
  return typeof pid === "number" && typeof host === "string"
    ? `${numberOf(pid)}@${oneLine(host, FIELD_CHARACTERS)}`
    : "";
}

/** @param {number} number */
function numberOf(number) {
  if (!Number.isFinite(number)) return "inf";
  const size = Math.abs(number);
  const isPlain = (Number.isInteger(number) || size >= 1e-4) && size < 1e16;
  return isPlain ? String(number) : number.toExponential();
}

/** The value without the tag that the wire format adds to what JSON lacks. @param {unknown} value @returns {unknown} */
function untagged(value) {
  const tag = isMap(value) ? onlyName(value) : null;
  if (!tag?.startsWith("$")) return value;
  const found = /** @type {Fields} */ (value)[tag];
  if (tag === "$map") return found;
  if (tag === "$decimal") return new Tagged(String(found), { isScalar: true });
  if (tag === "$set" && Array.isArray(found))
    return new Tagged(`{${found.length} items}`, { isEmpty: !found.length });
  if (tag !== "$bytes" || typeof found !== "string") return value;
  const size = (found.length / 4) * 3 - (/=*$/.exec(found)?.[0].length ?? 0);
  return new Tagged(`${size} bytes`, { isEmpty: !found });
}

/** @param {Fields} value */
function onlyName(value) {
  let only = null;
  for (const name in value) {
    if (only !== null) return null;
    only = name;
  }
  return only;
}

/** @param {unknown} value @returns {value is Fields} */
function isMap(value) {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Tagged)
  );
}

/** @param {unknown} value */
function isContainer(value) {
  return Array.isArray(value) || isMap(value);
}

/** @param {unknown} value */
function isEmpty(value) {
  if (value === null || value === undefined || value === "") return true;
  if (value instanceof Tagged) return value.isEmpty;
  if (Array.isArray(value)) return !value.length;
  return isMap(value) && !Object.keys(value).length;
}

/** @param {Payload} payload */
function blockText(payload) {
  return `${textOf(payload, "kind") ?? "block"}: ${textOf(payload, "text") ?? ""}`;
}

/** @param {Payload} payload */
function startedText(payload) {
  return `${textOf(payload, "name") ?? ""} (${textOf(payload, "source") ?? ""} ${textOf(payload, "mode") ?? ""})`;
}

/**
 * `failed (TIMED_OUT) s-1: no response`: the new state, which must fit, then what changed and why.
 * @param {Payload} payload
 */
function transitionText(payload) {
  const name = textOf(payload, "action", "server_id", "job_id") ?? "";
  const [state, status, reason] = ["to", "word", "reason"].map((key) => textOf(payload, key) ?? "");
  const to = state === "launched" && status?.toLowerCase() !== state ? "done" : state; // a build is not launched
  const own = status && status.toLowerCase() !== to && status !== reason ? ` (${status})` : "";
  return `${to}${own} ${name}${reason ? `: ${reason}` : ""}`;
}

/**
 * `succeeded; 2 warnings: s-1 was terminated afterwards; …`: the outcome, then the warnings.
 * @param {Payload} payload
 */
function verdictText(payload) {
  const verdict = errorTextOf(payload) ?? textOf(payload, "message", "status") ?? "";
  const { warnings } = payload;
  if (!Array.isArray(warnings) || !warnings.length) return verdict;
  const texts = warnings.slice(0, MOST_ITEMS).filter((each) => typeof each === "string");
  const count = warningCount(payload);
  return `${verdict}; ${count.toLocaleString("en")} warning${count === 1 ? "" : "s"}: ${texts.join("; ")}`;
}

/** @param {Payload} payload */
function printedText(payload) {
  const text = textOf(payload, "text") ?? "";
  return payload["stream"] === "stderr" ? `stderr: ${text}` : text;
}

/** @type {Map<string, (payload: Payload) => string>} */
const TEXTS = new Map(
  Object.entries({
    unreadable_event: (payload) =>
      `position ${brief(untagged(payload["position"]))}: ${textOf(payload, "reason") ?? ""}`,
    block: blockText,
    block_delta: blockText,
    output: printedText,
    turn_line: (payload) => valuePreview(payload["line"]),
    turn_result: (payload) => textOf(payload, "error_message", "result", "reported") ?? "",
    turn_end_claimed: (payload) => textOf(payload, "ends_as") ?? "",
    execution_started: startedText,
    job_transition: transitionText,
    server_transition: transitionText,
    action_transition: transitionText,
    execution_ended: verdictText,
    execution_corrected: verdictText,
  }),
);
