import type { Log } from "@turnpike/base";
import { systemClock } from "@turnpike/base";
import {
  type Application,
  apiSurface,
  ChainApp,
  type ChainSource,
  CometRpc,
  CometSource,
  consensusParamsOfGenesis,
  EmbeddedSource,
  type GenesisDocument,
  gasPricesOf,
  loadNodeKey,
  loadValidatorKey,
  openChainStore,
  openEmbeddedNode,
  type PocketMachine,
  PROTOCOL_VERSION,
  pocketMachine,
  startAbciServer,
  startGrpcServer,
  startRestServer,
  startRpcServer,
} from "@turnpike/chain";
import type { Config } from "@turnpike/config";
import { hostText } from "../context.ts";
import { type ChainHome, chainHome, readGenesis } from "./chain-home.ts";

/** A node that runs. */
export interface RunningChain extends AsyncDisposable {
  readonly chainId: string;
  /** Addresses by name: rpc or abci, rest, grpc. */
  readonly urls: Readonly<Record<string, string>>;
  /** Rejects when the node cannot go on. */
  readonly failed: Promise<never> | undefined;
}

const never: Promise<never> = new Promise(() => {});

const COMET_RPC = "http://127.0.0.1:26657";

interface Engine {
  readonly application: Application;
  readonly source: ChainSource;
  readonly urls: Readonly<Record<string, string>>;
  readonly failed: Promise<never> | undefined;
}

interface Parts extends PocketMachine {
  readonly home: ChainHome;
  readonly genesis: GenesisDocument;
  readonly log: Log;
}

async function embedded(config: Config, parts: Parts, stack: AsyncDisposableStack): Promise<Engine> {
  const { home, genesis, machine, log } = parts;
  const { chain } = config;
  const node = stack.use(
    await openEmbeddedNode(
      {
        folder: home.dataFolder,
        genesis,
        blockIntervalMs: chain.blockIntervalMs,
        moniker: chain.moniker,
        version: PROTOCOL_VERSION,
        ...(chain.keepHeights === 0 ? {} : { keepStatesBlocks: chain.keepHeights }),
      },
      {
        machine,
        validatorSigner: await loadValidatorKey(home.validatorKeyFile),
        nodeSigner: await loadNodeKey(home.nodeKeyFile),
        log,
      },
    ),
  );
  const rpc = stack.use(
    await startRpcServer({ host: chain.rpc.host, port: chain.rpc.port }, { node, log, clock: systemClock }),
  );
  const source = new EmbeddedSource(
    { listenAddr: "tcp://0.0.0.0:26656", rpcAddr: rpc.url.replace(/^http/, "tcp") },
    node,
  );
  return { application: node.application, source, urls: { rpc: rpc.url }, failed: node.ended.then(() => never) };
}

async function underCometBft(config: Config, parts: Parts, stack: AsyncDisposableStack): Promise<Engine> {
  const { home, genesis, machine, log } = parts;
  const { chain } = config;
  const store = stack.use(await openChainStore({ folder: home.dataFolder }, { log }));
  const application = new ChainApp(
    { version: PROTOCOL_VERSION, maxBlockGas: BigInt(genesis.consensus.params.block.max_gas) },
    { machine, store, log },
  );
  const rpc = stack.use(new CometRpc({ url: chain.cometRpcUrl ?? COMET_RPC }));
  const abci = stack.use(await startAbciServer({ address: chain.abciAddress }, { application, log }));
  return { application, source: new CometSource({ rpc }), urls: { abci: abci.address }, failed: undefined };
}

function partsOf(config: Config, home: ChainHome, genesis: GenesisDocument, log: Log): Parts {
  const gasPrices = gasPricesOf(config.chain.minGasPrices);
  const made = pocketMachine({ gasPrices, consensusParams: consensusParamsOfGenesis(genesis.consensus.params) });
  return { home, genesis, log, ...made };
}

/**
 * Runs a node of the chain in a folder.
 * @throws AppError DATA_FOLDER, CONFIG_INVALID, PORT_IN_USE, and those of the store.
 */
export async function startChain(
  config: Config,
  folder: string,
  modules: { readonly log: Log },
): Promise<RunningChain> {
  const { log } = modules;
  const { chain } = config;
  const home = chainHome(folder);
  const genesis = await readGenesis(home);
  const parts = partsOf(config, home, genesis, log);
  await using stack = new AsyncDisposableStack();
  const { application, source, urls, failed } = await (chain.engine === "embedded"
    ? embedded(config, parts, stack)
    : underCometBft(config, parts, stack));
  const shared = {
    surface: apiSurface(parts.modules),
    gasPrices: gasPricesOf(chain.minGasPrices),
    pruningKeepBlocks: BigInt(chain.keepHeights),
  };
  const servers = { application, source, log, clock: systemClock };
  const rest = stack.use(await startRestServer({ ...shared, ...chain.rest, cors: true }, servers));
  const grpc = stack.use(await startGrpcServer({ ...shared, ...chain.grpc }, servers));
  const owned = stack.move();
  return {
    chainId: genesis.chain_id,
    urls: {
      ...urls,
      rest: `http://${hostText(chain.rest.host)}:${rest.port}`,
      grpc: `${hostText(chain.grpc.host)}:${grpc.port}`,
    },
    failed,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The state at a height as a genesis. @throws AppError CHAIN_STORE_BUSY, HEIGHT_UNAVAILABLE. */
export async function exportChain(
  folder: string,
  modules: { readonly log: Log },
  height: bigint | undefined,
): Promise<GenesisDocument> {
  const { log } = modules;
  const home = chainHome(folder);
  const genesis = await readGenesis(home);
  const { machine } = pocketMachine({ gasPrices: [] });
  await using store = await openChainStore({ folder: home.dataFolder }, { log });
  const application = new ChainApp({ version: PROTOCOL_VERSION, maxBlockGas: -1n }, { machine, store, log });
  return { ...genesis, app_state: application.exportState(height) };
}
