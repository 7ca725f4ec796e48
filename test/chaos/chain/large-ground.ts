import { buildGenesis, CHAIN_PROFILES, type GenesisDocument } from "@turnpike/chain";
import { type ChainSigner, createChainSigner, signTx } from "@turnpike/chain-client";
import { privateKeyFromSecret } from "@turnpike/crypto";
import { type Any, application, createMessage, packAny, proof, type session, shared } from "@turnpike/proto";
import { edSigner } from "../../support/chain/nodes.ts";

/** How much there is of everything. */
export interface LargeSize {
  readonly suppliers: number;
  readonly services: number;
  readonly applications: number;
}

/** An account that signs. */
export interface LargeAccount {
  readonly signer: ChainSigner;
  readonly number: bigint;
}

/** A chain that has not begun. */
export interface LargeGround {
  readonly genesis: GenesisDocument;
  /** By address. */
  readonly suppliers: ReadonlyMap<string, LargeAccount>;
  /** Address of an application, and a service that it is staked for: one session each. */
  readonly sessions: readonly (readonly [applicationAddress: string, serviceId: string])[];
}

/** Height of the first block that may hold claims of the first session, with the profile `fast`. */
export const CLAIM_HEIGHT = 22n;
/** Who signs the blocks. */
export const VALIDATOR = edSigner("large validator");
/** Time of the genesis. */
export const GENESIS_TIME = "2026-11-22T00:00:00Z";

const CHAIN_ID = "large";
const SERVICES_OF_SUPPLIER = 6;
const UNITS = 100n;
const RELAYS = 1_000n;
const POKT = 1_000_000n;
const coin = (amount: bigint) => ({ denom: "upokt", amount: `${amount}` });
const serviceId = (index: number): string => `service-${index}`;

/** Keys and genesis. Every supplier serves six services; every application is staked for two. */
export function makeLarge({ suppliers, services, applications }: LargeSize): LargeGround {
  const signers = (name: string, count: number): ChainSigner[] =>
    Array.from({ length: count }, (_, i) => createChainSigner(privateKeyFromSecret(Buffer.from(`large ${name} ${i}`))));
  const [operator] = signers("operator", 1) as [ChainSigner];
  const supplierSigners = signers("supplier", suppliers);
  const applicationSigners = signers("application", applications);
  const everyone = [operator, ...supplierSigners, ...applicationSigners];
  const servicesOf = (index: number): string[] => [
    serviceId(index % services),
    serviceId((index + Math.floor(services / 2)) % services),
  ];
  const genesis = buildGenesis({
    chainId: CHAIN_ID,
    genesisTime: GENESIS_TIME,
    profile: CHAIN_PROFILES.fast,
    accounts: everyone.map(({ publicKey }) => ({ publicKey, balanceUpokt: 1_000n * POKT })),
    daoAddress: operator.address,
    services: Array.from({ length: services }, (_, i) =>
      createMessage(shared.ServiceSchema, {
        id: serviceId(i),
        name: serviceId(i),
        computeUnitsPerRelay: UNITS,
        ownerAddress: operator.address,
      }),
    ),
    applications: applicationSigners.map(({ address }, i) =>
      createMessage(application.ApplicationSchema, {
        address,
        stake: coin(10_000n * POKT),
        serviceConfigs: servicesOf(i).map((id) => ({ serviceId: id })),
      }),
    ),
    gateways: [],
    suppliers: supplierSigners.map(({ address }, i) =>
      createMessage(shared.SupplierSchema, {
        ownerAddress: address,
        operatorAddress: address,
        stake: coin(1_000n * POKT),
        services: Array.from({ length: SERVICES_OF_SUPPLIER }, (_, k) => ({
          serviceId: serviceId((i * SERVICES_OF_SUPPLIER + k) % services),
          endpoints: [{ url: `https://supplier-${i}.example.com/rpc`, rpcType: shared.RPCType.JSON_RPC }],
          revShare: [{ address, revSharePercentage: 100n }],
        })),
      }),
    ),
    validators: [{ moniker: "large", signer: operator, consensusKey: VALIDATOR.publicKey, bondUpokt: 900n * POKT }],
    // Whole blocks of what is measured.
    maxBlockGas: -1n,
  });
  return {
    genesis,
    suppliers: new Map(supplierSigners.map((signer, i) => [signer.address, { signer, number: BigInt(1 + i) }])),
    sessions: applicationSigners.flatMap(({ address }, i) => servicesOf(i).map((id) => [address, id] as const)),
  };
}

function signed(message: Any, { signer, number }: LargeAccount, sequence: bigint): Uint8Array {
  const order = { kind: "ordered", sequence } as const;
  const fee = [{ denom: "upokt", amount: 1n }];
  return signTx(
    { messages: [message], chainId: CHAIN_ID, accountNumber: number, order, gasLimit: 1_000_000n, fee },
    signer,
  );
}

/** Transactions with a claim of every supplier of every session, in an order in which they can be in blocks. */
export function claimTxs({ suppliers }: LargeGround, sessions: readonly session.Session[]): Uint8Array[] {
  const sequences = new Map<string, bigint>();
  const rootHash = Buffer.alloc(48, 1);
  rootHash.writeBigUInt64BE(UNITS * RELAYS, 32);
  rootHash.writeBigUInt64BE(RELAYS, 40);
  return sessions.flatMap(({ header, suppliers: chosen }) =>
    chosen.flatMap(({ operatorAddress }) => {
      const account = suppliers.get(operatorAddress);
      if (account === undefined || header === undefined) return [];
      const claim = { supplierOperatorAddress: operatorAddress, sessionHeader: header, rootHash };
      const sequence = sequences.get(operatorAddress) ?? 0n;
      sequences.set(operatorAddress, sequence + 1n);
      return [
        signed(
          packAny(proof.MsgCreateClaimSchema, createMessage(proof.MsgCreateClaimSchema, claim)),
          account,
          sequence,
        ),
      ];
    }),
  );
}
