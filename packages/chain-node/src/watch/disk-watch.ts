import { stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Log, Metrics } from "@turnpike/base";
import { STORE_FILE } from "@turnpike/chain-store";
import { paced, timerWait, type Wait } from "../engine/pacer.ts";
import { chainDiskFreeBytes, chainStoreBytes } from "../metrics.ts";

export interface DiskWatchOptions {
  /** Folder of the chain's store. */
  readonly storeFolder: string;
  /** Time between two looks; 15 s by default. */
  readonly everyMs?: number;
}

export interface DiskWatchModules {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly wait?: Wait;
}

const EVERY_MS = 15_000;

/** Looks at the size of the store and at the room that its disk has left. */
export class DiskWatch implements AsyncDisposable {
  readonly #folder: string;
  readonly #metrics: Metrics;
  readonly #log: Log;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  /** Resolves after the first look. */
  readonly looked: Promise<void>;
  #failed = false;

  constructor({ storeFolder, everyMs }: DiskWatchOptions, { metrics, log, wait }: DiskWatchModules) {
    this.#folder = storeFolder;
    this.#metrics = metrics;
    this.#log = log;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.looked = promise;
    const modules = { wait: wait ?? timerWait };
    this.#running = paced(everyMs ?? EVERY_MS, () => this.#look().then(resolve), this.#stop.signal, modules);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #look(): Promise<void> {
    try {
      const [file, disk] = await Promise.all([stat(join(this.#folder, STORE_FILE)), statfs(this.#folder)]);
      this.#metrics.set(chainStoreBytes, file.size);
      this.#metrics.set(chainDiskFreeBytes, disk.bavail * disk.bsize);
      this.#failed = false;
    } catch (cause) {
      if (!this.#failed) this.#log.warn({ cause, folder: this.#folder }, "the size of the chain's store is not known");
      this.#failed = true;
    }
  }
}
