import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { AppError } from "@turnpike/base";
import { packPublicKey } from "@turnpike/chain-client";
import { accountAddress, moduleAddress } from "@turnpike/crypto";
import {
  type ApiJson,
  application,
  auth,
  authz,
  bank,
  base,
  createMessage,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  staking,
  supplier,
  toApiJson,
  tokenomics,
  typeUrlOf,
  upgrade,
} from "@turnpike/proto";
import { appliedRulesJson, RULES } from "../state/rules.ts";
import { STAKE_DENOM } from "../state/stakes.ts";
import type { GenesisDocument } from "./genesis-file.ts";
import { type GenesisValidator, genesisTx } from "./gentx.ts";
import type { ChainProfile } from "./profiles.ts";
import { UNBUILT_MODULES } from "./unbuilt-modules.ts";

/** An account that a chain begins with; its key is known from the start, as rings need it. */
export interface GenesisAccount {
  /** Compressed secp256k1 key, 33 bytes. */
  readonly publicKey: Uint8Array;
  readonly balanceUpokt: bigint;
}

/** What a new chain begins with. Stakes come on top of the balances. */
export interface GenesisPlan {
  readonly chainId: string;
  /** RFC 3339, in UTC. */
  readonly genesisTime: string;
  readonly profile: ChainProfile;
  readonly accounts: readonly GenesisAccount[];
  /** Receives the rewards of the DAO, and may change every parameter. */
  readonly daoAddress: string;
  readonly services: readonly shared.Service[];
  readonly applications: readonly application.Application[];
  readonly gateways: readonly gateway.Gateway[];
  readonly suppliers: readonly shared.Supplier[];
  readonly validators: readonly GenesisValidator[];
  /** Most gas of a block; {@link MOST_BLOCK_GAS} by default, -1: any. */
  readonly maxBlockGas?: bigint;
}

const coin = (amount: bigint): base.Coin =>
  createMessage(base.CoinSchema, { denom: STAKE_DENOM, amount: amount.toString() });

/** Modules whose parameters the DAO may change, whole or one at a time. */
const PARAM_MODULES = [
  "application",
  "gateway",
  "proof",
  "service",
  "session",
  "shared",
  "supplier",
  "tokenomics",
] as const;
/** Messages of the authority that the DAO may send, by type URL. */
const AUTHORITY_MESSAGES: readonly string[] = [
  ...PARAM_MODULES.flatMap((name) =>
    ["MsgUpdateParams", "MsgUpdateParam"].map((message) => `/pocket.${name}.${message}`),
  ),
  typeUrlOf(upgrade.MsgSoftwareUpgradeSchema),
  typeUrlOf(upgrade.MsgCancelUpgradeSchema),
];
const NO_EXPIRY = { seconds: BigInt(Date.UTC(2500, 0, 1) / 1_000), nanos: 0 };

function json<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): ApiJson {
  return toApiJson(schema, createMessage(schema, init));
}

function stakeOf({ stake }: { readonly stake?: base.Coin | undefined }): bigint {
  if (stake?.denom !== STAKE_DENOM) throw new AppError("INTERNAL", { detail: { missing: "a stake in upokt" } });
  return BigInt(stake.amount);
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n);

function authState(accounts: readonly GenesisAccount[]): ApiJson {
  return json(auth.GenesisStateSchema, {
    params: {
      maxMemoCharacters: 256n,
      txSigLimit: 7n,
      txSizeCostPerByte: 10n,
      sigVerifyCostEd25519: 590n,
      sigVerifyCostSecp256k1: 1000n,
    },
    accounts: accounts.map(({ publicKey }, at) => {
      const account = createMessage(auth.BaseAccountSchema, {
        address: accountAddress(publicKey),
        pubKey: packPublicKey(publicKey),
        accountNumber: BigInt(at),
      });
      return packAny(auth.BaseAccountSchema, account);
    }),
  });
}

function bankState(plan: GenesisPlan): ApiJson {
  const stakes: readonly (readonly [string, bigint])[] = [
    ["application", sum(plan.applications.map(stakeOf))],
    ["gateway", sum(plan.gateways.map(stakeOf))],
    ["supplier", sum(plan.suppliers.map(stakeOf))],
  ];
  const balances = [
    ...plan.accounts.map(({ publicKey, balanceUpokt }) => [accountAddress(publicKey), balanceUpokt] as const),
    ...stakes.map(([module, amount]) => [moduleAddress(module), amount] as const),
  ].filter(([, amount]) => amount > 0n);
  return json(bank.GenesisStateSchema, {
    params: { defaultSendEnabled: true },
    balances: balances.map(([address, amount]) => ({ address, coins: [coin(amount)] })),
    supply: [coin(sum(balances.map(([, amount]) => amount)))],
  });
}

