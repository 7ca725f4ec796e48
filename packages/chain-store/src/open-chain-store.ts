import { resolve } from "node:path";
import { type FaultPoints, type Log, silentLog } from "@turnpike/base";
import { LmdbChainStore } from "./chain-store.ts";
import { storeError } from "./store-errors.ts";
import { openFolder, type StoreCheck } from "./store-folder.ts";

export interface ChainStoreOptions {
  /** Folder of the store and of nothing else; it is made where it is not there. */
  readonly folder: string;
  /** Address space that is mapped at first; it grows by itself. 1 GiB by default. */
  readonly mapSizeBytes?: number;
  /** What is compared before anything is read; by default the whole file up to 1 GiB, of a larger one the newest state. */
  readonly check?: StoreCheck;
}

export interface ChainStoreModules {
  readonly log?: Log;
  readonly faults?: FaultPoints;
}

const MAP_BYTES = 1_073_741_824;

/**
 * Opens the chain's store in a folder. One process at a time may have it open.
 * @throws AppError CHAIN_STORE when the folder or its file is not ours or cannot be used, CHAIN_STORE_BUSY when another
 * process has it, CHAIN_STORE_DAMAGED, CHAIN_STORE_FULL.
 */
export async function openChainStore(
  opts: ChainStoreOptions,
  modules: ChainStoreModules = {},
): Promise<LmdbChainStore> {
  const folder = resolve(opts.folder);
  const log = modules.log ?? silentLog;
  try {
    await using owned = new AsyncDisposableStack();
    const file = owned.use(
      await openFolder({ folder, mapSizeBytes: opts.mapSizeBytes ?? MAP_BYTES, check: opts.check }),
    );
    const faults = modules.faults;
    const store = new LmdbChainStore({ folder }, { file, log, ...(faults === undefined ? {} : { faults }) });
    await store.clearLeftovers();
    owned.move();
    log.info({ folder, newestHeightBlocks: store.latestHeightBlocks()?.toString() }, "chain store opened");
    return store;
  } catch (cause) {
    throw storeError(folder, cause);
  }
}
