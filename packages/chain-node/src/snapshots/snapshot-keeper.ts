import { isAppError, type Log } from "@turnpike/base";
import type { ChainStore } from "@turnpike/chain-store";
import { makeSnapshot } from "./make-snapshot.ts";
import type { SnapshotFolder } from "./snapshot-folder.ts";
import type { SnapshotMeter } from "./snapshot-meter.ts";

export interface SnapshotKeeperOptions {
  /** Snapshots are of the heights that it divides; 0: none is made. */
  readonly everyBlocks: number;
  /** Newest ones that stay. */
  readonly keep: number;
  /** Bytes of a chunk, as {@link makeSnapshot} has them. */
  readonly chunkBytes?: number;
}

export interface SnapshotKeeperModules {
  /** Stays the caller's. */
  readonly store: Pick<ChainStore, "at" | "appHash">;
  readonly folder: SnapshotFolder;
  readonly log: Log;
  /** Counts what was made and what failed. */
  readonly meter?: SnapshotMeter;
  /** Keeps a state from being pruned while it is read. */
  readonly hold?: (heightBlocks: bigint) => Disposable;
}

/** Makes snapshots while blocks go on, one at a time, and removes old ones. */
export class SnapshotKeeper implements AsyncDisposable {
  readonly #every: bigint;
  readonly #keep: number;
  readonly #chunkBytes: number | undefined;
  readonly #modules: SnapshotKeeperModules;
  readonly #stop = new AbortController();
  #making: Promise<void> | undefined;

  constructor({ everyBlocks, keep, chunkBytes }: SnapshotKeeperOptions, modules: SnapshotKeeperModules) {
    this.#every = BigInt(everyBlocks);
    this.#keep = keep;
    this.#chunkBytes = chunkBytes;
    this.#modules = modules;
  }

  /** Reports a block that was written. Returns at once. While one snapshot is made, heights are passed over. */
  committed(heightBlocks: bigint): void {
    if (this.#every === 0n || heightBlocks % this.#every !== 0n || this.#stop.signal.aborted) return;
    if (this.#making !== undefined) {
      this.#modules.log.warn({ heightBlocks: `${heightBlocks}` }, "no snapshot: the one before is not done yet");
      return;
    }
    this.#making = this.#make(heightBlocks).finally(() => {
      this.#making = undefined;
    });
  }

  /** Resolves when none is being made. */
  async settled(): Promise<void> {
    await this.#making;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#making;
  }

  async #make(heightBlocks: bigint): Promise<void> {
    const { store, folder, log, meter, hold } = this.#modules;
    const height = { heightBlocks: `${heightBlocks}` };
    try {
      using _ = hold?.(heightBlocks);
      const { chunks, entries, fileBytes } = await makeSnapshot(
        { heightBlocks, chunkBytes: this.#chunkBytes, signal: this.#stop.signal },
        { store, folder },
      );
      await folder.keepNewest(this.#keep, heightBlocks);
      meter?.made(heightBlocks);
      log.info({ ...height, chunks, entries, fileBytes }, "snapshot made");
    } catch (cause) {
      if (this.#stop.signal.aborted) return;
      meter?.failed();
      if (isAppError(cause, "HEIGHT_UNAVAILABLE"))
        log.warn(height, "snapshot given up: its state was pruned meanwhile");
      else log.error({ ...height, cause }, "no snapshot could be made");
    }
  }
}
