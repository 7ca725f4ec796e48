import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog, systemClock } from "@turnpike/base";
import {
  ChainApp,
  consensusParamsOfGenesis,
  type GenesisDocument,
  PROTOCOL_VERSION,
  pocketMachine,
} from "@turnpike/chain";
import { AbciQueries, apiSurface, startGrpcServer, startRestServer, startRpcServer } from "@turnpike/chain-api";
import {
  type ChainSource,
  CometRpc,
  CometSource,
  type EmbeddedNode,
  EmbeddedSource,
  openEmbeddedNode,
  startAbciServer,
} from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { createEd25519Signer, sha256 } from "@turnpike/crypto";
import { freePort } from "@turnpike/localnet";
import { initComet, startComet, withoutComet, writeCometGenesis } from "./comet.ts";
import { QUICK_PROFILE, quickGenesis } from "./local-chain.ts";

/** What decides blocks. */
export type EngineName = "embedded" | "cometbft";

/** The engines, each with the reason to skip its tests. */
export const ENGINES: readonly { readonly engine: EngineName; readonly skip: string | false }[] = [
  { engine: "embedded", skip: false },
  { engine: "cometbft", skip: withoutComet },
];

/** A node of a new chain, and where strangers find it. */
export interface TestNode extends AsyncDisposable {
  readonly genesis: GenesisDocument;
  /** CometBFT's RPC. */
  readonly rpcUrl: string;
  readonly restUrl: string;
  /** `host:port` */
  readonly grpcTarget: string;
}

/** A key that is the same in every run. */
export const edSigner = (name: string) => createEd25519Signer(sha256(Buffer.from(`turnpike test ${name}`)));

const GAS_PRICES = [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }];
const HOST = "127.0.0.1";

/** The machine of a genesis, as a node has it. */
export function machineOf(genesis: GenesisDocument) {
  const consensusParams = consensusParamsOfGenesis(genesis.consensus.params);
  return pocketMachine({ gasPrices: GAS_PRICES, consensusParams });
}

async function scratch(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-chain-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

interface Served {
  readonly genesis: GenesisDocument;
  readonly application: EmbeddedNode["application"];
  readonly source: ChainSource;
  readonly modules: ReturnType<typeof machineOf>["modules"];
}

const apiOf = (modules: Served["modules"]) => ({
  surface: apiSurface(modules),
  gasPrices: GAS_PRICES,
  pruningKeepBlocks: 0n,
});

async function serve(stack: AsyncDisposableStack, { genesis, application, source, modules }: Served, rpcUrl: string) {
  const shared = { ...apiOf(modules), host: HOST, port: 0 };
  const servers = { application, source, log: silentLog, clock: systemClock };
  const rest = stack.use(await startRestServer(shared, servers));
  const grpc = stack.use(await startGrpcServer(shared, servers));
  const owned = stack.move();
  return {
    genesis,
    rpcUrl,
    restUrl: `http://${HOST}:${rest.port}`,
    grpcTarget: `${HOST}:${grpc.port}`,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What answers queries of an embedded node, and where they read blocks. */
export function embeddedQueries(node: EmbeddedNode, modules: Served["modules"]) {
  const rpcAddr = (): string => "tcp://0.0.0.0:26657";
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr }, node);
  const queries = new AbciQueries(apiOf(modules), { application: node.application, source, log: silentLog });
  return { source, queries };
}

/** An embedded node, and the test's hands on it. */
export interface EmbeddedTestNode extends TestNode {
  readonly node: Awaited<ReturnType<typeof openEmbeddedNode>>;
}

/** Starts an embedded node of a new chain, which makes a block only when the test asks for one. */
export async function startEmbedded(): Promise<EmbeddedTestNode> {
  await using stack = new AsyncDisposableStack();
  const validatorSigner = edSigner("validator");
  const genesis = quickGenesis(validatorSigner.publicKey);
  const { machine, modules } = machineOf(genesis);
  const node = stack.use(
    await openEmbeddedNode(
      { folder: await scratch(stack), genesis, moniker: "test", version: PROTOCOL_VERSION },
      { machine, validatorSigner, nodeSigner: edSigner("node") },
    ),
  );
  const { source, queries } = embeddedQueries(node, modules);
  const served = { node, queries, log: silentLog, clock: systemClock };
  const rpc = stack.use(await startRpcServer({ host: HOST, port: 0 }, served));
  return { node, ...(await serve(stack, { genesis, application: node.application, source, modules }, rpc.url)) };
}

/** Starts CometBFT with our application on a new chain, whose blocks come by its own clock. */
export async function startUnderComet(): Promise<TestNode> {
  await using stack = new AsyncDisposableStack();
  const folder = await scratch(stack);
  const home = join(folder, "home");
  const genesis = quickGenesis(initComet(home, QUICK_PROFILE.blockIntervalMs));
  writeCometGenesis(home, genesis);
  const { machine, modules } = machineOf(genesis);
  const store = stack.use(await openChainStore({ folder: join(folder, "data") }));
  const { max_gas: maxGas, max_bytes: maxBytes } = genesis.consensus.params.block;
  const bounds = { maxBlockGas: BigInt(maxGas), maxBlockBytes: BigInt(maxBytes) };
  const application = new ChainApp({ version: PROTOCOL_VERSION, ...bounds }, { machine, store });
  const address = `unix://${join(folder, "abci.sock")}`;
  const rpcPort = await freePort();
  const rpc = stack.use(new CometRpc({ url: `http://${HOST}:${rpcPort}` }));
  const source = new CometSource({ rpc });
  const queries = new AbciQueries(apiOf(modules), { application, source, log: silentLog });
  stack.use(await startAbciServer({ address }, { application, queries, log: silentLog }));
  const comet = stack.use(await startComet(home, address, rpcPort));
  return await serve(stack, { genesis, application, source, modules }, comet.rpcUrl);
}
