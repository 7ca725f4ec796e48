import type { ChainSigner } from "@turnpike/chain-client";
import { application, base, createMessage, shared } from "@turnpike/proto";
import { STAKE_DENOM } from "../state/stakes.ts";
import type { GenesisAccount } from "./build-genesis.ts";

/** A service that suppliers of a local chain serve, and how it may be called. */
export interface SuppliedService {
  readonly serviceId: string;
  readonly rpcTypes: readonly shared.RPCType[];
}

/** A supplier of every service of a {@link LocalEconomy}. */
export interface LocalSupplier {
  readonly operator: ChainSigner;
  readonly owner: ChainSigner;
  /** `http://` address of its relay server; sockets are dialled at the same one with `ws://`. */
  readonly url: string;
  /** Percent of its reward that go to the operator; the owner has the rest. 0 to 100. */
  readonly operatorSharePercent: number;
}

/** An application that pays for the relays of one service. */
export interface LocalApplication {
  readonly signer: ChainSigner;
  readonly serviceId: string;
}

/** Stakes for services that are served from a chain's first session on. */
export interface LocalEconomy {
  readonly services: readonly SuppliedService[];
  readonly suppliers: readonly LocalSupplier[];
  /** Beside `application-1`, which pays for the first service. All are delegated to `gateway-1`. */
  readonly applications: readonly LocalApplication[];
}

const POKT = 1_000_000n;
const PURSE_UPOKT = 1_000_000n * POKT;
const APPLICATION_STAKE_UPOKT = 100_000n * POKT;
const SUPPLIER_STAKE_UPOKT = 1_000n * POKT;

const coin = (amount: bigint): base.Coin =>
  createMessage(base.CoinSchema, { denom: STAKE_DENOM, amount: amount.toString() });

function revenueShares({ operator, owner, operatorSharePercent }: LocalSupplier) {
  const own = BigInt(operatorSharePercent);
  const shares = [
    { address: owner.address, revSharePercentage: 100n - own },
    { address: operator.address, revSharePercentage: own },
  ];
  // An owner that operates for itself has one share: addresses may not repeat.
  if (owner.address === operator.address) return [{ address: owner.address, revSharePercentage: 100n }];
  return shares.filter(({ revSharePercentage }) => revSharePercentage > 0n);
}

/** The stakes of an economy's suppliers: each of them serves every service. */
export function economySuppliers({ services, suppliers }: LocalEconomy): shared.Supplier[] {
  return suppliers.map((supplier) =>
    createMessage(shared.SupplierSchema, {
      ownerAddress: supplier.owner.address,
      operatorAddress: supplier.operator.address,
      stake: coin(SUPPLIER_STAKE_UPOKT),
      services: services.map(({ serviceId, rpcTypes }) => ({
        serviceId,
        endpoints: rpcTypes.map((rpcType) => ({
          url: rpcType === shared.RPCType.WEBSOCKET ? supplier.url.replace(/^http/, "ws") : supplier.url,
          rpcType,
        })),
        revShare: revenueShares(supplier),
      })),
    }),
  );
}

/** The stakes of an economy's applications. @param gatewayAddress to which each is delegated */
export function economyApplications({ applications }: LocalEconomy, gatewayAddress: string): application.Application[] {
  return applications.map(({ signer, serviceId }) =>
    createMessage(application.ApplicationSchema, {
      address: signer.address,
      stake: coin(APPLICATION_STAKE_UPOKT),
      serviceConfigs: [{ serviceId }],
      delegateeGatewayAddresses: [gatewayAddress],
    }),
  );
}

/** Accounts of an economy that the chain has for no other reason. @param known compressed keys of those it has */
export function economyAccounts(
  { suppliers, applications }: LocalEconomy,
  known: readonly Uint8Array[],
): GenesisAccount[] {
  const seen = new Set(known.map((key) => Buffer.from(key).toString("hex")));
  const signers = [
    ...suppliers.flatMap(({ operator, owner }) => [operator, owner]),
    ...applications.map((a) => a.signer),
  ];
  return signers.flatMap(({ publicKey }) => {
    const name = Buffer.from(publicKey).toString("hex");
    if (seen.has(name)) return [];
    seen.add(name);
    return [{ publicKey, balanceUpokt: PURSE_UPOKT }];
  });
}
