import { bytesToHeight, heightToBytes } from "./keys.ts";
import { damaged } from "./sealed.ts";
import type { Tables } from "./tables.ts";
import { decodeRoot, encodeRoot, readNode, rootHash, type TrieChild } from "./trie.ts";

const NEWEST = Buffer.from("newest");
const EARLIEST = Buffer.from("earliest");
const ROOT = Buffer.from("root");
const RESTORED = Buffer.from("restored");

/** Where a store stands: its heights, and the trie of the newest state. */
export interface StorePosition {
  readonly newest: bigint;
  readonly earliest: bigint;
  readonly root: TrieChild | undefined;
}

/** Heights whose states a store has. */
export type StoreHeights = Pick<StorePosition, "newest" | "earliest">;

/** The heights of a store; undefined before its first block. */
export function readHeights({ meta }: Tables): StoreHeights | undefined {
  const [newest, earliest] = [meta.get(NEWEST), meta.get(EARLIEST)];
  if (newest?.length !== 8 || earliest?.length !== 8) return undefined;
  return { newest: bytesToHeight(newest), earliest: bytesToHeight(earliest) };
}

/** Where a store stands; undefined before its first block. @throws AppError CHAIN_STORE_DAMAGED */
export function readPosition({ meta, hashes, nodes }: Tables): StorePosition | undefined {
  const [newest, earliest, root] = [meta.get(NEWEST), meta.get(EARLIEST), meta.get(ROOT)];
  if (newest === undefined && earliest === undefined && root === undefined) return undefined;
  if (newest?.length !== 8 || earliest?.length !== 8 || root === undefined) throw damaged("the newest height");
  const decoded = decodeRoot(root);
  if (hashes.get(newest)?.equals(rootHash(decoded)) !== true) throw damaged("the newest app hash");
  if (decoded?.kind === "branch") readNode((key) => nodes.get(key), Buffer.of(0), decoded.hash);
  return { newest: bytesToHeight(newest), earliest: bytesToHeight(earliest), root: decoded };
}

/** Within a transaction: the store stands here, with this app hash. */
export function writePosition({ meta, hashes }: Tables, { newest, earliest, root }: StorePosition): void {
  const height = heightToBytes(newest);
  hashes.put(height, rootHash(root));
  meta.put(NEWEST, height);
  meta.put(EARLIEST, heightToBytes(earliest));
  meta.put(ROOT, encodeRoot(root));
}

/** Within a transaction: older states are not read any more. */
export function writeEarliest({ meta }: Tables, earliestHeightBlocks: bigint): void {
  meta.put(EARLIEST, heightToBytes(earliestHeightBlocks));
}

/** Within a transaction: the newest state is none that blocks made here. */
export function writeRestored({ meta }: Tables, heightBlocks: bigint): void {
  meta.put(RESTORED, heightToBytes(heightBlocks));
}

/** Whether a store has a restored state, and no block since. */
export function isRestored({ meta }: Tables, { newest, earliest }: StorePosition): boolean {
  return newest === earliest && meta.get(RESTORED)?.equals(heightToBytes(newest)) === true;
}

/** Within a transaction: the store stands nowhere. What is in its other tables is then left over. */
export function clearPosition({ meta }: Tables): void {
  for (const key of [NEWEST, EARLIEST, ROOT, RESTORED]) meta.remove(key);
}
