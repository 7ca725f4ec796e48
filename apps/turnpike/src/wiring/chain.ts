import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import {
  AppError,
  type FaultPoints,
  type Log,
  type Metrics,
  noFaults,
  noMetrics,
  systemClock,
  type WriteBufferBudget,
  writeAtomically,
} from "@turnpike/base";
import {
  BlockMeter,
  ChainApp,
  consensusParamsOfGenesis,
  type GenesisDocument,
  gasPricesOf,
  type PocketMachine,
  PROTOCOL_VERSION,
  pocketMachine,
  type RuleSet,
  ThreadedApplication,
} from "@turnpike/chain";
import {
  AbciQueries,
  apiSurface,
  type ChainApiOptions,
  createWriteBuffer,
  startGrpcServer,
  startRestServer,
  startRpcServer,
} from "@turnpike/chain-api";
import {
  type ChainHome,
  type ChainSource,
  CometRpc,
  CometSource,
  chainHome,
  EmbeddedSource,
  EventLoopQueue,
  loadNodeKey,
  noteUpgrade,
  openEmbeddedNode,
  readGenesis,
  startAbciServer,
  validatorKeyOf,
  watchChain,
} from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import type { Config } from "@turnpike/config";
import type { MetricsRegistry } from "@turnpike/telemetry";
import { hostText } from "../cli/context.ts";
import { nodeFileOf } from "./chain-folder.ts";
import { stateSync } from "./chain-snapshots.ts";
import { reportCurve } from "./curve.ts";

/** A node that runs. */
export interface RunningChain extends AsyncDisposable {
  readonly chainId: string;
  /** Addresses by name: rpc or abci, rest, grpc, and metrics where they are served. */
  readonly urls: Readonly<Record<string, string>>;
  /** Rejects when the node cannot go on. */
  readonly failed: Promise<never>;
  readonly metrics: Metrics;
}

const never: Promise<never> = new Promise(() => {});

interface Address {
  readonly host: string;
  readonly port: number;
}

function textsOf(error: unknown): string {
  const own = error instanceof Error ? `${"code" in error ? String(error.code) : ""} ${error.message}` : "";
  return error instanceof Error && error.cause !== undefined ? `${own} ${textsOf(error.cause)}` : own;
}

/** A server that starts; when it cannot listen, the error names the configuration's path. */
async function listening<T>(path: string, { host, port }: Address, starting: Promise<T>): Promise<T> {
  try {
    return await starting;
  } catch (cause) {
    const text = textsOf(cause);
    if (/EADDRINUSE/.test(text)) {
      throw new AppError("PORT_IN_USE", { message: `${path}.port: ${port} is in use by another program.`, cause });
    }
    if (/EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN/.test(text)) {
      throw new AppError("CONFIG_INVALID", { message: `${path}.host: ${host} is no address of this machine.`, cause });
    }
    if (/EACCES/.test(text)) {
      throw new AppError("CONFIG_INVALID", { message: `${path}.port: ${port} is not open to this user.`, cause });
    }
    throw cause;
  }
}

const NO_SNAPSHOTS =
  "the embedded engine makes no snapshots by itself: chain.snapshots.everyBlocks has no effect; npx turnpike chain snapshot makes one";
const COMET_RPC = "http://127.0.0.1:26657";

interface Engine {
  readonly application: ThreadedApplication;
  readonly source: ChainSource;
  readonly urls: Readonly<Record<string, string>>;
  readonly failed: Promise<never>;
}

interface Parts extends PocketMachine {
  readonly home: ChainHome;
  readonly genesis: GenesisDocument;
  readonly log: Log;
  readonly faults: FaultPoints;
  readonly metrics: Metrics;
  readonly meter: BlockMeter;
  readonly queue: EventLoopQueue;
  readonly writeBuffer: WriteBufferBudget;
  /** What all servers show of the node. */
  readonly api: ChainApiOptions;
}

