import { join, resolve } from "node:path";
import { AppError } from "@turnpike/base";
import { readChangedKeys } from "./changed-keys.ts";
import { KeptDerivations } from "./derivations.ts";
import { heightToBytes } from "./keys.ts";
import { recordKey } from "./plan.ts";
import { readHeights, type StoreHeights } from "./position.ts";
import { StoreReader } from "./state-reader.ts";
import { storeError } from "./store-errors.ts";
import { STORE_FILE } from "./store-folder.ts";
import { Tables } from "./tables.ts";
import type { Bytes, StateReader } from "./types.ts";

export interface SharedStatesOptions {
  /** Folder of a store that another thread of this process has open. */
  readonly folder: string;
  readonly mapSizeBytes: number;
}

const MAX_DERIVATIONS = 64;
/** Blocks whose changed keys are looked through; after more, what was derived is made again. */
const MOST_BLOCKS_BEHIND = 100n;

/**
 * States of a store that another thread of this process writes. LMDB gives each thread a snapshot of its own, so that reads
 * wait for no block and no block for them. {@link renew} before each piece of work; within it nothing changes.
 */
export class SharedStates implements AsyncDisposable {
  readonly #folder: string;
  readonly #tables: Tables;
  readonly #derivations = new KeptDerivations({ maxKept: MAX_DERIVATIONS });
  readonly #host: ConstructorParameters<typeof StoreReader>[1];
  #at: StoreHeights | undefined;

  constructor(opts: SharedStatesOptions) {
    this.#folder = resolve(opts.folder);
    try {
      this.#tables = new Tables({
        file: join(this.#folder, STORE_FILE),
        mapSizeBytes: opts.mapSizeBytes,
        create: false,
      });
    } catch (cause) {
      throw storeError(this.#folder, cause);
    }
    this.#host = {
      tables: this.#tables,
      derivations: this.#derivations,
      check: (heightBlocks) => this.#check(heightBlocks),
      isNewest: (heightBlocks) => this.#at?.newest === heightBlocks,
    };
    this.renew();
  }

  /** Takes a snapshot of the store as it is now. */
  renew(): void {
    this.#tables.renewSnapshot();
    const before = this.#at?.newest;
    this.#at = readHeights(this.#tables);
    const now = this.#at?.newest;
    if (before === now || before === undefined) return;
    // What pruned blocks changed is not known any more.
    const isPruned = before < this.earliestHeightBlocks();
    if (now === undefined || now < before || now - before > MOST_BLOCKS_BEHIND || isPruned) {
      this.#derivations.clear();
      return;
    }
    for (let height = before + 1n; height <= now; height++) this.#derivations.committed(height, this.#changed(height));
  }

  latestHeightBlocks(): bigint | undefined {
    return this.#at?.newest;
  }

  earliestHeightBlocks(): bigint {
    return this.#at?.earliest ?? 0n;
  }

  at(heightBlocks: bigint): StateReader {
    this.#check(heightBlocks);
    return new StoreReader({ heightBlocks }, this.#host);
  }

  record(table: string, key: Bytes): Bytes | undefined {
    return this.#tables.records.get(recordKey(table, key));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tables.close();
  }

  // In their order, as they were written.
  #changed(heightBlocks: bigint): Bytes[] {
    const range = { from: heightToBytes(heightBlocks), to: heightToBytes(heightBlocks + 1n) };
    return [...this.#tables.changed.entries(range)].flatMap(([key, value]) => readChangedKeys(key, value).keys);
  }

  #check(heightBlocks: bigint): void {
    const at = this.#at;
    if (at !== undefined && heightBlocks >= at.earliest && heightBlocks <= at.newest) return;
    throw new AppError("HEIGHT_UNAVAILABLE", { message: `The state after block ${heightBlocks} is not here.` });
  }
}
