import { type BlockRecord, type Bytes, heightToBytes } from "@turnpike/chain-store";
import { type BlockId, type Commit, encodeBlock, encodeCommit, txHash, type ValidatorSet } from "@turnpike/cometbft";
import type { BlockResults, StoredBlock } from "../types.ts";
import { damagedRecord } from "./record-errors.ts";
import { decodeTxResult, encodeOutline, encodeTxResult } from "./result-codec.ts";
import { encodeValidatorSet } from "./set-codec.ts";
import { groupRecords, type PairReads, pairAt, type StoredPair } from "./tx-groups.ts";
import { placeBytes, readPlace, TABLES } from "./tx-places.ts";

/** Key of the only record of {@link TABLES.commit}. */
export const COMMIT_KEY: Bytes = Buffer.from("newest");

const MARK_BYTES = 76;

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
function validatorsRecord(heightBlocks: bigint, set: ValidatorSet): BlockRecord {
  return { table: TABLES.validators, key: heightToBytes(heightBlocks), value: encodeValidatorSet(set) };
}

// As in CometBFT's index: a transaction that failed later does not hide the one that succeeded.
function hidesSuccess(store: PairReads, hash: Bytes, code: number): boolean {
  if (code === 0) return false;
  const place = store.record(TABLES.places, hash);
  const pair = place === undefined ? undefined : pairAt(store, readPlace(place));
  return pair !== undefined && decodeTxResult(pair.result).code === 0;
}

/** All records of a block. */
export function blockRecords(store: PairReads, written: WrittenBlock): BlockRecord[] {
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
  const pairs: StoredPair[] = [];
  for (const [index, bytes] of block.txs.entries()) {
    const result = results.txResults[index];
    if (result === undefined) throw damagedRecord("a block's results");
    const place = placeBytes({ heightBlocks, index });
    const hash = txHash(bytes);
    pairs.push({ bytes, result: encodeTxResult(result) });
    if (!hidesSuccess(store, hash, result.code)) records.push({ table: TABLES.places, key: hash, value: place });
  }
  return records.concat(groupRecords(heightBlocks, pairs));
}
