/** Which rows of a timeline are open: a rule for all of them, and the rows that the user opened or closed by hand. */

/** @import { Row } from "./timeline-rows.js" */

export const EVERY_LEVEL = Infinity;

export class OpenRows {
  /** Number of levels that are shown. */
  levels = EVERY_LEVEL;
  /** @type {Set<string>} agents whose spans are closed */
  #agents = new Set();
  /** @type {Map<string, boolean>} */
  #byHand = new Map();

  /** @param {Row} row */
  isOpen({ id, call, depth, repeats }) {
    const chosen = this.#byHand.get(id);
    if (chosen !== undefined) return chosen;
    if (repeats || (call.kind === "agent" && this.#agents.has(call.name))) return false;
    return depth + 1 < this.levels;
  }

  /** Whether the user closed it by hand, which counts even for what a search has found. @param {Row} row */
  isOpenForMatches({ id }) {
    return this.#byHand.get(id) ?? true;
  }

  /** @param {Row} row */
  toggle({ id, isOpen }) {
    this.#byHand.set(id, !isOpen);
  }

  /** @param {string} id */
  open(id) {
    this.#byHand.set(id, true);
  }

  /** Show this many levels, and forget what was opened or closed by hand. @param {number} levels */
  show(levels) {
    this.levels = levels;
    this.#agents.clear();
    this.#byHand.clear();
  }

  /** Close every span of an agent; open them if they are closed. @param {string} agent */
  toggleAgent(agent) {
    if (!this.#agents.delete(agent)) this.#agents.add(agent);
    this.#byHand.clear();
  }

  /** @param {string} agent */
  isAgentClosed(agent) {
    return this.#agents.has(agent);
  }
}
