import { AppError } from "@turnpike/base";
import type { BlockInfo } from "../state/context.ts";
import { heightToBytes } from "../store/keys.ts";
import type { BlockRecord, ChainStore } from "../types.ts";

const TABLE = "app-blocks";
const HEAD_BYTES = 9;

/** The record of what queries at a height need to know of its block: time, hash and proposer. */
export function writeBlockInfo({ heightBlocks, timeNanos, hash, proposer }: BlockInfo): BlockRecord {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeBigInt64BE(timeNanos);
  head.writeUInt8(hash.length, 8);
  return { table: TABLE, key: heightToBytes(heightBlocks), value: Buffer.concat([head, hash, proposer]) };
}

/** Reads {@link writeBlockInfo}. @throws AppError CHAIN_STORE_DAMAGED when there is none */
export function readBlockInfo(store: Pick<ChainStore, "record">, chainId: string, heightBlocks: bigint): BlockInfo {
  const value = store.record(TABLE, heightToBytes(heightBlocks));
  if (value === undefined || value.length < HEAD_BYTES) {
    throw new AppError("CHAIN_STORE_DAMAGED", { message: `The record of block ${heightBlocks} is missing.` });
  }
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const end = HEAD_BYTES + bytes.readUInt8(8);
  return {
    chainId,
    heightBlocks,
    timeNanos: bytes.readBigInt64BE(),
    hash: Uint8Array.from(bytes.subarray(HEAD_BYTES, end)),
    proposer: Uint8Array.from(bytes.subarray(end)),
  };
}
