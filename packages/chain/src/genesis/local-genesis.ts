import { utf8ToBytes } from "@turnpike/base";
import type { ChainSigner } from "@turnpike/chain-client";
import { accountAddress } from "@turnpike/crypto";
import { application, base, createMessage, gateway, shared } from "@turnpike/proto";
import { STAKE_DENOM } from "../state/stakes.ts";
import { buildGenesis, type GenesisAccount } from "./build-genesis.ts";
import type { GenesisDocument } from "./genesis-file.ts";
import { economyAccounts, economyApplications, economySuppliers, type LocalEconomy } from "./local-economy.ts";
import type { ChainProfile } from "./profiles.ts";

/** Accounts of a chain for trying and testing. The faucet has no other role. */
export const LOCAL_ROLES = [
  "faucet",
  "dao",
  "validator",
  "delegator",
  "service-owner",
  "application-1",
  "application-2",
  "gateway-1",
  "gateway-2",
  "supplier-1",
  "supplier-2",
  "supplier-2-owner",
] as const;

/** One of {@link LOCAL_ROLES}. */
export type LocalRole = (typeof LOCAL_ROLES)[number];

/** A service that a local chain begins with. */
export interface LocalService {
  readonly id: string;
  readonly name: string;
}

/** What a local chain is made of. */
export interface LocalChain {
  readonly chainId: string;
  /** RFC 3339, in UTC. */
  readonly genesisTime: string;
  readonly profile: ChainProfile;
  readonly signers: Readonly<Record<LocalRole, ChainSigner>>;
  /** Name of the validator for people; `turnpike` by default. */
  readonly moniker?: string;
  /** Ed25519 key of the validator, 32 bytes. */
  readonly consensusKey: Uint8Array;
  /** Stake of each validator in upokt; 10,000 POKT by default. */
  readonly bondUpokt?: bigint;
  /** Validators beside that one, with the same stake. */
  readonly moreValidators?: readonly LocalValidator[];
  /** The first one is staked for, and has a card. */
  readonly services: readonly [LocalService, ...LocalService[]];
  /** Further accounts, without a role and without money. */
  readonly visitors?: readonly Visitor[];
  /** Where the suppliers' relay miners are. */
  readonly supplierUrls: readonly [string, string];
  /** Suppliers in the place of these two, and further applications. */
  readonly economy?: LocalEconomy;
}

/** A validator beside the first, whose account has no other role. */
export interface LocalValidator {
  readonly moniker: string;
  /** Account that bonds and operates it. */
  readonly signer: ChainSigner;
  /** Ed25519 key that signs blocks, 32 bytes. */
  readonly consensusKey: Uint8Array;
}

/** An account that has no role, and perhaps an application. */
export interface Visitor {
  /** Compressed secp256k1 key, 33 bytes. */
  readonly publicKey: Uint8Array;
  /** The service that an application of this account is staked for. */
  readonly applicationFor?: string;
}

const POKT = 1_000_000n;
const FAUCET_UPOKT = 1_000_000_000n * POKT;
const PURSE_UPOKT = 1_000_000n * POKT;
const BOND_UPOKT = 10_000n * POKT;
const COMPUTE_UNITS_PER_RELAY = 100n;
const coin = (amount: bigint): base.Coin =>
  createMessage(base.CoinSchema, { denom: STAKE_DENOM, amount: amount.toString() });

function supplierOf(
  serviceId: string,
  url: string,
  parties: { readonly owner: string; readonly operator: string },
  shares: readonly (readonly [string, bigint])[],
): shared.Supplier {
  return createMessage(shared.SupplierSchema, {
    ownerAddress: parties.owner,
    operatorAddress: parties.operator,
    stake: coin(1_000n * POKT),
    services: [
      {
        serviceId,
        endpoints: [{ url, rpcType: shared.RPCType.JSON_RPC }],
        revShare: shares.map(([address, revSharePercentage]) => ({ address, revSharePercentage })),
      },
    ],
  });
}

