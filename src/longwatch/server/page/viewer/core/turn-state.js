/** Turns of a session and their blocks, from responses and from messages of the feed. */

import { shareUnchanged } from "./response-cache.js";

/** @import { FeedMessage } from "./feed-topic.js" */
/** @import { WaitView } from "./waits.js" */

/**
 * @typedef {"pending" | "running" | "completed" | "failed"} TurnStatus
 *
 * @typedef {object} WireBlock
 * @property {string} id
 * @property {number} sequence From 0.
 * @property {"thinking" | "content" | "tool_use" | "tool_result"} type
 * @property {string} created_at
 * @property {Record<string, any>} content
 * @property {string} [replaces] The id of the streaming block that this one finishes; from the feed only.
 *
 * A block whose message has not ended: text that grows.
 *
 * @typedef {object} StreamingBlock
 * @property {string} id
 * @property {"thinking" | "content"} type
 * @property {string} created_at
 * @property {string} text
 * @property {number} [parts] Number of deltas received; from the feed only.
 *
 * @typedef {object} WireTurn
 * @property {string} id
 * @property {string} project_id
 * @property {string} session_id
 * @property {number} number
 * @property {string | null} prompt
 * @property {TurnStatus} status
 * @property {WireBlock[]} [blocks]
 * @property {StreamingBlock} [streaming] Left out if no block is unfinished.
 * @property {number} block_count
 * @property {string | null} error
 * @property {string} created_at
 * @property {string | null} started_at
 * @property {string | null} completed_at
 * @property {string} last_updated
 * @property {Record<string, any>} [usage] Left out until the agent has reported tokens.
 * @property {WaitView[]} [waiting] Open waits. Left out without any.
 * @property {[number, number][]} [missing_lines] First and last line of each gap in the agent's output.
 * @property {string} [blocks_cursor] The blocks of a whole turn, to request only those after them.
 */

/** @param {{status: string}} turn */
export function isOver({ status }) {
  return status === "completed" || status === "failed";
}

/** For `Api.get`: of a turn that has changed, the server sends its status and new blocks only. */
export const turnUpdate = {
  /** @param {WireTurn} turn */
  query: ({ blocks_cursor: cursor }) => ({ blocks_after: cursor }),

  /**
   * @param {WireTurn | undefined} before
   * @param {WireTurn & {blocks_from?: number}} received
   * @returns {WireTurn}
   */
  merge(before, { blocks_from: from, ...received }) {
    if (before === undefined || from === undefined) return received;
    const { blocks: kept = [], prompt } = before;
    return {
      ...received,
      prompt,
      blocks: [...kept.slice(0, from), ...(received.blocks ?? [])],
    };
  },
};

/**
 * The turns of a `turn:` or `session:` topic, as far as they have been received. A turn and a block that have not changed are
 * the same objects after every message.
 */
export class TurnState {
  /** @type {Map<string, WireTurn>} */
  #turns = new Map();
  /** @type {Map<string, Map<string, WireBlock>>} */
  #blocks = new Map(); // turn id → block id → block
  /** @type {Map<string, StreamingBlock>} */
  #streaming = new Map(); // turn id → its unfinished block
  /** @type {Set<string>} */
  #finished = new Set(); // ids of streaming blocks that were replaced; a reopened feed may repeat them
  /** @type {Map<string, WireTurn & {blocks: WireBlock[]}>} */
  #withBlocks = new Map(); // of turns that have not changed since

  /** Apply a message; returns false if it changed nothing. @param {FeedMessage} message */
  apply({ event, data }) {
    if (event === "turn") return this.#applyTurn(data.turn);
    if (event === "block_delta") return this.#applyDelta(data.turn_id, data.delta);
    if (event !== "block") return false;
    const { turn_id: turnId, block, replaces } = data;
    if (replaces) this.#finished.add(replaces);
    this.#withBlocks.delete(turnId);
    if (replaces === this.#streaming.get(turnId)?.id) this.#streaming.delete(turnId);
    return this.#applyBlock(turnId, replaces ? { ...block, replaces } : block);
  }

  /**
   * All turns in order, each with the blocks received so far.
   * @returns {(WireTurn & {blocks: WireBlock[]})[]}
   */
  turns() {
    const turns = [...this.#turns.values()].sort((one, other) => one.number - other.number);
    return turns.map((turn) => this.#complete(turn));
  }

  /** @param {string} turnId */
  turn(turnId) {
    const turn = this.#turns.get(turnId);
    return turn && this.#complete(turn);
  }

  /** @param {string} turnId @returns {WireBlock[]} */
  blocks(turnId) {
    const blocks = [...(this.#blocks.get(turnId)?.values() ?? [])];
    return blocks.sort((one, other) => one.sequence - other.sequence);
  }

  /** @param {WireTurn} turn */
  #complete(turn) {
    let complete = this.#withBlocks.get(turn.id);
    if (complete === undefined) {
      const streaming = this.#streaming.get(turn.id);
      complete = { ...turn, blocks: this.blocks(turn.id), ...(streaming && { streaming }) };
      this.#withBlocks.set(turn.id, complete);
    }
    return complete;
  }

  /**
   * Delta number 0 begins a block, or repeats all of its text. Any other is added if it is the next one.
   * @param {string} turnId @param {StreamingBlock & {part: number, parts: number}} delta
   */
  #applyDelta(turnId, { part, ...delta }) {
    const current = this.#streaming.get(turnId);
    const isNext = part === 0 || (current?.id === delta.id && current.parts === part);
    if (!isNext || this.#finished.has(delta.id)) return false;
    const before = part === 0 ? "" : (current?.text ?? "");
    this.#streaming.set(turnId, { ...delta, text: before + delta.text });
    this.#withBlocks.delete(turnId);
    return true;
  }

  /** @param {WireTurn} turn */
  #applyTurn({ blocks = [], ...turn }) {
    let hasChanged = false;
    for (const block of blocks) hasChanged = this.#applyBlock(turn.id, block) || hasChanged;
    const current = this.#turns.get(turn.id);
    const isOlder = current !== undefined && current.last_updated > turn.last_updated; // a repeated message
    const newest = isOlder ? current : shareUnchanged(current, turn);
    this.#turns.set(turn.id, newest);
    hasChanged ||= newest !== current;
    if (hasChanged) this.#withBlocks.delete(turn.id);
    return hasChanged;
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
