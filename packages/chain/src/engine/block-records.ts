import { txHash } from "../comet/hashes.ts";
import { encodeBlock, encodeCommit } from "../comet/messages.ts";
import type { BlockId, Commit, ValidatorSet } from "../comet/types.ts";
import type { BlockResults, StoredBlock } from "../node/types.ts";
import { bytesToHeight, heightToBytes } from "../store/keys.ts";
import type { BlockRecord, Bytes, ChainStore } from "../types.ts";
import { damagedRecord } from "./record-errors.ts";
import { decodeTxResult, encodeOutline, encodeTxResult } from "./result-codec.ts";
import { encodeValidatorSet } from "./set-codec.ts";

/** Tables of the engine's records. */
export const TABLES = {
  /** By height: the block without its transactions. */
  blocks: "blocks",
  /** By height: id and size. */
  ids: "block-ids",
  /** By a block's hash: its height. */
  hashes: "block-hashes",
  /** By height and index: a transaction's bytes. */
  txs: "block-txs",
  /** By height and index: a transaction's result. */
  txResults: "block-tx-results",
  /** By height: what became of the block, without the transactions' results. */
  results: "block-results",
  /** By a transaction's hash: height and index. */
  places: "tx-places",
  /** By height: who signs the block. */
  validators: "validators",
  /** One record: the commit for the newest block. */
  commit: "seen-commit",
} as const;

/** Key of the only record of {@link TABLES.commit}. */
export const COMMIT_KEY: Bytes = Buffer.from("newest");

/** Where a transaction stands. */
export interface TxPlace {
  readonly heightBlocks: bigint;
  readonly index: number;
}

const MARK_BYTES = 76;

/** Key of a transaction's records, and value of its place. */
export function placeBytes({ heightBlocks, index }: TxPlace): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeBigUInt64BE(heightBlocks);
  bytes.writeUInt32BE(index, 8);
  return bytes;
}

/** Reads {@link placeBytes}. */
export function readPlace(bytes: Bytes): TxPlace {
  if (bytes.length !== 12) throw damagedRecord("a transaction's place");
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { heightBlocks: bytesToHeight(view), index: view.readUInt32BE(8) };
}

function idBytes({ hash, parts }: BlockId, sizeBytes: number, numTxs: number): Buffer {
  const numbers = Buffer.alloc(12);
  numbers.writeUInt32BE(parts.total);
  numbers.writeUInt32BE(sizeBytes, 4);
  numbers.writeUInt32BE(numTxs, 8);
  return Buffer.concat([hash, parts.hash, numbers]);
}

/** Id and size of a block, and how many transactions it has. */
export interface BlockMark {
  readonly id: BlockId;
  readonly sizeBytes: number;
  readonly numTxs: number;
}

/** Reads what {@link blockRecords} writes of a block's id. @throws AppError CHAIN_STORE_DAMAGED */
export function readMark(value: Bytes): BlockMark {
  if (value.length !== MARK_BYTES) throw damagedRecord("a block's id");
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return {
    id: {
      hash: Uint8Array.from(bytes.subarray(0, 32)),
      parts: { hash: Uint8Array.from(bytes.subarray(32, 64)), total: bytes.readUInt32BE(64) },
    },
    sizeBytes: bytes.readUInt32BE(68),
    numTxs: bytes.readUInt32BE(72),
  };
}

/** What the engine writes of one block, beside the state. */
export interface WrittenBlock {
  readonly stored: StoredBlock;
  readonly results: BlockResults;
  readonly commit: Commit;
  /** Sets that became known with it, by the height that they sign. */
  readonly validators: ReadonlyMap<bigint, ValidatorSet>;
}

/** The record of a validator set. */
export function validatorsRecord(heightBlocks: bigint, set: ValidatorSet): BlockRecord {
  return { table: TABLES.validators, key: heightToBytes(heightBlocks), value: encodeValidatorSet(set) };
}

// As CometBFT's index has it: a transaction that failed later does not hide the one that succeeded.
function hidesSuccess(store: Pick<ChainStore, "record">, hash: Bytes, code: number): boolean {
  if (code === 0) return false;
  const place = store.record(TABLES.places, hash);
  const result = place === undefined ? undefined : store.record(TABLES.txResults, place);
  return result !== undefined && decodeTxResult(result).code === 0;
}

/** All records of a block. */
export function blockRecords(store: Pick<ChainStore, "record">, written: WrittenBlock): BlockRecord[] {
  const { stored, results, commit, validators } = written;
  const { block, id, sizeBytes } = stored;
  const heightBlocks = block.header.height;
  const key = heightToBytes(heightBlocks);
  const records: BlockRecord[] = [
    { table: TABLES.blocks, key, value: encodeBlock({ ...block, txs: [] }) },
    { table: TABLES.ids, key, value: idBytes(id, sizeBytes, block.txs.length) },
    { table: TABLES.hashes, key: id.hash, value: key },
    { table: TABLES.results, key, value: encodeOutline(results) },
    { table: TABLES.commit, key: COMMIT_KEY, value: encodeCommit(commit) },
  ];
  for (const [height, set] of validators) records.push(validatorsRecord(height, set));
  for (const [index, bytes] of block.txs.entries()) {
    const result = results.txResults[index];
    if (result === undefined) throw damagedRecord("a block's results");
    const place = placeBytes({ heightBlocks, index });
    const hash = txHash(bytes);
    records.push({ table: TABLES.txs, key: place, value: bytes });
    records.push({ table: TABLES.txResults, key: place, value: encodeTxResult(result) });
    if (!hidesSuccess(store, hash, result.code)) records.push({ table: TABLES.places, key: hash, value: place });
  }
  return records;
}
