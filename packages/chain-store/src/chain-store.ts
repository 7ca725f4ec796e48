import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, type FaultPoints, type Log, noFaults } from "@turnpike/base";
import { KeptDerivations } from "./derivations.ts";
import { heightToBytes, MAX_KEY_BYTES } from "./keys.ts";
import { clearLeftovers, hasLeftovers } from "./leftovers.ts";
import { type BlockPlan, checkRecords, planBlock, recordKey } from "./plan.ts";
import {
  clearPosition,
  isRestored,
  readPosition,
  type StorePosition,
  writeEarliest,
  writePosition,
} from "./position.ts";
import { inBatches, StoreReader } from "./state-reader.ts";
import { type RestoreHost, StoreRestore } from "./state-restore.ts";
import { refusedStore, storeError } from "./store-errors.ts";
import type { OpenFolder } from "./store-folder.ts";
import type { Tables } from "./tables.ts";
import { EMPTY_HASH } from "./trie.ts";
import type { BlockChanges, BlockRecord, Bytes, ChainStore, RangeOptions, StateReader, StateRestore } from "./types.ts";
import { checkState } from "./verify.ts";
import { pruneStep, writePlan } from "./write-plan.ts";

/** Derivations that stay in memory; one of a service with 5,000 suppliers takes about 1 MB. */
const MAX_DERIVATIONS = 64;

export interface KeptChainOptions {
  readonly folder: string;
}

export interface KeptChainModules {
  readonly file: OpenFolder;
  readonly log: Log;
  readonly faults?: FaultPoints;
}

