/** Turns as the hooks return them: times are dates, and missing values are left out. */

/** @import { TurnStatus, WireBlock, WireTurn } from "../../core/turn-state.js" */

/**
 * @typedef {Omit<WireBlock, "created_at"> & {created_at: Date}} Block
 *
 * @typedef {object} Turn
 * @property {string} id
 * @property {string} project_id
 * @property {string} session_id
 * @property {number} number
 * @property {string} [prompt]
 * @property {TurnStatus} status
 * @property {Block[]} blocks
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
  };
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
