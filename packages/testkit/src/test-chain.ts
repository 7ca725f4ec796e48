import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRecord, silentLog, systemClock } from "@turnpike/base";
import type { GenesisDocument } from "@turnpike/chain";
import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { createEd25519Signer, privateKeyFromSecret, sha256 } from "@turnpike/crypto";
import { application, base, createMessage, gateway, shared } from "@turnpike/proto";

/** An account of a {@link TestChain}, with its key. */
export interface ChainParty extends ChainSigner {
  readonly privateKey: Uint8Array;
}

/** The party of a name, always with the same key. */
export function chainParty(name: string): ChainParty {
  const privateKey = privateKeyFromSecret(Buffer.from(`turnpike test ${name}`));
  return { ...createChainSigner(privateKey), privateKey };
}

/** What a {@link TestChain} begins with. Names are those of {@link chainParty}; every one has an account with its key. */
export interface TestChainOptions {
  /** `pocket` by default. */
  readonly chainId?: string;
  /** By id, with compute units; `eth` with 100 by default. */
  readonly services?: Readonly<Record<string, bigint>>;
  /** Applications by name: service and gateways; `app` for `eth`, delegated to `gateway`, by default. */
  readonly applications?: Readonly<Record<string, TestApplication>>;
  /** Staked gateways; `gateway` by default. */
  readonly gateways?: readonly string[];
  /** Suppliers by name; `supplier` for `eth` by default. */
  readonly suppliers?: Readonly<Record<string, TestSupplier>>;
  /** Further accounts. */
  readonly accounts?: readonly string[];
  /** Changes of the shared parameters: sessions of six blocks, settled 16 blocks after their end, by default. */
  readonly shared?: Partial<Omit<shared.Params, "$typeName" | "$unknown">>;
  /** Changes of other modules' parameters in the genesis, as its JSON has them: `{ proof: { proof_request_probability: 1 } }`. */
  readonly params?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Blocks come by themselves; without it the test makes them. */
  readonly blockIntervalMs?: number;
  /** upokt of every account; 1,000,000,000,000 by default. By name for some. */
  readonly balanceUpokt?: bigint;
  readonly balances?: Readonly<Record<string, bigint>>;
  /** Maximum gas of a block; the default of a genesis otherwise. */
  readonly maxBlockGas?: bigint;
}

/** An application of a {@link TestChain}. */
export interface TestApplication {
  readonly service: string;
  /** Names of gateways. */
  readonly gateways?: readonly string[];
  /** 10,000 POKT by default. */
  readonly stakeUpokt?: bigint;
}

/** The protocol's name of a way to speak with a supplier. */
type RpcTypeName = "GRPC" | "WEBSOCKET" | "JSON_RPC" | "REST" | "COMET_BFT";

/** A supplier of a {@link TestChain}. */
export interface TestSupplier {
  readonly services: readonly string[];
  /** Name of the owner; itself by default. */
  readonly owner?: string;
  /** Percentages by name; everything to the operator by default. */
  readonly shares?: Readonly<Record<string, bigint>>;
  /** `http://127.0.0.1:1` by default. */
  readonly url?: string;
  /** What it serves there; JSON_RPC by default. */
  readonly rpcTypes?: readonly RpcTypeName[];
}

/** A chain of its own, with one embedded node. */
export interface TestChain extends AsyncDisposable {
  readonly chainId: string;
  readonly genesis: GenesisDocument;
  /** Where the node's RPC listens; the same over {@link stopRpc} and {@link startRpc}. */
  readonly rpcUrl: string;
  readonly heightBlocks: bigint;
  /** Makes blocks of what waits in the mempool; one by default. */
  produce(blocks?: number): Promise<void>;
  /** Makes blocks up to a height. */
  reach(heightBlocks: bigint): Promise<void>;
  /** Transactions that wait for a block. */
  readonly waitingTxs: number;
  /** Ends the RPC and its connections, as a dead node does. Blocks can still be made. */
  stopRpc(): Promise<void>;
  startRpc(): Promise<void>;
}

const HOST = "127.0.0.1";
const GAS_PRICES = [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }];
const POKT = 1_000_000n;
const JSON_RPC_ALONE: readonly RpcTypeName[] = ["JSON_RPC"];
const coin = (amount: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });
const edSigner = (name: string) => createEd25519Signer(sha256(Buffer.from(`turnpike test ${name}`)));

const SHARED = {
  numBlocksPerSession: 6n,
  gracePeriodEndOffsetBlocks: 1n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 6n,
  proofWindowOpenOffsetBlocks: 1n,
  proofWindowCloseOffsetBlocks: 7n,
  supplierUnbondingPeriodSessions: 4n,
  applicationUnbondingPeriodSessions: 4n,
  gatewayUnbondingPeriodSessions: 1n,
  computeUnitsToTokensMultiplier: 42_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
};

// Loaded when it is needed: most tests that use this package have no chain.
const chainPackage = () => import("@turnpike/chain");
const nodePackage = () => import("@turnpike/chain-node");
const apiPackage = () => import("@turnpike/chain-api");

