import type { Log } from "@turnpike/base";
import type { ChainStore } from "../types.ts";

/** Blocks between two runs of pruning: so many states more than asked for are there, at most. */
const EVERY_BLOCKS = 10n;

/** Options of {@link StatePruner}. */
export interface StatePrunerOptions {
  /** Newest states that stay readable, always; undefined: all. */
  readonly keepStatesBlocks: number | undefined;
}

/** What {@link StatePruner} works with. */
export interface StatePrunerModules {
  /** Stays the caller's. */
  readonly store: ChainStore;
  readonly log: Log;
}

/** Forgets old states while blocks go on. Blocks, results and indexes stay. */
export class StatePruner implements AsyncDisposable {
  readonly #keepBlocks: bigint | undefined;
  readonly #store: ChainStore;
  readonly #log: Log;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor({ keepStatesBlocks }: StatePrunerOptions, { store, log }: StatePrunerModules) {
    this.#keepBlocks = keepStatesBlocks === undefined ? undefined : BigInt(keepStatesBlocks);
    this.#store = store;
    this.#log = log;
  }

  /** Tells of a block that was written. Returns at once. */
  committed(heightBlocks: bigint): void {
    if (this.#keepBlocks === undefined || this.#running !== undefined || this.#stop.signal.aborted) return;
    const before = heightBlocks - this.#keepBlocks + 1n;
    if (before < this.#store.earliestHeightBlocks() + EVERY_BLOCKS) return;
    this.#running = this.#prune(before);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #prune(beforeHeightBlocks: bigint): Promise<void> {
    try {
      await this.#store.prune(beforeHeightBlocks, this.#stop.signal);
    } catch (cause) {
      if (!this.#stop.signal.aborted) this.#log.error({ cause }, "pruning failed");
    } finally {
      this.#running = undefined;
    }
  }
}