async function embedded(config: Config, parts: Parts, stack: AsyncDisposableStack): Promise<Engine> {
  const { home, genesis, machine, log, faults, metrics, meter, queue, writeBuffer, api } = parts;
  const { chain } = config;
  if (chain.snapshots.everyBlocks > 0) log.warn({ everyBlocks: chain.snapshots.everyBlocks }, NO_SNAPSHOTS);
  const node = stack.use(
    await openEmbeddedNode(
      {
        folder: home.storeFolder,
        genesis,
        signedFile: home.signedFile,
        blockIntervalMs: chain.blockIntervalMs,
        moniker: chain.moniker,
        version: PROTOCOL_VERSION,
        ...(chain.keepHeights === 0 ? {} : { keepStatesBlocks: chain.keepHeights }),
      },
      {
        machine,
        validatorSigner: await validatorKeyOf(home),
        nodeSigner: await loadNodeKey(home.nodeKeyFile),
        log,
        faults,
        metrics,
        meter,
      },
    ),
  );
  // Known once it listens.
  let rpcUrl = "";
  const rpcAddr = (): string => rpcUrl.replace(/^http/, "tcp");
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr }, node);
  const application = stack.use(onThreads(parts, node.application));
  const queries = new AbciQueries(api, { application, source, log, queue });
  const served = { node, queries, log, queue, writeBuffer, clock: systemClock, metrics };
  const rpc = stack.use(
    await listening(
      "chain.rpc",
      chain.rpc,
      startRpcServer({ ...chain.rpc, allowedHosts: config.allowedHosts }, served),
    ),
  );
  rpcUrl = rpc.url;
  const failed = node.ended.then(() => never);
  // It may end before anybody waits for it.
  failed.catch(() => {});
  return { application, source, urls: { rpc: rpc.url }, failed };
}

/** The application as clients ask it: on threads beside the one that makes blocks. */
function onThreads({ home, api, log, metrics }: Parts, application: ChainApp): ThreadedApplication {
  // One takes a core: blocks have another wherever there are two.
  const threads = availableParallelism() > 4 ? 2 : 1;
  const { gasPrices } = api;
  return new ThreadedApplication({ folder: home.storeFolder, gasPrices, threads }, { application, log, metrics });
}

async function underCometBft(config: Config, parts: Parts, stack: AsyncDisposableStack): Promise<Engine> {
  const { home, genesis, machine, log, faults, metrics, meter, queue, api } = parts;
  const { chain } = config;
  const store = stack.use(await openChainStore({ folder: home.storeFolder }, { log, faults }));
  const application = new ChainApp(
    {
      version: PROTOCOL_VERSION,
      maxBlockGas: BigInt(genesis.consensus.params.block.max_gas),
      maxBlockBytes: BigInt(genesis.consensus.params.block.max_bytes),
    },
    { machine, store, log, meter },
  );
  const rpc = stack.use(new CometRpc({ url: chain.cometRpcUrl ?? COMET_RPC }));
  const syncing = { store, application, genesis, metrics, log };
  const synced = await stateSync(config, home.snapshotsFolder, syncing, stack);
  const source = new CometSource({ rpc });
  const asked = stack.use(onThreads(parts, application));
  const queries = new AbciQueries(api, { application: asked, source, log, queue });
  const abci = stack.use(
    await startAbciServer({ address: chain.abciAddress }, { application, queries, log, faults, metrics, ...synced }),
  );
  return { application: asked, source, urls: { abci: abci.address }, failed: abci.failed };
}

/** Metrics that are served; undefined where no port is configured, and nothing reads them. */
async function servedMetrics({ chain }: Config): Promise<MetricsRegistry | undefined> {
  if (chain.metrics.port === undefined) return undefined;
  const { PrometheusMetrics } = await import("@turnpike/telemetry");
  return new PrometheusMetrics({ processMetrics: true });
}

function partsOf(
  config: Config,
  home: ChainHome,
  genesis: GenesisDocument,
  { log, faults = noFaults, metrics, rules, skipHeights }: StartChainModules & { readonly metrics: Metrics },
): Parts {
  const gasPrices = gasPricesOf(config.chain.minGasPrices);
  const machine = pocketMachine({
    gasPrices,
    consensusParams: consensusParamsOfGenesis(genesis.consensus.params),
    ...(rules === undefined ? {} : { rules }),
    ...(skipHeights === undefined ? {} : { skipHeights }),
  });
  const meter = new BlockMeter({ metrics });
  const api = {
    surface: apiSurface(machine.modules),
    gasPrices,
    pruningKeepBlocks: BigInt(config.chain.keepHeights),
  };
  return {
    home,
    genesis,
    log,
    faults,
    metrics,
    meter,
    queue: new EventLoopQueue(),
    writeBuffer: createWriteBuffer(),
    api,
    ...machine,
  };
}

/** Watches the node, and serves its metrics where a port is configured. @returns their address */
async function watched(
  { chain, allowedHosts }: Config,
  parts: Parts,
  served: MetricsRegistry | undefined,
  stack: AsyncDisposableStack,
): Promise<{ metrics?: string }> {
  const { home, metrics, meter, log } = parts;
  const { blockIntervalMs, cometRpcUrl = COMET_RPC } = chain;
  const engine = chain.engine === "embedded" ? { blockIntervalMs } : { cometRpcUrl };
  stack.use(await watchChain({ storeFolder: home.storeFolder, engine }, { meter, metrics, log }));
  reportCurve({ metrics, log });
  const { host, port } = chain.metrics;
  if (port === undefined || served === undefined) return {};
  const where = { host, port };
  // Loaded where it is needed: its libraries take time at every start.
  const { startMetricsServer } = await import("@turnpike/telemetry");
  const server = stack.use(
    await listening("chain.metrics", where, startMetricsServer({ ...where, allowedHosts }, { metrics: served, log })),
  );
  return { metrics: `http://${hostText(host)}:${server.port}/metrics` };
}

