import { hash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { buildGenesis, CHAIN_PROFILES, type GenesisDocument, PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { type ChainSigner, createChainSigner, signTx } from "@turnpike/chain-client";
import { openEmbeddedNode } from "@turnpike/chain-node";
import { createEd25519Signer, privateKeyFromSecret } from "@turnpike/crypto";
import { type Any, application, base, createMessage, gateway, proof, shared, toApiJson } from "@turnpike/proto";

/** The chain of all measurements. */
export const CHAIN_ID = "bench";
/** The service that every supplier and every application is staked for. */
export const SERVICE_ID = "bench";
/** A service with few suppliers, whose sessions are proven: gas of claims and proofs grows with the suppliers of their service. */
export const PROVEN_SERVICE_ID = "bench-proven";
/** Compute units of a relay of either. */
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
  /** Suppliers of {@link PROVEN_SERVICE_ID}; 0 by default. With any of them every claim of the chain needs a proof. */
  readonly provers?: number;
  /** Applications of {@link PROVEN_SERVICE_ID}; 0 by default. */
  readonly provenApplications?: number;
}

/** Id of a service without suppliers. */
export const serviceIdOf = (i: number): string => `${SERVICE_ID}-${i}`;

/** An account that signs. */
export interface Account {
  readonly signer: ChainSigner;
  readonly privateKey: Uint8Array;
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
  /** Suppliers of {@link PROVEN_SERVICE_ID}. */
  readonly provers: readonly Account[];
  readonly provenApplications: readonly Account[];
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

function applicationOf({ signer: { address } }: Account, serviceId: string): application.Application {
  return createMessage(application.ApplicationSchema, {
    address,
    stake: coin(10_000n * POKT),
    serviceConfigs: [{ serviceId }],
  });
}

function supplierOf({ signer: { address }, number }: Account, serviceId: string): shared.Supplier {
  return createMessage(shared.SupplierSchema, {
    ownerAddress: address,
    operatorAddress: address,
    stake: coin(1_000n * POKT),
    services: [
      {
        serviceId,
        endpoints: [{ url: `https://supplier-${number}.example.com/rpc`, rpcType: shared.RPCType.JSON_RPC }],
        revShare: [{ address, revSharePercentage: 100n }],
      },
    ],
  });
}

/** Keys and genesis of a chain. */
export function makeGround(opts: GroundOptions): Ground {
  let next = 0n;
  const accountOf = (name: string): Account => {
    const privateKey = keyOf(name);
    return { signer: createChainSigner(privateKey), privateKey, number: next++ };
  };
  const group = (name: string, count = 0): Account[] =>
    Array.from({ length: count }, (_, i) => accountOf(`${name} ${i}`));
  const authority = accountOf("validator");
  const { signer: operator } = authority;
  const groups = {
    accounts: group("account", opts.accounts),
    suppliers: group("supplier", opts.suppliers),
    applications: group("application", opts.applications),
    gateways: group("gateway", opts.gateways),
    provers: group("prover", opts.provers),
    provenApplications: group("proven application", opts.provenApplications),
  };
  const serviceIds = [
    SERVICE_ID,
    PROVEN_SERVICE_ID,
    ...Array.from({ length: opts.services ?? 0 }, (_, i) => serviceIdOf(i)),
  ];
  const genesis = buildGenesis({
    chainId: CHAIN_ID,
    genesisTime: GENESIS_TIME,
    profile: CHAIN_PROFILES.fast,
    accounts: [authority, ...Object.values(groups).flat()].map(({ signer: { publicKey } }) => ({
      publicKey,
      balanceUpokt: 1_000_000n * POKT,
    })),
    daoAddress: operator.address,
    services: serviceIds.map((id) =>
      createMessage(shared.ServiceSchema, {
        id,
        name: id,
        computeUnitsPerRelay: UNITS_PER_RELAY,
        ownerAddress: operator.address,
      }),
    ),
    applications: [
      ...groups.applications.map((account) => applicationOf(account, SERVICE_ID)),
      ...groups.provenApplications.map((account) => applicationOf(account, PROVEN_SERVICE_ID)),
    ],
    gateways: groups.gateways.map(({ signer: { address } }) =>
      createMessage(gateway.GatewaySchema, { address, stake: coin(1_000n * POKT) }),
    ),
    suppliers: [
      ...groups.suppliers.map((account) => supplierOf(account, SERVICE_ID)),
      ...groups.provers.map((account) => supplierOf(account, PROVEN_SERVICE_ID)),
    ],
    validators: [{ moniker: "bench", signer: operator, consensusKey: VALIDATOR.publicKey, bondUpokt: 10_000n * POKT }],
    // Whole blocks of what is measured.
    maxBlockGas: -1n,
  });
  return { genesis: groups.provers.length === 0 ? genesis : withAllProofs(genesis), ...groups, authority };
}

function withAllProofs(genesis: GenesisDocument): GenesisDocument {
  const params = {
    proofRequestProbability: 1,
    proofRequirementThreshold: coin(1n),
    proofMissingPenalty: coin(POKT),
    proofSubmissionFee: coin(1n),
  };
  const state = toApiJson(proof.GenesisStateSchema, createMessage(proof.GenesisStateSchema, { params }));
  return { ...genesis, app_state: { ...genesis.app_state, proof: state } };
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
