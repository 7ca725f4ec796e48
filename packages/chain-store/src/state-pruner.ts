import type { Log } from "@turnpike/base";
import type { ChainStore } from "./types.ts";

/** Blocks between two runs of pruning: so many states more than asked for are there, at most. */
const EVERY_BLOCKS = 10n;

export interface StatePrunerOptions {
  /** Newest states that stay readable, always; undefined: all. */
  readonly keepStatesBlocks: number | undefined;
}

export interface StatePrunerModules {
  /** Stays the caller's. */
  readonly store: ChainStore;
  readonly log: Log;
}

/** Prunes old states while blocks go on. Blocks, results and indexes stay. */
export class StatePruner implements AsyncDisposable {
  readonly #keepBlocks: bigint | undefined;
  readonly #store: ChainStore;
  readonly #log: Log;
  readonly #stop = new AbortController();
  readonly #held = new Set<{ readonly heightBlocks: bigint }>();
  #running: Promise<void> | undefined;

  constructor({ keepStatesBlocks }: StatePrunerOptions, { store, log }: StatePrunerModules) {
    this.#keepBlocks = keepStatesBlocks === undefined ? undefined : BigInt(keepStatesBlocks);
    this.#store = store;
    this.#log = log;
  }

  /** Keeps the states from this height on from being pruned, until it is disposed: for a long read. */
  hold(heightBlocks: bigint): Disposable {
    const held = { heightBlocks };
    this.#held.add(held);
    return { [Symbol.dispose]: () => void this.#held.delete(held) };
  }

  /** Reports a block that was written. Returns at once. */
  committed(heightBlocks: bigint): void {
    if (this.#keepBlocks === undefined || this.#running !== undefined || this.#stop.signal.aborted) return;
    let before = heightBlocks - this.#keepBlocks + 1n;
    for (const held of this.#held) if (held.heightBlocks < before) before = held.heightBlocks;
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