function grants(daoAddress: string): ApiJson {
  const granter = moduleAddress("gov");
  return json(authz.GenesisStateSchema, {
    authorization: AUTHORITY_MESSAGES.map((msg) => ({
      granter,
      grantee: daoAddress,
      authorization: packAny(
        authz.GenericAuthorizationSchema,
        createMessage(authz.GenericAuthorizationSchema, { msg }),
      ),
      expiration: NO_EXPIRY,
    })),
  });
}

/**
 * Most gas of a block. The real network has no bound here, and its blocks of 22 MB could run for minutes. So much holds 800
 * claims with their limits, in sessions of 50 suppliers drawn of 262, and runs for some five seconds at most
 * (docs/decisions/0009). Clients read `max_bytes`, which is the real one's.
 */
const MOST_BLOCK_GAS = 400_000_000n;

const SHARES = { dao: 0.1, proposer: 0.05, supplier: 0.7, sourceOwner: 0.15, application: 0 };

/** `genesis.json` of a new chain. */
export function buildGenesis(plan: GenesisPlan): GenesisDocument {
  const { chainId, profile, maxBlockGas = MOST_BLOCK_GAS } = plan;
  return {
    app_name: "turnpike",
    app_version: "",
    genesis_time: plan.genesisTime,
    chain_id: chainId,
    initial_height: 1,
    app_hash: null,
    app_state: {
      ...UNBUILT_MODULES,
      // By name: a later program must begin this genesis by the same rules.
      upgrade: { rules: appliedRulesJson(RULES.map((name) => ({ name, heightBlocks: 0n }))) },
      auth: authState(plan.accounts),
      bank: bankState(plan),
      authz: grants(plan.daoAddress),
      staking: json(staking.GenesisStateSchema, {
        params: {
          unbondingTime: { seconds: 1_814_400n },
          maxValidators: 100,
          maxEntries: 7,
          historicalEntries: 0,
          bondDenom: STAKE_DENOM,
          minCommissionRate: "0",
        },
      }),
      genutil: { gen_txs: plan.validators.map((validator) => genesisTx(chainId, validator)) },
      application: json(application.GenesisStateSchema, {
        params: { maxDelegatedGateways: 7n, minStake: coin(100_000_000n) },
        applicationList: [...plan.applications],
      }),
      gateway: json(gateway.GenesisStateSchema, {
        params: { minStake: coin(1_000_000n) },
        gatewayList: [...plan.gateways],
      }),
      supplier: json(supplier.GenesisStateSchema, {
        params: { minStake: coin(1_000_000n), stakingFee: coin(1n) },
        supplierList: [...plan.suppliers],
      }),
      service: json(service.GenesisStateSchema, {
        params: { addServiceFee: coin(1_000_000_000n), targetNumRelays: 100_000n },
        serviceList: [...plan.services],
      }),
      session: json(session.GenesisStateSchema, { params: { numSuppliersPerSession: 15n } }),
      shared: json(shared.GenesisStateSchema, { params: profile.shared }),
      proof: json(proof.GenesisStateSchema, {
        params: {
          proofRequestProbability: 0.25,
          proofRequirementThreshold: coin(20_000_000n),
          proofMissingPenalty: coin(1_000_000n),
          proofSubmissionFee: coin(1n),
        },
      }),
      tokenomics: json(tokenomics.GenesisStateSchema, {
        params: {
          daoRewardAddress: plan.daoAddress,
          mintAllocationPercentages: SHARES,
          mintEqualsBurnClaimDistribution: SHARES,
          globalInflationPerClaim: 0.1,
          mintRatio: 1,
          overservicingBonusMultiplier: 1n,
        },
      }),
    },
    consensus: {
      params: {
        block: { max_bytes: "22020096", max_gas: maxBlockGas.toString() },
        evidence: { max_age_num_blocks: "100000", max_age_duration: "172800000000000", max_bytes: "1048576" },
        validator: { pub_key_types: ["ed25519"] },
        version: { app: "0" },
        abci: { vote_extensions_enable_height: "0" },
      },
    },
  };
}
