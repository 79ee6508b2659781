/** The labels of a run: its tags, its user and its session, as `model/labels.py` folds them. */

import { STARTS } from "./endings.js";
import { compareOrders, compareText, orderOf } from "./order.js";
import { payloadOf, textOf } from "./payloads.js";

/** @import { Order, WireEvent } from "./order.js" */

const TAGGED = "run_tagged";
const MAX_TAGS = 50;
const MAX_TOOLS = 30;
const MAX_CHARACTERS = 200;

/** @typedef {{order: Order, text: string}} Stated the event that states a value, and the value */

/** The labels of one run, updated with every event. */
export class Labels {
  /** @type {Set<string>} */
  #tags = new Set();
  /** @type {Set<string>} */
  #tools = new Set();
  /** @type {Stated | null} */
  #user = null;
  /** @type {Stated | null} */
  #session = null;

  /** @param {WireEvent} event */
  add(event) {
    const payload = payloadOf(event);
    if (event.type === "tool_call") {
      const tool = textOf(payload, "operation", "tool_name", "name");
      if (tool !== null) this.#tools.add(tool);
    }
    if (event.type !== TAGGED && !STARTS.has(event.type)) return;
    for (const tag of tagsIn(payload["tags"])) this.#tags.add(tag);
    this.#user = later(this.#user, event, textOf(payload, "user"));
    this.#session = later(this.#session, event, textOf(payload, "session"));
  }

  /** The fields of a summary. */
  view() {
    return {
      tools: [...this.#tools].sort(compareText).slice(0, MAX_TOOLS),
      tags: [...this.#tags].sort(compareText).slice(0, MAX_TAGS),
      user: this.#user?.text ?? null,
      session: this.#session?.text ?? null,
    };
  }
}

/** @param {unknown} value a list of texts, or one text; anything else is no tag */
function tagsIn(value) {
  const given = typeof value === "string" ? [value] : Array.isArray(value) ? value : [];
  return given.filter((each) => typeof each === "string" && each).map(shorten);
}

/** @param {Stated | null} stated @param {WireEvent} event @param {string | null} text @returns {Stated | null} */
function later(stated, event, text) {
  if (text === null) return stated;
  const order = orderOf(event);
  if (stated !== null && compareOrders(order, stated.order) < 0) return stated;
  return { order, text: shorten(text) };
}

/** By code points, as Python counts. @param {string} text */
function shorten(text) {
  return text.length <= MAX_CHARACTERS ? text : [...text].slice(0, MAX_CHARACTERS).join("");
}