/** The {@link ChainStore} on LMDB. What stands in its file, and why so, is in docs/decisions/0007-chain-store.md. */
export class LmdbChainStore implements ChainStore {
  readonly #folder: string;
  readonly #file: OpenFolder;
  readonly #tables: Tables;
  readonly #log: Log;
  readonly #faults: FaultPoints;
  readonly #host: ConstructorParameters<typeof StoreReader>[1];
  readonly #derivations = new KeptDerivations({ maxKept: MAX_DERIVATIONS });
  #at: StorePosition | undefined;
  #restore: StoreRestore | undefined;
  #planned: { readonly block: BlockChanges; readonly plan: BlockPlan } | undefined;
  #writing: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(opts: KeptChainOptions, modules: KeptChainModules) {
    this.#folder = opts.folder;
    this.#file = modules.file;
    this.#tables = modules.file.tables;
    this.#log = modules.log;
    this.#faults = modules.faults ?? noFaults;
    this.#at = readPosition(this.#tables);
    this.#host = {
      tables: this.#tables,
      derivations: this.#derivations,
      check: (heightBlocks) => this.#checkHeight(heightBlocks),
      isNewest: (heightBlocks) => this.#at?.newest === heightBlocks,
    };
  }

  latestHeightBlocks(): bigint | undefined {
    return this.#at?.newest;
  }

  earliestHeightBlocks(): bigint {
    return this.#at?.earliest ?? 0n;
  }

  at(heightBlocks: bigint): StateReader {
    this.#checkHeight(heightBlocks);
    return new StoreReader({ heightBlocks }, this.#host);
  }

  appHashOf(block: BlockChanges): Bytes {
    this.#checkOpen();
    return this.#plan(block).appHash;
  }

  appHash(heightBlocks: bigint): Bytes | undefined {
    this.#checkOpen();
    return heightBlocks < 0n ? undefined : this.#tables.hashes.get(heightToBytes(heightBlocks));
  }

  commit(block: BlockChanges): Promise<Bytes> {
    return this.#inTurn(async () => {
      await this.#faults.reach("chain-store.commit");
      this.#checkOpen();
      const plan = this.#plan(block);
      checkRecords(block);
      await this.#faults.reach("chain-store.planned");
      this.#checkOpen();
      const earliest = this.#at?.earliest ?? block.heightBlocks;
      const next: StorePosition = { newest: block.heightBlocks, earliest, root: plan.trie.root };
      this.#write(() => {
        writePlan(this.#tables, plan, this.#at !== undefined);
        void this.#faults.reach("chain-store.write-state");
        for (const { table, key, value } of block.records) this.#tables.records.put(recordKey(table, key), value);
        void this.#faults.reach("chain-store.write-records");
        writePosition(this.#tables, next);
      });
      await this.#faults.reach("chain-store.written");
      this.#at = next;
      const keys = plan.changes.map(({ key }) => key);
      this.#derivations.committed(block.heightBlocks, keys);
      this.#planned = undefined;
      return plan.appHash;
    });
  }

  writeRecords(records: readonly BlockRecord[]): Promise<void> {
    return this.#inTurn(async () => {
      this.#checkOpen();
      checkRecords({ records });
      this.#write(() => {
        for (const { table, key, value } of records) this.#tables.records.put(recordKey(table, key), value);
      });
    });
  }

  record(table: string, key: Bytes): Bytes | undefined {
    this.#checkOpen();
    return key.length > MAX_KEY_BYTES ? undefined : this.#tables.records.get(recordKey(table, key));
  }

  records(table: string, options: RangeOptions): Iterable<readonly [key: Bytes, value: Bytes]> {
    const inTable = recordKey(table, Buffer.alloc(0));
    const bounds = {
      prefix: recordKey(table, options.prefix),
      ...(options.from === undefined ? {} : { from: recordKey(table, options.from) }),
      ...(options.to === undefined ? {} : { to: recordKey(table, options.to) }),
      reverse: options.reverse ?? false,
    };
    const read = (): Generator<readonly [Buffer, Buffer], undefined> =>
      inBatches(bounds, (range, reverse) => {
        this.#checkOpen();
        return this.#tables.records.entries({ ...range, reverse });
      });
    return {
      *[Symbol.iterator]() {
        for (const [key, value] of read()) yield [key.subarray(inTable.length), value] as const;
      },
    };
  }

  async prune(beforeHeightBlocks: bigint, signal?: AbortSignal): Promise<void> {
    await this.#inTurn(async () => {
      this.#checkOpen();
      signal?.throwIfAborted();
      const at = this.#at;
      if (at === undefined || beforeHeightBlocks > at.newest) throw this.#unavailable(beforeHeightBlocks);
      if (beforeHeightBlocks <= at.earliest) return;
      // Said first: half pruned, a state must not be read.
      this.#write(() => writeEarliest(this.#tables, beforeHeightBlocks));
      this.#at = { ...at, earliest: beforeHeightBlocks };
      await this.#faults.reach("chain-store.prune");
    });
    let prunedEntries = 0;
    for (;;) {
      const some = await this.#inTurn(async () => {
        this.#checkOpen();
        return pruneStep(this.#tables, this.earliestHeightBlocks(), (action) => this.#write(action));
      });
      if (some === 0) break;
      prunedEntries += some;
      await this.#faults.reach("chain-store.pruned-some");
      await nextTurn();
      signal?.throwIfAborted();
    }
    this.#log.debug({ beforeHeightBlocks: beforeHeightBlocks.toString(), prunedEntries }, "chain states pruned");
  }

  restore(heightBlocks: bigint): Promise<StateRestore> {
    return this.#inTurn(async () => {
      this.#checkOpen();
      const at = this.#at;
      if (heightBlocks < 0n) throw refusedStore(this.#folder, `there is no block ${heightBlocks}`);
      if (this.#restore?.isOver === false) throw refusedStore(this.#folder, "another state is being restored");
      if (at !== undefined && !isRestored(this.#tables, at)) {
        throw refusedStore(
          this.#folder,
          `it has blocks up to ${at.newest}, and states are restored into empty ones only`,
        );
      }
      this.#write(() => clearPosition(this.#tables));
      this.#at = undefined;
      this.#planned = undefined;
      this.#derivations.clear();
      await this.#clear();
      this.#checkOpen();
      this.#restore = new StoreRestore({ heightBlocks }, this.#restoreHost());
      return this.#restore;
    });
  }

  /** Removes what a crash left of a restore. Once, when the store was opened. */
  async clearLeftovers(): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#at === undefined) await this.#clear();
    });
  }

  /**
   * Reads the newest state whole and compares it with its app hash.
   * @throws AppError CHAIN_STORE_DAMAGED when they differ.
   */
  async verify(signal?: AbortSignal): Promise<void> {
    await this.#inTurn(async () => {
      this.#checkOpen();
      await checkState(this.#tables, this.#at?.root, () => {
        this.#checkOpen();
        signal?.throwIfAborted();
      });
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#writing.then(async () => {
      this.#planned = undefined;
      await this.#file[Symbol.asyncDispose]();
    });
    return this.#closing;
  }

  #plan(block: BlockChanges): BlockPlan {
    const newest = this.#at?.newest;
    if (newest !== undefined && block.heightBlocks !== newest + 1n) {
      throw refusedStore(this.#folder, `block ${block.heightBlocks} does not follow ${newest}`);
    }
    if (block.heightBlocks < 0n) throw refusedStore(this.#folder, `there is no block ${block.heightBlocks}`);
    if (this.#restore !== undefined) throw refusedStore(this.#folder, "a state is being restored into it");
    // Only the changes are planned: an engine adds the records after it has asked for the app hash.
    const planned = this.#planned;
    if (planned?.block.changes === block.changes && planned.plan.heightBlocks === block.heightBlocks)
      return planned.plan;
    // A restore that could not even be cleared away: its entries would be taken for the genesis'.
    if (newest === undefined && hasLeftovers(this.#tables)) {
      throw refusedStore(this.#folder, "it has remains of a state that was not restored; start the program again");
    }
    const plan = this.#guarded(() => planBlock(this.#tables, this.#at?.root, block));
    this.#planned = { block, plan };
    return plan;
  }

  async #clear(): Promise<void> {
    const entries = await clearLeftovers(this.#restoreHost());
    if (entries > 0) this.#log.info({ entries }, "what was left of a restored state is removed");
  }

  #restoreHost(): RestoreHost {
    return {
      tables: this.#tables,
      faults: this.#faults,
      inTurn: (action) => this.#inTurn(action),
      write: (action) => this.#write(action),
      checkOpen: () => this.#checkOpen(),
      isClosing: () => this.#closing !== undefined,
      ended: (position) => {
        this.#restore = undefined;
        this.#at = position;
      },
    };
  }

  /** Writers go one after another. */
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#writing.then(action);
    this.#writing = turn.catch(() => undefined);
    return turn;
  }

  #write(action: () => void): void {
    this.#guarded(() => this.#tables.write(action));
  }

  #guarded<T>(action: () => T): T {
    try {
      return action();
    } catch (cause) {
      throw storeError(this.#folder, cause);
    }
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw refusedStore(this.#folder, "it is closed");
  }

  #checkHeight(heightBlocks: bigint): void {
    this.#checkOpen();
    const at = this.#at;
    if (at === undefined || heightBlocks < at.earliest || heightBlocks > at.newest)
      throw this.#unavailable(heightBlocks);
  }

  #unavailable(heightBlocks: bigint): AppError {
    const kept =
      this.#at === undefined ? "there is no block yet" : `kept are ${this.#at.earliest} to ${this.#at.newest}`;
    return new AppError("HEIGHT_UNAVAILABLE", {
      message: `The state after block ${heightBlocks} is not here: ${kept}.`,
    });
  }
}

/** App hash of a state without entries. */
export const EMPTY_APP_HASH: Bytes = EMPTY_HASH;
