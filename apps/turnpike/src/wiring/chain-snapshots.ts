import { AppError, isAppError, type Log, type Metrics } from "@turnpike/base";
import { ChainApp, chainStartOf, type GenesisDocument, PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import {
  type AbciServerModules,
  chainHome,
  type KeptSnapshot,
  makeSnapshot,
  SnapshotFolder,
  SnapshotKeeper,
  SnapshotMeter,
  SnapshotRestorer,
} from "@turnpike/chain-node";
import { type LmdbChainStore, openChainStore, StatePruner } from "@turnpike/chain-store";
import type { Config } from "@turnpike/config";

export interface StateSyncModules {
  readonly store: LmdbChainStore;
  readonly application: ChainApp;
  readonly genesis: GenesisDocument;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** State sync of a node under CometBFT, and what follows its blocks: snapshots and pruning. The stack owns them. */
export async function stateSync(
  { chain }: Config,
  snapshotsFolder: string,
  { store, application, genesis, metrics, log }: StateSyncModules,
  stack: AsyncDisposableStack,
): Promise<Required<Pick<AbciServerModules, "sync" | "committed">>> {
  const { keepHeights, snapshots } = chain;
  const folder = new SnapshotFolder({ folder: snapshotsFolder }, { log });
  await folder.removeLeftovers();
  const meter = new SnapshotMeter({ metrics });
  const [newest] = await folder.list(1);
  if (newest !== undefined) meter.found(newest.heightBlocks);
  const pruner = stack.use(
    new StatePruner({ keepStatesBlocks: keepHeights === 0 ? undefined : keepHeights }, { store, log }),
  );
  const hold = (heightBlocks: bigint): Disposable => pruner.hold(heightBlocks);
  const keeper = stack.use(new SnapshotKeeper(snapshots, { store, folder, log, meter, hold }));
  const restorer = stack.use(new SnapshotRestorer({ genesis: chainStartOf(genesis) }, { store, application, log }));
  return {
    sync: { folder, restorer },
    committed(heightBlocks) {
      // First: what is to be read must not be pruned.
      keeper.committed(heightBlocks);
      pruner.committed(heightBlocks);
    },
  };
}

/** Snapshots of a node's folder, newest first. */
export function listSnapshots(folder: string, modules: { readonly log: Log }): Promise<readonly KeptSnapshot[]> {
  return new SnapshotFolder({ folder: chainHome(folder).snapshotsFolder }, modules).list();
}

export interface SnapshotChainOptions {
  readonly folder: string;
  /** Undefined: the newest. */
  readonly heightBlocks: bigint | undefined;
  readonly onProgress: (entries: number, stateBytes: number) => void;
}

/**
 * Makes a snapshot of a node that does not run; one that is there already is given as it is.
 * @throws AppError CHAIN_HOME when the chain has no block, CHAIN_STORE_BUSY, HEIGHT_UNAVAILABLE
 */
export async function snapshotChain(
  { folder, heightBlocks, onProgress }: SnapshotChainOptions,
  { log }: { readonly log: Log },
): Promise<{ readonly snapshot: KeptSnapshot; readonly isNew: boolean }> {
  const home = chainHome(folder);
  await using store = await openIdle(home.storeFolder, log);
  const { machine } = pocketMachine({ gasPrices: [] });
  const newest = new ChainApp({ version: PROTOCOL_VERSION }, { machine, store, log }).latestHeightBlocks();
  if (newest === 0n) {
    throw new AppError("CHAIN_HOME", {
      message: `The chain in ${folder} has no block yet; start it once with npx turnpike chain start --home ${folder}.`,
    });
  }
  const snapshots = new SnapshotFolder({ folder: home.snapshotsFolder }, { log });
  await snapshots.removeLeftovers();
  const height = heightBlocks ?? newest;
  const found = await snapshots.find(height);
  if (found !== undefined) return { snapshot: found, isNew: false };
  const snapshot = await makeSnapshot({ heightBlocks: height, onProgress }, { store, folder: snapshots });
  return { snapshot, isNew: true };
}

async function openIdle(folder: string, log: Log): Promise<LmdbChainStore> {
  try {
    return await openChainStore({ folder }, { log });
  } catch (cause) {
    if (!isAppError(cause, "CHAIN_STORE_BUSY")) throw cause;
    throw new AppError("CHAIN_STORE_BUSY", {
      message: `${cause.message} A node that runs under CometBFT makes snapshots by itself: set chain.snapshots.everyBlocks.`,
      cause,
    });
  }
}
