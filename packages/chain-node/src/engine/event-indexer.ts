import { setImmediate as nextTurn } from "node:timers/promises";
import { type FaultPoints, isAppError, type Log } from "@turnpike/base";
import { type BlockRecord, bytesToHeight, type ChainStore, heightToBytes } from "@turnpike/chain-store";
import { indexRecords } from "../indexing/records.ts";
import type { BlockResults, StoredBlock } from "../types.ts";
import type { BlockStore } from "./block-store.ts";
import { damagedRecord } from "./record-errors.ts";

export interface EventIndexerModules {
  /** Stays the caller's. */
  readonly store: ChainStore;
  readonly blocks: Pick<BlockStore, "block" | "results" | "latestHeightBlocks">;
  readonly log: Log;
  readonly faults: FaultPoints;
}

interface Indexed {
  readonly stored: StoredBlock;
  readonly results: BlockResults;
}

const TABLE = "index-height";
const KEY = Buffer.from("newest");
/** Records of one transaction of the store: some 20 ms. */
const BATCH_RECORDS = 2_000;
/** Blocks that are kept in memory until they are indexed; others are read back. */
const MOST_KEPT = 4;

/**
 * Writes the indexes of events after their blocks, so that no block waits for them. Up to which height they reach is written with
 * the last record of a block: what a crash left is indexed when the node starts again, and twice the same is the same.
 */
export class EventIndexer implements AsyncDisposable {
  readonly #modules: EventIndexerModules;
  readonly #kept = new Map<bigint, Indexed>();
  #indexedBlocks: bigint;
  #running: Promise<void> | undefined;
  #isClosed = false;

  /** @param indexedBlocks the newest block with its indexes */
  private constructor(indexedBlocks: bigint, modules: EventIndexerModules) {
    this.#indexedBlocks = indexedBlocks;
    this.#modules = modules;
  }

  /** Goes on from where the store stands. Call it once its genesis is written. */
  static async open(modules: EventIndexerModules): Promise<EventIndexer> {
    const { store, blocks } = modules;
    const known = store.record(TABLE, KEY);
    if (known !== undefined) return new EventIndexer(bytesToHeight(Buffer.from(known)), modules);
    // Earlier versions wrote the indexes of a block with it.
    const latest = blocks.latestHeightBlocks();
    try {
      await store.writeRecords([heightRecord(latest)]);
    } catch (cause) {
      // A node also starts on a full disk; the next indexes bring the height with them.
      if (!isAppError(cause, "CHAIN_STORE_FULL")) throw cause;
    }
    return new EventIndexer(latest, modules);
  }

  /** Reports a block that was written. Returns at once. */
  committed(stored: StoredBlock, results: BlockResults): void {
    if (this.#kept.size < MOST_KEPT) this.#kept.set(results.heightBlocks, { stored, results });
    // What goes wrong is logged, and is an error of the next search.
    this.#run().catch(() => undefined);
  }

  /**
   * Resolves when all blocks up to the newest are indexed.
   * @throws AppError of the store when they cannot be
   */
  async caughtUp(): Promise<void> {
    const newest = this.#modules.blocks.latestHeightBlocks();
    while (this.#indexedBlocks < newest && !this.#isClosed) await this.#run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.#running?.catch(() => undefined);
  }

  #run(): Promise<void> {
    this.#running ??= this.#indexAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #indexAll(): Promise<void> {
    const { blocks, log } = this.#modules;
    // The next block is not kept waiting by what this one brought.
    await nextTurn();
    try {
      while (this.#indexedBlocks < blocks.latestHeightBlocks() && !this.#isClosed) {
        await this.#index(this.#indexedBlocks + 1n);
      }
    } catch (cause) {
      this.#kept.clear();
      log.error({ cause, heightBlocks: `${this.#indexedBlocks + 1n}` }, "events could not be indexed");
      throw cause;
    }
  }

  async #index(heightBlocks: bigint): Promise<void> {
    const { store, faults } = this.#modules;
    const indexed = this.#indexedAt(heightBlocks);
    const records = indexed === undefined ? [] : indexRecords(indexed.stored, indexed.results);
    records.push(heightRecord(heightBlocks));
    for (let at = 0; at < records.length && !this.#isClosed; at += BATCH_RECORDS) {
      if (at > 0) await nextTurn();
      await store.writeRecords(records.slice(at, at + BATCH_RECORDS));
      await faults.reach("embedded.indexed-some");
    }
    if (this.#isClosed) return;
    this.#indexedBlocks = heightBlocks;
    this.#kept.delete(heightBlocks);
  }

  #indexedAt(heightBlocks: bigint): Indexed | undefined {
    const kept = this.#kept.get(heightBlocks);
    if (kept !== undefined) return kept;
    const { blocks } = this.#modules;
    const [stored, results] = [blocks.block(heightBlocks), blocks.results(heightBlocks)];
    // Before the chain's first block there is none.
    if (stored === undefined && results === undefined) return undefined;
    if (stored === undefined || results === undefined) throw damagedRecord("a block's results");
    return { stored, results };
  }
}

const heightRecord = (heightBlocks: bigint): BlockRecord => ({
  table: TABLE,
  key: KEY,
  value: heightToBytes(heightBlocks),
});
