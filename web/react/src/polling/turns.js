/** Turns as the hooks return them: times are dates, and missing values are left out. */

/** @import { StreamingBlock as WireStreaming, WireBlock, WireTurn } from "../../core/turn-state.js" */
/** @import { Block, StreamingBlock, Turn } from "../../index.js" */

/** @type {WeakMap<WireTurn, Turn>} */
const readTurns = new WeakMap();

/**
 * A turn that has not changed is always the same object, because `React.memo` compares with `===`.
 *
 * @param {WireTurn} wire
 * @returns {Turn}
 */
export function readTurn(wire) {
  let turn = readTurns.get(wire);
  if (turn === undefined) {
    turn = withDates(wire);
    readTurns.set(wire, turn);
  }
  return turn;
}

/** @param {WireTurn} wire @returns {Turn} */
function withDates(wire) {
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
  return /** @type {Turn} */ ({
    ...rest,
    ...(prompt === null || prompt === undefined ? {} : { prompt }),
    ...(error === null || error === undefined ? {} : { error }),
    ...(startedAt ? { started_at: new Date(startedAt) } : {}),
    ...(completedAt ? { completed_at: new Date(completedAt) } : {}),
    created_at: new Date(rest.created_at),
    last_updated: new Date(rest.last_updated),
    blocks: blocks.map(readBlock),
    ...(streaming ? { streaming: readStreaming(streaming) } : {}),
  });
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
    block = /** @type {Block} */ ({ ...wire, created_at: new Date(wire.created_at) });
    readBlocks.set(wire, block);
  }
  return block;
}