export interface StartChainModules {
  readonly log: Log;
  /** Heights at which a planned upgrade is dropped. */
  readonly skipHeights?: ReadonlySet<bigint>;
  /** Only a test's process gives them. */
  readonly faults?: FaultPoints;
  /** Rules that blocks can be run by, where they are not the program's own. Only a test's process gives them. */
  readonly rules?: readonly RuleSet[];
}

/** The end of a node, which leaves a note when an upgrade is its cause. */
async function ending(failed: Promise<never>, home: ChainHome, log: Log): Promise<never> {
  try {
    return await failed;
  } catch (error) {
    await noteUpgrade(home, error).catch((cause: unknown) => log.warn({ cause }, "the upgrade cannot be noted"));
    throw error;
  }
}

/**
 * Runs a node of the chain in a folder.
 * @throws AppError CHAIN_HOME, CONFIG_INVALID, PORT_IN_USE, and those of the store.
 */
export async function startChain(config: Config, folder: string, modules: StartChainModules): Promise<RunningChain> {
  const { log } = modules;
  const { chain } = config;
  const home = chainHome(folder);
  const genesis = await readGenesis(home);
  const registry = await servedMetrics(config);
  const parts = partsOf(config, home, genesis, { ...modules, metrics: registry ?? noMetrics });
  await using stack = new AsyncDisposableStack();
  const { application, source, urls, failed } = await (chain.engine === "embedded"
    ? embedded(config, parts, stack)
    : underCometBft(config, parts, stack));
  const { metrics } = await watched(config, parts, registry, stack);
  const { api, queue, writeBuffer } = parts;
  const servers = { application, source, log, queue, writeBuffer, clock: systemClock, metrics: parts.metrics };
  const rest = stack.use(
    await listening(
      "chain.rest",
      chain.rest,
      startRestServer({ ...api, ...chain.rest, allowedHosts: config.allowedHosts }, servers),
    ),
  );
  const grpc = stack.use(
    await listening("chain.grpc", chain.grpc, startGrpcServer({ ...api, ...chain.grpc }, servers)),
  );
  const served = {
    ...urls,
    rest: `http://${hostText(chain.rest.host)}:${rest.port}`,
    grpc: `${hostText(chain.grpc.host)}:${grpc.port}`,
    ...(metrics === undefined ? {} : { metrics }),
  };
  // After the servers: what comes first needs none of them.
  application.warm();
  // Commands that get the folder find the node by it.
  const nodeFile = nodeFileOf(home.folder);
  const node = { rpc: urls.rpc ?? chain.cometRpcUrl ?? COMET_RPC, rest: served.rest, grpc: served.grpc };
  try {
    await writeAtomically(nodeFile, `${JSON.stringify(node)}\n`);
  } catch (cause) {
    // On a full disk the node still answers, and makes blocks when there is room.
    log.warn({ cause, file: nodeFile }, "where this node listens cannot be noted; commands need --node");
  }
  stack.defer(() => rm(nodeFile, { force: true }));
  const owned = stack.move();
  const ended = ending(failed, home, log);
  // It may end before anybody waits for it.
  ended.catch(() => {});
  return {
    chainId: genesis.chain_id,
    urls: served,
    failed: ended,
    metrics: parts.metrics,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * A genesis that goes on from the state after a block, the newest by default: its time is the block's, and its first
 * block the next one, because the state holds heights.
 * @throws AppError CHAIN_HOME when the chain never began, CHAIN_STORE_BUSY, HEIGHT_UNAVAILABLE.
 */
export async function exportChain(
  folder: string,
  modules: { readonly log: Log },
  height: bigint | undefined,
): Promise<GenesisDocument> {
  const { log } = modules;
  const home = chainHome(folder);
  const genesis = await readGenesis(home);
  const { machine } = pocketMachine({ gasPrices: [] });
  await using store = await openChainStore({ folder: home.storeFolder }, { log });
  const application = new ChainApp({ version: PROTOCOL_VERSION, maxBlockGas: -1n }, { machine, store, log });
  if (application.latestHeightBlocks() === 0n) {
    throw new AppError("CHAIN_HOME", {
      message: `The chain in ${home.folder} has no block yet; start it once with npx turnpike chain start --home ${home.folder}.`,
    });
  }
  const { heightBlocks, time, appState } = application.exportState(height);
  return { ...genesis, genesis_time: time, initial_height: Number(heightBlocks) + 1, app_state: appState };
}
