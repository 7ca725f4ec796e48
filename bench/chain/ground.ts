import { hash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { buildGenesis, CHAIN_PROFILES, type GenesisDocument, PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { type ChainSigner, createChainSigner, signTx } from "@turnpike/chain-client";
import { openEmbeddedNode } from "@turnpike/chain-node";
import { createEd25519Signer, privateKeyFromSecret } from "@turnpike/crypto";
import { type Any, application, base, createMessage, gateway, shared } from "@turnpike/proto";

/** The chain of all measurements. */
export const CHAIN_ID = "bench";
/** The service that every supplier and every application is staked for. */
export const SERVICE_ID = "bench";
/** Compute units of one of its relays. */
export const UNITS_PER_RELAY = 100n;

const POKT = 1_000_000n;
const GENESIS_TIME = "2026-11-22T00:00:00Z";
const keyOf = (name: string): Uint8Array => privateKeyFromSecret(Buffer.from(`bench ${name}`));
const seedOf = (name: string): Uint8Array => hash("sha256", name, "buffer");
const coin = (amount: bigint): base.Coin =>
  createMessage(base.CoinSchema, { denom: "upokt", amount: amount.toString() });

/** How many of each there are in the beginning. */
export interface GroundOptions {
  readonly accounts: number;
  readonly suppliers: number;
  readonly applications: number;
  /** Services beside {@link SERVICE_ID}, without suppliers; 0 by default. Their ids are those of {@link serviceIdOf}. */
  readonly services?: number;
  /** Gateways; 0 by default. */
  readonly gateways?: number;
}

/** Id of a service without suppliers. */
export const serviceIdOf = (i: number): string => `${SERVICE_ID}-${i}`;

/** An account that signs. */
export interface Account {
  readonly signer: ChainSigner;
  readonly number: bigint;
}

/** A chain that has not begun. */
export interface Ground {
  readonly genesis: GenesisDocument;
  /** With coins and nothing else. */
  readonly accounts: readonly Account[];
  readonly suppliers: readonly Account[];
  readonly applications: readonly Account[];
  readonly gateways: readonly Account[];
  /** Account of the DAO, which owns all services, may change parameters, and is the validator's operator. */
  readonly authority: Account;
}

const VALIDATOR = createEd25519Signer(seedOf("validator"));
const NODE = createEd25519Signer(seedOf("node"));

/** The file of the key that makes the blocks, as a node's folder has it. */
export function validatorKeyFileText(): string {
  const value = Buffer.concat([seedOf("validator"), VALIDATOR.publicKey]).toString("base64");
  return `${JSON.stringify({ priv_key: { type: "tendermint/PrivKeyEd25519", value } })}\n`;
}

/** Keys and genesis of a chain. */
export function makeGround(opts: GroundOptions): Ground {
  const operator = createChainSigner(keyOf("validator"));
  const signers = (name: string, count: number): ChainSigner[] =>
    Array.from({ length: count }, (_, i) => createChainSigner(keyOf(`${name} ${i}`)));
  const groups = [
    [operator],
    signers("account", opts.accounts),
    signers("supplier", opts.suppliers),
    signers("application", opts.applications),
    signers("gateway", opts.gateways ?? 0),
  ] as const;
  let next = 0;
  const [, accounts, suppliers, applications, gateways] = groups.map((group) =>
    group.map((signer): Account => ({ signer, number: BigInt(next++) })),
  ) as [Account[], Account[], Account[], Account[], Account[]];
  const serviceIds = [SERVICE_ID, ...Array.from({ length: opts.services ?? 0 }, (_, i) => serviceIdOf(i))];
  const genesis = buildGenesis({
    chainId: CHAIN_ID,
    genesisTime: GENESIS_TIME,
    profile: CHAIN_PROFILES.fast,
    accounts: groups.flat().map(({ publicKey }) => ({ publicKey, balanceUpokt: 1_000_000n * POKT })),
    daoAddress: operator.address,
    services: serviceIds.map((id) =>
      createMessage(shared.ServiceSchema, {
        id,
        name: id,
        computeUnitsPerRelay: UNITS_PER_RELAY,
        ownerAddress: operator.address,
      }),
    ),
    applications: applications.map(({ signer: { address } }) =>
      createMessage(application.ApplicationSchema, {
        address,
        stake: coin(10_000n * POKT),
        serviceConfigs: [{ serviceId: SERVICE_ID }],
      }),
    ),
    gateways: gateways.map(({ signer: { address } }) =>
      createMessage(gateway.GatewaySchema, { address, stake: coin(1_000n * POKT) }),
    ),
    suppliers: suppliers.map(({ signer: { address } }, i) =>
      createMessage(shared.SupplierSchema, {
        ownerAddress: address,
        operatorAddress: address,
        stake: coin(1_000n * POKT),
        services: [
          {
            serviceId: SERVICE_ID,
            endpoints: [{ url: `https://supplier-${i}.example.com/rpc`, rpcType: shared.RPCType.JSON_RPC }],
            revShare: [{ address, revSharePercentage: 100n }],
          },
        ],
      }),
    ),
    validators: [{ moniker: "bench", signer: operator, consensusKey: VALIDATOR.publicKey, bondUpokt: 10_000n * POKT }],
    // Whole blocks of what is measured.
    maxBlockGas: -1n,
  });
  return { genesis, accounts, suppliers, applications, gateways, authority: { signer: operator, number: 0n } };
}

/** A folder that is removed in the end. */
export async function scratchFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "turnpike-bench-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A node whose blocks are made by hand. */
export type BenchNode = Awaited<ReturnType<typeof openEmbeddedNode>>;

/** Begins a chain in a folder. */
export async function beginChain({ genesis }: Ground, folder: string): Promise<BenchNode> {
  const { machine } = pocketMachine({ gasPrices: [] });
  // Blocks are a second apart, however fast they are made.
  let nowMs = Date.parse(GENESIS_TIME);
  return openEmbeddedNode(
    { folder, genesis, moniker: "bench", version: PROTOCOL_VERSION },
    {
      machine,
      validatorSigner: VALIDATOR,
      nodeSigner: NODE,
      clock: { nowMs: () => (nowMs += 1_000), monotonicMs: () => nowMs },
    },
  );
}

/** A transaction of one message, or of one many times. */
export function signed(message: Any, { signer, number }: Account, sequence: bigint, times = 1): Uint8Array {
  return signTx(
    {
      messages: Array.from({ length: times }, () => message),
      chainId: CHAIN_ID,
      accountNumber: number,
      order: { kind: "ordered", sequence },
      gasLimit: 100_000_000n,
      fee: [{ denom: "upokt", amount: 1n }],
    },
    signer,
  );
}

/** Puts transactions into the mempool. @throws AppError when one is refused */
export function submitAll(node: BenchNode, txs: readonly Uint8Array[]): void {
  for (const tx of txs) {
    const answer = node.submit(tx);
    if (answer.kind === "checked" && answer.result.code === 0) continue;
    const why = answer.kind === "checked" ? answer.result.log : answer.kind;
    throw new AppError("INTERNAL", { message: `A transaction was refused: ${why}` });
  }
}

/** Makes a block that has this many transactions, all of them good. @throws AppError when it is not so */
export async function fullBlock(node: BenchNode, count: number): Promise<void> {
  const { block } = await node.produceBlock();
  const results = node.blocks.results(block.header.height)?.txResults ?? [];
  const bad = results.find(({ code }) => code !== 0);
  if (results.length === count && bad === undefined) return;
  throw new AppError("INTERNAL", { message: `${results.length} of ${count} in the block: ${bad?.log ?? ""}` });
}

/** CPU of this process that `work` takes, in microseconds. */
export async function cpuOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
