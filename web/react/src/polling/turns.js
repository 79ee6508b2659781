/** Turns as the hooks return them: times are dates, and missing values are left out. */

/** @import { StreamingBlock as WireStreaming, TurnStatus, WireBlock, WireTurn } from "../../core/turn-state.js" */

/**
 * @typedef {Omit<WireBlock, "created_at"> & {created_at: Date}} Block
 * @typedef {Omit<WireStreaming, "created_at"> & {created_at: Date}} StreamingBlock
 *
 * @typedef {object} Turn
 * @property {string} id
 * @property {string} project_id
 * @property {string} session_id
 * @property {number} number
 * @property {string} [prompt]
 * @property {TurnStatus} status
 * @property {Block[]} blocks
 * @property {StreamingBlock} [streaming] Text that grows: a block whose message has not ended.
 * @property {number} block_count
 * @property {string} [error]
 * @property {Date} created_at
 * @property {Date} [started_at]
 * @property {Date} [completed_at]
 * @property {Date} last_updated
 */

/**
 * @param {WireTurn} wire
 * @returns {Turn}
 */
export function readTurn(wire) {
  const {
    prompt,
    error,
    started_at: startedAt,
    completed_at: completedAt,
    blocks = [],
    streaming,
    blocks_cursor: _,
    ...rest
  } = wire;
  return {
    ...rest,
    ...(prompt === null || prompt === undefined ? {} : { prompt }),
    ...(error === null || error === undefined ? {} : { error }),
    ...(startedAt ? { started_at: new Date(startedAt) } : {}),
    ...(completedAt ? { completed_at: new Date(completedAt) } : {}),
    created_at: new Date(rest.created_at),
    last_updated: new Date(rest.last_updated),
    blocks: blocks.map(readBlock),
    ...(streaming ? { streaming: readStreaming(streaming) } : {}),
  };
}

/**
 * A polled turn with what the feed has delivered since: new blocks, and the text of a block that is still streaming.
 *
 * @param {Turn} turn
 * @param {WireTurn | undefined} received
 * @returns {Turn}
 */
export function withReceived(turn, received) {
  const receivedBlocks = received?.blocks ?? [];
  const isReceived = new Set(receivedBlocks.map(({ id }) => id));
  if (!received || turn.blocks.some(({ id }) => !isReceived.has(id))) return turn; // the poll is newer
  const isPolled = new Set(turn.blocks.map(({ id }) => id));
  const fresh = receivedBlocks.filter(({ id }) => !isPolled.has(id)).map(readBlock);
  const { streaming: before, ...rest } = turn;
  const streaming = received.streaming && readStreaming(received.streaming);
  if (!fresh.length && (before?.text.length ?? 0) > (streaming?.text.length ?? 0)) return turn;
  const blocks = fresh.length
    ? [...turn.blocks, ...fresh].sort((one, other) => one.sequence - other.sequence)
    : turn.blocks;
  return { ...rest, blocks, block_count: blocks.length, ...(streaming ? { streaming } : {}) };
}

/** @param {WireStreaming} wire @returns {StreamingBlock} */
function readStreaming({ id, type, text, created_at }) {
  return { id, type, text, created_at: new Date(created_at) };
}

/** @type {WeakMap<WireBlock, Block>} */
const readBlocks = new WeakMap();

/**
 * A block of the server is always the same object here, because `React.memo` compares with `===`.
 * @param {WireBlock} wire
 * @returns {Block}
 */
function readBlock(wire) {
  let block = readBlocks.get(wire);
  if (block === undefined) {
    block = { ...wire, created_at: new Date(wire.created_at) };
    readBlocks.set(wire, block);
  }
  return block;
}