function twoSuppliers({ signers, services: [first], supplierUrls }: LocalChain): shared.Supplier[] {
  const at = (role: LocalRole): string => signers[role].address;
  return [
    supplierOf(first.id, supplierUrls[0], { owner: at("supplier-1"), operator: at("supplier-1") }, [
      [at("supplier-1"), 100n],
    ]),
    supplierOf(first.id, supplierUrls[1], { owner: at("supplier-2-owner"), operator: at("supplier-2") }, [
      [at("supplier-2-owner"), 60n],
      [at("supplier-2"), 40n],
    ]),
  ];
}

/**
 * `genesis.json` of a chain for trying and testing: two applications on one service, one of them delegated, one with a
 * spend limit; two gateways, one with a card; two suppliers, one with an owner of its own and split shares; a DAO; and one
 * validator or more. Every account has its key.
 */
export function localGenesis(chain: LocalChain): GenesisDocument {
  const { signers, services, consensusKey } = chain;
  const [first] = services;
  const at = (role: LocalRole): string => signers[role].address;
  const accounts: GenesisAccount[] = LOCAL_ROLES.map((role) => ({
    publicKey: signers[role].publicKey,
    balanceUpokt: role === "faucet" ? FAUCET_UPOKT : PURSE_UPOKT,
  }));
  const { visitors = [], moniker = "turnpike", moreValidators = [], economy } = chain;
  const operators = moreValidators.map(({ signer }) => ({ publicKey: signer.publicKey, balanceUpokt: PURSE_UPOKT }));
  const more =
    economy === undefined
      ? []
      : economyAccounts(
          economy,
          accounts.map(({ publicKey }) => publicKey),
        );
  const card = (text: string) => createMessage(shared.MetadataSchema, { card: utf8ToBytes(text) });
  return buildGenesis({
    chainId: chain.chainId,
    genesisTime: chain.genesisTime,
    profile: chain.profile,
    // Behind the others: numbers of accounts stay what they are without them.
    accounts: [
      ...accounts,
      ...visitors.map(({ publicKey }) => ({ publicKey, balanceUpokt: 0n })),
      ...operators,
      ...more,
    ],
    daoAddress: at("dao"),
    services: services.map(({ id, name }, index) =>
      createMessage(shared.ServiceSchema, {
        id,
        name,
        computeUnitsPerRelay: COMPUTE_UNITS_PER_RELAY,
        ownerAddress: at("service-owner"),
        ...(index === 0 ? { metadata: card(JSON.stringify({ name, description: `Relays of ${name}.` })) } : {}),
      }),
    ),
    applications: [
      createMessage(application.ApplicationSchema, {
        address: at("application-1"),
        stake: coin(10_000n * POKT),
        serviceConfigs: [{ serviceId: first.id }],
        delegateeGatewayAddresses: [at("gateway-1")],
      }),
      createMessage(application.ApplicationSchema, {
        address: at("application-2"),
        stake: coin(10_000n * POKT),
        serviceConfigs: [{ serviceId: first.id }],
        perSessionSpendLimit: coin(5n * POKT),
      }),
      ...visitors.flatMap(({ publicKey, applicationFor }) =>
        applicationFor === undefined
          ? []
          : createMessage(application.ApplicationSchema, {
              address: accountAddress(publicKey),
              stake: coin(100n * POKT),
              serviceConfigs: [{ serviceId: applicationFor }],
            }),
      ),
      ...(economy === undefined ? [] : economyApplications(economy, at("gateway-1"))),
    ],
    gateways: [
      createMessage(gateway.GatewaySchema, { address: at("gateway-1"), stake: coin(5n * POKT) }),
      createMessage(gateway.GatewaySchema, {
        address: at("gateway-2"),
        stake: coin(5n * POKT),
        metadata: card(JSON.stringify({ name: "A gateway with a card" })),
      }),
    ],
    suppliers: economy === undefined ? twoSuppliers(chain) : economySuppliers(economy),
    validators: [{ moniker, signer: signers.validator, consensusKey }, ...moreValidators].map((validator) => ({
      ...validator,
      bondUpokt: chain.bondUpokt ?? BOND_UPOKT,
    })),
  });
}
