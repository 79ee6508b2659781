/** Turns of a session and their blocks, from responses and from messages of the feed. */

/** @import { FeedMessage } from "./feed-topic.js" */

/**
 * @typedef {"pending" | "running" | "completed" | "failed"} TurnStatus
 *
 * @typedef {object} WireBlock
 * @property {string} id
 * @property {number} sequence From 0.
 * @property {"thinking" | "content" | "tool_use" | "tool_result"} type
 * @property {string} created_at
 * @property {Record<string, any>} content
 *
 * @typedef {object} WireTurn
 * @property {string} id
 * @property {string} project_id
 * @property {string} session_id
 * @property {number} number
 * @property {string | null} prompt
 * @property {TurnStatus} status
 * @property {WireBlock[]} [blocks]
 * @property {number} block_count
 * @property {string | null} error
 * @property {string} created_at
 * @property {string | null} started_at
 * @property {string | null} completed_at
 * @property {string} last_updated
 * @property {[number, number][]} [missing_lines] First and last line of each gap in the agent's output.
 */

/** @param {{status: string}} turn */
export function isOver({ status }) {
  return status === "completed" || status === "failed";
}

/** The turns of a `turn:` or `session:` topic, as far as they have been received. */
export class TurnState {
  /** @type {Map<string, WireTurn>} */
  #turns = new Map();
  /** @type {Map<string, Map<string, WireBlock>>} */
  #blocks = new Map(); // turn id → block id → block

  /** Apply a message; returns false if it changed nothing. @param {FeedMessage} message */
  apply({ event, data }) {
    if (event === "turn") return this.#applyTurn(data.turn);
    if (event === "block") return this.#applyBlock(data.turn_id, data.block);
    return false;
  }

  /**
   * All turns in order, each with the blocks received so far.
   * @returns {(WireTurn & {blocks: WireBlock[]})[]}
   */
  turns() {
    const turns = [...this.#turns.values()].sort((one, other) => one.number - other.number);
    return turns.map((turn) => ({ ...turn, blocks: this.blocks(turn.id) }));
  }

  /** @param {string} turnId */
  turn(turnId) {
    const turn = this.#turns.get(turnId);
    return turn && { ...turn, blocks: this.blocks(turnId) };
  }

  /** @param {string} turnId @returns {WireBlock[]} */
  blocks(turnId) {
    const blocks = [...(this.#blocks.get(turnId)?.values() ?? [])];
    return blocks.sort((one, other) => one.sequence - other.sequence);
  }

  /** @param {WireTurn} turn */
  #applyTurn({ blocks = [], ...turn }) {
    for (const block of blocks) this.#applyBlock(turn.id, block);
    const current = this.#turns.get(turn.id);
    if (current && current.last_updated > turn.last_updated) return false; // a repeated, older message
    this.#turns.set(turn.id, turn);
    return true;
  }

  /** @param {string} turnId @param {WireBlock} block */
  #applyBlock(turnId, block) {
    let blocks = this.#blocks.get(turnId);
    if (blocks === undefined) {
      blocks = new Map();
      this.#blocks.set(turnId, blocks);
    }
    if (blocks.get(block.id)?.sequence === block.sequence) return false; // another number: it moved
    blocks.set(block.id, block);
    return true;
  }
}