async function genesisOf(options: TestChainOptions): Promise<GenesisDocument> {
  const { buildGenesis } = await chainPackage();
  const {
    services = { eth: 100n },
    applications = { app: { service: "eth", gateways: ["gateway"] } },
    gateways = ["gateway"],
    suppliers = { supplier: { services: ["eth"] } },
    accounts = [],
  } = options;
  const parties = Object.values(suppliers).flatMap(({ owner, shares = {} }) =>
    [owner ?? [], Object.keys(shares)].flat(),
  );
  const names = new Set(["validator", "dao", "service-owner", "faucet", ...gateways, ...Object.keys(applications)]);
  for (const name of [...Object.keys(suppliers), ...parties, ...accounts]) names.add(name);
  const at = (name: string): string => chainParty(name).address;
  const built = buildGenesis({
    chainId: options.chainId ?? "pocket",
    genesisTime: new Date(systemClock.nowMs()).toISOString(),
    profile: {
      blockIntervalMs: options.blockIntervalMs ?? 100,
      shared: createMessage(shared.ParamsSchema, { ...SHARED, ...options.shared }),
    },
    accounts: [...names].map((name) => ({
      publicKey: chainParty(name).publicKey,
      balanceUpokt: options.balances?.[name] ?? options.balanceUpokt ?? 1_000_000n * POKT,
    })),
    daoAddress: at("dao"),
    ...(options.maxBlockGas === undefined ? {} : { maxBlockGas: options.maxBlockGas }),
    services: Object.entries(services).map(([id, computeUnitsPerRelay]) =>
      createMessage(shared.ServiceSchema, { id, name: id, computeUnitsPerRelay, ownerAddress: at("service-owner") }),
    ),
    applications: Object.entries(applications).map(([name, { service, gateways: to = [], stakeUpokt }]) =>
      createMessage(application.ApplicationSchema, {
        address: at(name),
        stake: coin(stakeUpokt ?? 10_000n * POKT),
        serviceConfigs: [{ serviceId: service }],
        delegateeGatewayAddresses: to.map(at),
      }),
    ),
    gateways: gateways.map((name) =>
      createMessage(gateway.GatewaySchema, { address: at(name), stake: coin(5n * POKT) }),
    ),
    suppliers: Object.entries(suppliers).map(
      ([name, { services: served, owner = name, shares, url, rpcTypes = JSON_RPC_ALONE }]) =>
        createMessage(shared.SupplierSchema, {
          ownerAddress: at(owner),
          operatorAddress: at(name),
          stake: coin(1_000n * POKT),
          services: served.map((serviceId) => ({
            serviceId,
            endpoints: rpcTypes.map((rpcType) => ({
              url: url ?? "http://127.0.0.1:1",
              rpcType: shared.RPCType[rpcType],
            })),
            revShare: Object.entries(shares ?? { [name]: 100n }).map(([to, revSharePercentage]) => ({
              address: at(to),
              revSharePercentage,
            })),
          })),
        }),
    ),
    validators: [
      {
        moniker: "test",
        signer: chainParty("validator"),
        consensusKey: edSigner("validator").publicKey,
        bondUpokt: 10_000n * POKT,
      },
    ],
  });
  const state = Object.entries(built.app_state).map(([name, own]) => {
    const changed = options.params?.[name];
    if (changed === undefined || !isRecord(own) || !isRecord(own.params)) return [name, own];
    return [name, { ...own, params: { ...own.params, ...changed } }];
  });
  return { ...built, app_state: Object.fromEntries(state) };
}

/** Starts a {@link TestChain} at its first block. */
export async function startTestChain(options: TestChainOptions = {}): Promise<TestChain> {
  const [chain, chainNode, api] = await Promise.all([chainPackage(), nodePackage(), apiPackage()]);
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-test-chain-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const genesis = await genesisOf(options);
  const consensusParams = chain.consensusParamsOfGenesis(genesis.consensus.params);
  const { machine, modules } = chain.pocketMachine({ gasPrices: GAS_PRICES, consensusParams });
  const { blockIntervalMs } = options;
  const node = stack.use(
    await chainNode.openEmbeddedNode(
      {
        folder,
        genesis,
        moniker: "test",
        version: chain.PROTOCOL_VERSION,
        ...(blockIntervalMs === undefined ? {} : { blockIntervalMs }),
      },
      { machine, validatorSigner: edSigner("validator"), nodeSigner: edSigner("node") },
    ),
  );
  const source = new chainNode.EmbeddedSource(
    { listenAddr: "tcp://0.0.0.0:26656", rpcAddr: () => "tcp://0.0.0.0:26657" },
    node,
  );
  const queries = new api.AbciQueries(
    { surface: api.apiSurface(modules), gasPrices: GAS_PRICES, pruningKeepBlocks: 0n },
    { application: node.application, source, log: silentLog },
  );
  const serve = (port: number) =>
    api.startRpcServer({ host: HOST, port }, { node, queries, log: silentLog, clock: systemClock });
  const heightBlocks = (): bigint => node.blocks.latestHeightBlocks();
  if (blockIntervalMs === undefined) await node.produceBlock();
  let rpc: Awaited<ReturnType<typeof serve>> | undefined = await serve(0);
  stack.defer(async () => rpc?.[Symbol.asyncDispose]());
  const { url } = rpc;
  const port = Number(new URL(url).port);
  const owned = stack.move();
  return {
    chainId: genesis.chain_id,
    genesis,
    rpcUrl: url,
    get heightBlocks() {
      return heightBlocks();
    },
    get waitingTxs() {
      return node.mempool.numTxs();
    },
    async produce(blocks = 1) {
      for (let i = 0; i < blocks; i++) await node.produceBlock();
    },
    async reach(height) {
      while (heightBlocks() < height) await node.produceBlock();
    },
    async stopRpc() {
      await rpc?.[Symbol.asyncDispose]();
      rpc = undefined;
    },
    async startRpc() {
      rpc ??= await serve(port);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
