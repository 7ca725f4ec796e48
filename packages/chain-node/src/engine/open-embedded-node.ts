import { uptime } from "node:os";
import {
  AppError,
  type Clock,
  type FaultPoints,
  type Log,
  type Metrics,
  noFaults,
  noMetrics,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { type BlockMeter, ChainApp, chainStartOf, type GenesisDocument, type StateMachine } from "@turnpike/chain";
import { type ChainStore, freeBytesOf, openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import type { Ed25519Signer } from "@turnpike/crypto";
import { DEFAULT_MEMPOOL, type MempoolOptions } from "../mempool/mempool.ts";
import { BlockMaker } from "./block-maker.ts";
import { BlockStore } from "./block-store.ts";
import { EmbeddedEngine } from "./embedded-engine.ts";
import { type EngineParams, engineParams } from "./engine-params.ts";
import { EventIndexer } from "./event-indexer.ts";
import { nodeIdOf } from "./keys.ts";
import { LastSignState } from "./last-sign-state.ts";
import { timerWait, type Wait } from "./pacer.ts";
import { firstPosition, storedPosition } from "./position.ts";

export interface EmbeddedNodeOptions {
  /** Folder of the store and of nothing else; not used when a store is given. */
  readonly folder: string;
  readonly genesis: GenesisDocument;
  /** File beside the key that says which block it signed last; without one an older copy of the store goes unnoticed. */
  readonly signedFile?: string;
  /** Undefined: blocks are made by `produceBlock()` alone. */
  readonly blockIntervalMs?: number;
  readonly moniker: string;
  /** Version of the program, such as `0.1.35`. */
  readonly version: string;
  /** Newest states that stay readable; by default all. Blocks are never pruned. */
  readonly keepStatesBlocks?: number;
  readonly mempool?: Partial<MempoolOptions>;
}

export interface EmbeddedNodeModules {
  readonly machine: StateMachine;
  /** Signs blocks; the genesis must name it. */
  readonly validatorSigner: Ed25519Signer;
  /** The node's own key. */
  readonly nodeSigner: Ed25519Signer;
  /** Stays the caller's. */
  readonly store?: ChainStore;
  readonly clock?: Clock;
  /** Milliseconds that pass also while the machine sleeps; by default the machine's, or those of the clock that is given. */
  readonly uptimeMs?: () => number;
  readonly wait?: Wait;
  readonly log?: Log;
  readonly faults?: FaultPoints;
  /** Of the mempool. */
  readonly metrics?: Metrics;
  /** Counts and times blocks and checks. */
  readonly meter?: BlockMeter;
}

const SHORTEST_INTERVAL_MS = 10;

function checkNumbers({ blockIntervalMs, keepStatesBlocks }: EmbeddedNodeOptions): void {
  const isInterval = blockIntervalMs === undefined || blockIntervalMs >= SHORTEST_INTERVAL_MS;
  const isCount = keepStatesBlocks === undefined || (Number.isSafeInteger(keepStatesBlocks) && keepStatesBlocks >= 1);
  if (isInterval && isCount) return;
  throw new AppError("CONFIG_INVALID", {
    message: `Blocks are at least ${SHORTEST_INTERVAL_MS} ms apart, and at least one state is kept.`,
  });
}

// The process's own time stands still while the machine sleeps, and the machine's does not. Some containers do not report the latter.
function uptimeOf(clock: Clock | undefined): () => number {
  if (clock !== undefined && clock !== systemClock) return () => clock.monotonicMs();
  try {
    uptime();
    return () => uptime() * 1000;
  } catch {
    return () => systemClock.monotonicMs();
  }
}

// Headers say these; a chain cannot change them by its genesis file.
function checkParams(params: EngineParams, blocks: BlockStore, maker: BlockMaker, latestBlocks: bigint): void {
  const header = blocks.block(latestBlocks)?.block.header;
  if (header === undefined) return;
  const isSame = maker.hasParams(header.consensusHash) && header.version.app === params.appVersion;
  if (isSame) return;
  throw new AppError("CONFIG_INVALID", {
    message: "The consensus parameters of the genesis are not those that the chain's store began with.",
  });
}

/**
 * Opens the chain in a folder, or begins it with the genesis, and starts to make blocks.
 * @throws AppError CONFIG_INVALID when the genesis is not valid, is not the store's, or does not let this key make blocks;
 * the errors of `openChainStore`.
 */
export async function openEmbeddedNode(
  opts: EmbeddedNodeOptions,
  modules: EmbeddedNodeModules,
): Promise<EmbeddedEngine> {
  const { genesis, version, moniker } = opts;
  const log = modules.log ?? silentLog;
  const faults = modules.faults ?? noFaults;
  checkNumbers(opts);
  const params = engineParams(genesis);
  const start = chainStartOf(genesis);
  await using stack = new AsyncDisposableStack();
  const store = modules.store ?? stack.use(await openChainStore({ folder: opts.folder }, { log, faults }));
  const { machine, meter } = modules;
  const application = new ChainApp(
    { version, maxBlockGas: params.maxGas },
    { machine, store, log, ...(meter === undefined ? {} : { meter }) },
  );
  const maker = new BlockMaker(
    { chainId: start.chainId, genesisTimeNs: rfc3339ToNs(genesis.genesis_time) ?? 0n, params },
    { signer: modules.validatorSigner },
  );
  const started = await application.start(start, (validatorUpdates) => {
    const { validators } = firstPosition(start.initialHeightBlocks, { appHash: new Uint8Array(0), validatorUpdates });
    maker.checkPower(validators);
  });
  const first = firstPosition(start.initialHeightBlocks, started);
  // Made of the blocks, which ask it before they search.
  let indexer: EventIndexer | undefined;
  const blocks = new BlockStore({
    store,
    indexed: async () => indexer?.caughtUp(),
    heights: {
      initialBlocks: start.initialHeightBlocks,
      latestBlocks: () => application.latestHeightBlocks(),
    },
    firstValidators(heightBlocks) {
      if (heightBlocks === first.nextHeightBlocks) return first.validators;
      return heightBlocks === first.nextHeightBlocks + 1n ? first.nextValidators : undefined;
    },
  });
  const latestBlocks = application.latestHeightBlocks();
  const position = latestBlocks === 0n ? first : storedPosition(store, blocks, latestBlocks);
  checkParams(params, blocks, maker, latestBlocks);
  maker.checkPower(position.validators);
  const signed =
    opts.signedFile === undefined ? undefined : stack.use(await LastSignState.open(opts.signedFile, { log }));
  signed?.check(
    { chainId: start.chainId, address: maker.address },
    position.nextHeightBlocks,
    (heightBlocks) => blocks.block(heightBlocks)?.id.hash,
  );
  indexer = stack.use(await EventIndexer.open({ store, blocks, log, faults }));
  log.info({ chainId: start.chainId, heightBlocks: `${latestBlocks}` }, "embedded chain opened");
  return new EmbeddedEngine(
    {
      genesis,
      params,
      moniker,
      nodeId: nodeIdOf(modules.nodeSigner.publicKey),
      validatorKey: modules.validatorSigner.publicKey,
      blockIntervalMs: opts.blockIntervalMs,
      keepStatesBlocks: opts.keepStatesBlocks,
      mempool: { ...DEFAULT_MEMPOOL, ...opts.mempool },
    },
    {
      application,
      store,
      blocks,
      maker,
      position,
      clock: modules.clock ?? systemClock,
      uptimeMs: modules.uptimeMs ?? uptimeOf(modules.clock),
      signed,
      indexer,
      freeBytes: () => freeBytesOf(opts.folder),
      wait: modules.wait ?? timerWait,
      log,
      faults,
      metrics: modules.metrics ?? noMetrics,
      owned: stack.move(),
    },
  );
}
