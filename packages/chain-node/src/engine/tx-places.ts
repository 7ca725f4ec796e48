import { type Bytes, bytesToHeight } from "@turnpike/chain-store";
import { damagedRecord } from "./record-errors.ts";

/** Tables of the engine's records. */
export const TABLES = {
  /** By height: the block without its transactions. */
  blocks: "blocks",
  /** By height: id and size. */
  ids: "block-ids",
  /** By a block's hash: its height. */
  hashes: "block-hashes",
  /** By height and the index of the first: transactions, each with its result. */
  txGroups: "block-tx-groups",
  /** By height and index: a transaction's bytes. Only of blocks of earlier versions. */
  txs: "block-txs",
  /** By height and index: a transaction's result. Only of blocks of earlier versions. */
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

/** Where a transaction stands. */
export interface TxPlace {
  readonly heightBlocks: bigint;
  readonly index: number;
}

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
