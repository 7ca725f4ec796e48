/** Bytes that are a key (1 to 512 of them) or a value of the state. */
export type Bytes = Uint8Array;

/** Reads the state as it was after one block. Keys are ordered by their bytes. */
export interface StateReader {
  /** Block after which this is the state; 0 is the genesis. */
  readonly heightBlocks: bigint;
  /** Undefined: there is none. The bytes are the store's own: never change them. */
  get(key: Bytes): Bytes | undefined;
  /**
   * Entries whose keys begin with the prefix, in order. May be read slowly, and while blocks are committed.
   * @throws AppError HEIGHT_UNAVAILABLE while it is read, when its height was pruned meanwhile.
   */
  range(options: RangeOptions): Iterable<readonly [key: Bytes, value: Bytes]>;
  /**
   * What a derivation makes of the entries whose keys begin with the prefix. A state that has this keeps it in memory while
   * none of them changes; what it gives is the same as made anew.
   */
  derived?<T>(derivation: Derivation<T>, prefix: Bytes): T;
}

/** Something that follows from entries of the state alone. Kept by the object's identity: make one of a kind. */
export interface Derivation<T> {
  /** Gives what is never changed afterwards, but for what is cheaper to work out once. */
  make(entries: Iterable<readonly [key: Bytes, value: Bytes]>): T;
  /**
   * Gives what {@link make} makes of the entries after these changes, each key once, from what it made of those before. Costs less
   * than making it anew; the value before stays as it is. Left out: it is made anew.
   */
  update?(value: T, changes: readonly StateChange[]): T;
}

/** What {@link StateReader.range} gives. */
export interface RangeOptions {
  readonly prefix: Bytes;
  /** First key, the prefix included; by default the prefix itself. */
  readonly from?: Bytes;
  /** Key that is no longer given, the prefix included. */
  readonly to?: Bytes;
  readonly reverse?: boolean;
}

/** One change of the state; undefined deletes. */
export type StateChange = readonly [key: Bytes, value: Bytes | undefined];

/** What one block changed, each key once, in any order. Never changed after it was given to a store. */
export interface BlockChanges {
  readonly heightBlocks: bigint;
  readonly changes: readonly StateChange[];
  /** Further records of the block (header, results, commit, indexes), by table; stored in the same transaction, not part of the app hash. */
  readonly records: readonly BlockRecord[];
}

/** A record beside the state: blocks, results, transactions by hash, indexes. A later one of the same key replaces it. */
export interface BlockRecord {
  /** Lower-case letters, digits, `.`, `_` and `-`; at most 64. */
  readonly table: string;
  readonly key: Bytes;
  readonly value: Bytes;
}

/**
 * Where the chain is kept: every value at every height, and what belongs to the blocks. A block is written whole or not
 * at all, and is durable when {@link commit} resolves.
 */
export interface ChainStore extends AsyncDisposable {
  /** Newest committed block; undefined before the genesis was written. */
  latestHeightBlocks(): bigint | undefined;
  /** Oldest height that can be read: that of the first block, or what pruning left. */
  earliestHeightBlocks(): bigint;
  /** The state after a block. @throws AppError HEIGHT_UNAVAILABLE when it is ahead or was pruned. */
  at(heightBlocks: bigint): StateReader;
  /**
   * App hash after these changes on top of the newest block, without writing: what a proposal is checked by, and what the
   * next header says.
   */
  appHashOf(block: BlockChanges): Bytes;
  /** App hash after a committed block. */
  appHash(heightBlocks: bigint): Bytes | undefined;
  /**
   * Writes the next block and gives its app hash. The first may have any height; then they follow each other without a
   * gap. When it rejects, nothing was written.
   * @throws AppError CHAIN_STORE, CHAIN_STORE_FULL, CHAIN_STORE_DAMAGED.
   */
  commit(block: BlockChanges): Promise<Bytes>;
  /**
   * Begins to write a state as a whole, instead of the blocks that lead to it. Only an empty store takes one, or one that
   * has another restored state and no block since, which is discarded. Until it is finished the store is empty.
   * @throws AppError CHAIN_STORE when there are blocks, or another restore is under way.
   */
  restore(heightBlocks: bigint): Promise<StateRestore>;
  /**
   * Writes records beside the blocks, in a transaction of their own: what may be missing after a crash, and is made again.
   * @throws AppError as {@link commit}
   */
  writeRecords(records: readonly BlockRecord[]): Promise<void>;
  /** A record as the newest block left it; records have no history. */
  record(table: string, key: Bytes): Bytes | undefined;
  /** Records of a table in the order of their keys. */
  records(table: string, options: RangeOptions): Iterable<readonly [key: Bytes, value: Bytes]>;
  /** Prunes states before a height (not their blocks), in small steps between which blocks may be committed; what is read at later heights stays. Broken off, the next call goes on. */
  prune(beforeHeightBlocks: bigint, signal?: AbortSignal): Promise<void>;
}

/** A state that is being written. Disposed of before it is finished, the store is empty again; so it is after a crash. */
export interface StateRestore extends AsyncDisposable {
  readonly heightBlocks: bigint;
  /**
   * Further entries, each call in a transaction of its own: of some megabytes, then.
   * @throws AppError CHAIN_STORE when a key does not follow the one before, or a size is not possible; those of a commit.
   */
  add(entries: readonly (readonly [key: Bytes, value: Bytes])[]): Promise<void>;
  /**
   * Makes the state that of the store, as its newest and earliest one, with records. False when its app hash is another
   * one: then nothing was written.
   */
  finish(expectedAppHash: Bytes, records: readonly BlockRecord[]): Promise<boolean>;
}
