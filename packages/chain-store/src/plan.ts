import { AppError } from "@turnpike/base";
import { MAX_KEY_BYTES } from "./keys.ts";
import type { Tables } from "./tables.ts";
import { type LeafChange, leafHash, pathOf, rootHash, type TrieChild, type TrieUpdate, updateTrie } from "./trie.ts";
import type { BlockChanges, Bytes, StateChange } from "./types.ts";

/** Longest value of the state or of a record. */
export const MAX_VALUE_BYTES = 268_435_456;

const TABLE = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** A change that changes something: the value before and after. */
export interface RealChange {
  readonly key: Bytes;
  readonly before: Buffer | undefined;
  readonly after: Bytes | undefined;
}

/** All that a block does to the state, worked out without writing. */
export interface BlockPlan {
  readonly heightBlocks: bigint;
  /** In the order of the keys. */
  readonly changes: readonly RealChange[];
  readonly trie: TrieUpdate;
  readonly appHash: Buffer;
}

/** A block or a state that cannot be written, and why. */
export function refusedBlock(why: string): AppError {
  return new AppError("CHAIN_STORE", { message: `The block cannot be written: ${why}.` });
}

/** Key of a record within the table of all records. */
export function recordKey(table: string, key: Bytes): Buffer {
  if (!TABLE.test(table)) throw refusedBlock(`"${table}" is no name of a table`);
  return Buffer.concat([Buffer.from(table), Buffer.alloc(1), key]);
}

/** @throws AppError CHAIN_STORE when a key or a value has another size than is possible. */
export function checkSizes(key: Bytes, value: Bytes | undefined): void {
  if (key.length === 0 || key.length > MAX_KEY_BYTES) {
    throw refusedBlock(`a key has ${key.length} bytes; 1 to ${MAX_KEY_BYTES} are possible`);
  }
  if (value !== undefined && value.length > MAX_VALUE_BYTES) {
    throw refusedBlock(`a value has ${value.length} bytes; at most ${MAX_VALUE_BYTES} are possible`);
  }
}

function inOrder(changes: readonly StateChange[]): readonly StateChange[] {
  const sorted = changes.toSorted(([a], [b]) => Buffer.compare(a, b));
  for (const [n, [key, value]] of sorted.entries()) {
    checkSizes(key, value);
    const next = sorted[n + 1];
    if (next !== undefined && Buffer.compare(key, next[0]) === 0) throw refusedBlock("a key is changed twice");
  }
  return sorted;
}

/** @throws AppError CHAIN_STORE when a record of a block is malformed. */
export function checkRecords(block: Pick<BlockChanges, "records">): void {
  for (const record of block.records) {
    checkSizes(record.key, record.value);
    recordKey(record.table, record.key);
  }
}

/** Computes what a block does to the newest state. @throws AppError CHAIN_STORE when it is malformed. */
export function planBlock(tables: Tables, root: TrieChild | undefined, block: BlockChanges): BlockPlan {
  const changes: RealChange[] = [];
  const leaves: LeafChange[] = [];
  for (const [key, after] of inOrder(block.changes)) {
    const before = tables.latest.get(key);
    if (after === undefined ? before === undefined : before?.equals(after) === true) continue;
    changes.push({ key, before, after });
    const path = pathOf(key);
    leaves.push({ path, hash: after === undefined ? undefined : leafHash(path, after) });
  }
  const trie = updateTrie(root, leaves, (key) => tables.nodes.get(key));
  return { heightBlocks: block.heightBlocks, changes, trie, appHash: rootHash(trie.root) };
}
