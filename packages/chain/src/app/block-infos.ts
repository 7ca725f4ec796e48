import { AppError, isAppError, utf8ToBytes } from "@turnpike/base";
import type { ChainStore, StateChange, StateReader } from "@turnpike/chain-store";
import type { BlockInfo } from "../state/context.ts";
import type { BlockMoment } from "./block-meter.ts";

/** Key of the state. Modules' keys have a slash behind the module's name, so that none of them meets it, nor a store query. */
const KEY = utf8ToBytes("block");
const HEAD_BYTES = 9;

/**
 * What queries at a height need to know of its block: time, hash and proposer. Part of the state, so that the app hash
 * covers it: a node that a snapshot brought up need not trust a peer for it.
 */
export function blockInfoChange({ timeNanos, hash, proposer }: BlockInfo): StateChange {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeBigInt64BE(timeNanos);
  head.writeUInt8(hash.length, 8);
  return [KEY, Buffer.concat([head, hash, proposer])];
}

/** Reads {@link blockInfoChange} of a state. @throws AppError CHAIN_STORE_DAMAGED when there is none */
export function readBlockInfo(reader: Pick<StateReader, "get" | "heightBlocks">, chainId: string): BlockInfo {
  const { heightBlocks } = reader;
  const value = reader.get(KEY);
  if (value === undefined || value.length < HEAD_BYTES) {
    throw new AppError("CHAIN_STORE_DAMAGED", { message: `The state after block ${heightBlocks} does not name it.` });
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

/** Blocks before the newest one whose states are kept, the newest of them last; at most so many. */
export function readPastBlocks(store: ChainStore, count: number): readonly BlockMoment[] {
  const newest = store.latestHeightBlocks();
  if (newest === undefined) return [];
  const earliest = store.earliestHeightBlocks();
  const wanted = newest - BigInt(count);
  const found: BlockMoment[] = [];
  try {
    for (let height = wanted < earliest ? earliest : wanted; height < newest; height++) {
      found.push(readBlockInfo(store.at(height), ""));
    }
  } catch (cause) {
    // An old state that cannot be read is reported by the query that asks for it.
    if (!isAppError(cause)) throw cause;
  }
  return found;
}
