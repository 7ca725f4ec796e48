import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { type BlockRecord, type Bytes, type ChainStore, MAX_VALUE_BYTES } from "@turnpike/chain-store";
import { damagedRecord } from "./record-errors.ts";
import { placeBytes, readPlace, TABLES, type TxPlace } from "./tx-places.ts";

/** A transaction and its result, as they are stored. */
export interface StoredPair {
  readonly bytes: Bytes;
  readonly result: Bytes;
}

/** Reads of a store that transactions are found by. */
export type PairReads = Pick<ChainStore, "record" | "records">;

/**
 * A group ends with the transaction that reaches this many bytes. LMDB gives long values pages of their own, which are
 * full but for the last; short ones would leave nearly half of their pages empty. Transactions and their results name the
 * same addresses, too, and compress to a third; longer groups would make one transaction slower to read.
 */
const GROUP_BYTES = 16_384;
/** What is shorter is not compressed: its page is not full either way. */
const LEAST_COMPRESSED_BYTES = 1_024;
/** First byte of a group: as it is, or compressed (zstd). */
const PLAIN = 0;
const COMPRESSED = 1;
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
const LENGTH_BYTES = 4;
const WHAT = "a block's transactions";

function encodeGroup(pairs: readonly StoredPair[]): Buffer {
  const lengths = Buffer.alloc(LENGTH_BYTES * (1 + 2 * pairs.length));
  lengths.writeUInt32BE(pairs.length);
  for (const [i, { bytes, result }] of pairs.entries()) {
    lengths.writeUInt32BE(bytes.length, LENGTH_BYTES * (1 + 2 * i));
    lengths.writeUInt32BE(result.length, LENGTH_BYTES * (2 + 2 * i));
  }
  const group = Buffer.concat([lengths, ...pairs.flatMap(({ bytes, result }) => [bytes, result])]);
  const compressed = group.length < LEAST_COMPRESSED_BYTES ? group : zstdCompressSync(group, LEVEL);
  if (compressed.length >= group.length) return Buffer.concat([Buffer.of(PLAIN), group]);
  return Buffer.concat([Buffer.of(COMPRESSED), compressed]);
}

function plainGroup(value: Bytes): Buffer {
  const inner = Buffer.from(value.buffer, value.byteOffset, value.byteLength).subarray(1);
  if (value[0] === PLAIN) return inner;
  if (value[0] !== COMPRESSED) throw damagedRecord(WHAT);
  try {
    return zstdDecompressSync(inner, { maxOutputLength: MAX_VALUE_BYTES });
  } catch {
    throw damagedRecord(WHAT);
  }
}

// The pairs are views of the group: a caller that keeps one copies it.
function decodeGroup(value: Bytes): StoredPair[] {
  const group = plainGroup(value);
  const count = group.length < LENGTH_BYTES ? 0 : group.readUInt32BE();
  let at = LENGTH_BYTES * (1 + 2 * count);
  if (count === 0 || at > group.length) throw damagedRecord(WHAT);
  const pairs: StoredPair[] = [];
  for (let i = 0; i < count; i++) {
    const middle = at + group.readUInt32BE(LENGTH_BYTES * (1 + 2 * i));
    const end = middle + group.readUInt32BE(LENGTH_BYTES * (2 + 2 * i));
    if (end > group.length) throw damagedRecord(WHAT);
    pairs.push({ bytes: group.subarray(at, middle), result: group.subarray(middle, end) });
    at = end;
  }
  if (at !== group.length) throw damagedRecord(WHAT);
  return pairs;
}

/** The records of a block's transactions and their results. */
export function groupRecords(heightBlocks: bigint, pairs: readonly StoredPair[]): BlockRecord[] {
  const records: BlockRecord[] = [];
  let from = 0;
  let size = 0;
  for (const [i, { bytes, result }] of pairs.entries()) {
    size += bytes.length + result.length;
    if (size < GROUP_BYTES && i + 1 < pairs.length) continue;
    const key = placeBytes({ heightBlocks, index: from });
    records.push({ table: TABLES.txGroups, key, value: encodeGroup(pairs.slice(from, i + 1)) });
    from = i + 1;
    size = 0;
  }
  return records;
}

// Earlier versions kept two records of each transaction.
function singlePairs(store: PairReads, prefix: Bytes): StoredPair[] {
  const [txs, results] = [TABLES.txs, TABLES.txResults].map((table) => [...store.records(table, { prefix })]);
  if (txs === undefined || txs.length !== results?.length) throw damagedRecord(WHAT);
  return txs.map(([, bytes], i) => ({ bytes, result: results[i]?.[1] ?? new Uint8Array(0) }));
}

/**
 * All transactions of a block, in its order.
 * @param count how many it has
 * @throws AppError CHAIN_STORE_DAMAGED when they are not all there
 */
export function pairsOfBlock(store: PairReads, heightBlocks: bigint, count: number): StoredPair[] {
  const prefix = placeBytes({ heightBlocks, index: 0 }).subarray(0, -LENGTH_BYTES);
  let pairs: StoredPair[] = [];
  for (const [key, value] of store.records(TABLES.txGroups, { prefix })) {
    if (readPlace(key).index !== pairs.length) throw damagedRecord(WHAT);
    for (const pair of decodeGroup(value)) pairs.push(pair);
  }
  if (pairs.length === 0 && count > 0) pairs = singlePairs(store, prefix);
  if (pairs.length !== count) throw damagedRecord(WHAT);
  return pairs;
}

/** The transaction at a place; undefined when none is there. @throws AppError CHAIN_STORE_DAMAGED */
export function pairAt(store: PairReads, { heightBlocks, index }: TxPlace): StoredPair | undefined {
  const prefix = placeBytes({ heightBlocks, index: 0 }).subarray(0, -LENGTH_BYTES);
  const to = placeBytes({ heightBlocks, index: index + 1 });
  for (const [key, value] of store.records(TABLES.txGroups, { prefix, to, reverse: true })) {
    return decodeGroup(value)[index - readPlace(key).index];
  }
  const place = placeBytes({ heightBlocks, index });
  const [bytes, result] = [store.record(TABLES.txs, place), store.record(TABLES.txResults, place)];
  return bytes === undefined || result === undefined ? undefined : { bytes, result };
}
