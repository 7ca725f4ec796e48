import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";
import { encodeBech32, sha256, VALIDATOR_PREFIX } from "@turnpike/crypto";
import {
  application,
  auth,
  authz,
  bank,
  createMessage,
  cryptoEd25519,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  staking,
  supplier,
  tokenomics,
  typeUrlOf,
  upgrade,
} from "@turnpike/proto";
import { getApplication, stakeUpokt } from "../src/modules/application/state.ts";
import { getGateway } from "../src/modules/gateway/state.ts";
import { getService } from "../src/modules/service/state.ts";
import { getSharedParams } from "../src/modules/shared/state.ts";
import { getDehydratedSupplier } from "../src/modules/supplier/state.ts";
import { getTokenomicsParams } from "../src/modules/tokenomics/state.ts";
import { upokt } from "../src/state/stakes.ts";
import { bytesOfAddress } from "./recorded-tx.ts";
import type { Game } from "./session-games.ts";
import { GOV, type Party, Work } from "./session-life.ts";

/** A move of a game: a message of one kind, by and to somebody. */
export interface Move {
  readonly kind: number;
  readonly who: number;
  readonly to: number;
  readonly amount: number;
}

/** A kind of moves: all of them send one type of message. */
export interface MoveKind {
  readonly schema: DescMessage;
  /** Makes the message; undefined where the game has none of the kind. */
  readonly make: (game: Game, move: Move) => Message | undefined;
}

/** Compute units of a relay of a service before its first change. */
export const UNITS = 1_000_000n;
/** Services of every game; moves may add another. */
export const SERVICES = ["svc", "svc2"] as const;
const MORE_SERVICE = "svc3";
/** Stake of an application before its first change. */
export const APPLICATION_STAKE_UPOKT = 120_000_000n;
const MILLION = 1_000_000n;
/** One in units of a commission rate. */
export const RATE_ONE = 10n ** 18n;

/** The item of a list at an index, which may exceed it. */
export function pick<T>(list: readonly T[], at: number): T {
  return list[at % list.length] as T;
}

/** Operator address of a party's validator. */
export function validatorAddress({ address }: Party): string {
  return encodeBech32(VALIDATOR_PREFIX, bytesOfAddress(address));
}

/** Message that makes a party a validator. */
export function newValidator(who: Party, tokensUpokt: bigint, rate: bigint): staking.MsgCreateValidator {
  const key = createMessage(cryptoEd25519.PubKeySchema, { key: sha256(Buffer.from(`consensus ${who.address}`)) });
  return createMessage(staking.MsgCreateValidatorSchema, {
    description: { moniker: "a validator" },
    commission: { rate: `${rate}`, maxRate: `${RATE_ONE}`, maxChangeRate: `${RATE_ONE}` },
    minSelfDelegation: "1",
    validatorAddress: validatorAddress(who),
    pubkey: packAny(cryptoEd25519.PubKeySchema, key),
    value: upokt(tokensUpokt),
  });
}

function kind<Desc extends DescMessage>(
  schema: Desc,
  make: (game: Game, move: Move) => MessageInitShape<Desc> | undefined,
): MoveKind {
  return {
    schema,
    make: (game, move) => {
      const init = make(game, move);
      return init === undefined ? undefined : createMessage(schema, init);
    },
  };
}

const coin = (amount: bigint) => [upokt(amount)];

/** Moves that change what sessions under way depend on. */
const MAIN: readonly MoveKind[] = [
  kind(application.MsgStakeApplicationSchema, ({ chain, applications }, { who, to, amount }) => {
    const { address } = pick(applications, who);
    const record = getApplication(chain.ctx, address);
    const limit = pick([undefined, 0n, 1_000_000n, 9_000_000n], amount);
    return {
      address,
      stake: upokt(record === undefined ? APPLICATION_STAKE_UPOKT : stakeUpokt(record) + 1n),
      services: [{ serviceId: pick(SERVICES, to % 5 === 0 ? 1 : 0) }],
      ...(limit === undefined ? {} : { perSessionSpendLimit: upokt(limit) }),
    };
  }),
  kind(application.MsgUnstakeApplicationSchema, ({ applications }, { who }) => ({
    address: pick(applications, who).address,
  })),
  kind(application.MsgDelegateToGatewaySchema, ({ applications, gateways }, { who, to }) => ({
    appAddress: pick(applications, who).address,
    gatewayAddress: pick(gateways, to).address,
  })),
  kind(application.MsgUndelegateFromGatewaySchema, ({ chain, applications, gateways }, { who, to }) => {
    const { address: appAddress } = pick(applications, who);
    const delegated = getApplication(chain.ctx, appAddress)?.delegateeGatewayAddresses ?? [];
    const gatewayAddress = delegated.length > 0 ? pick(delegated, to) : pick(gateways, to).address;
    return { appAddress, gatewayAddress };
  }),
  kind(application.MsgTransferApplicationSchema, ({ applications }, { who, to }) => ({
    sourceAddress: pick(applications, who).address,
    destinationAddress: pick(applications, to).address,
  })),
  kind(gateway.MsgUnstakeGatewaySchema, ({ gateways }, { who }) => ({ address: pick(gateways, who).address })),
  kind(gateway.MsgStakeGatewaySchema, ({ chain, gateways }, { who, amount }) => {
    const { address } = pick(gateways, who);
    const stake = BigInt(getGateway(chain.ctx, address)?.stake?.amount ?? 2_000_000) + 1n;
    return { address, stake: upokt(stake + BigInt(amount)) };
  }),
  kind(supplier.MsgStakeSupplierSchema, (game, { who, to, amount }) =>
    supplierInit(game, pick(game.allSuppliers, who), [to, amount]),
  ),
  kind(supplier.MsgUnstakeSupplierSchema, ({ chain, allSuppliers }, { who, to }) => {
    const { address: operatorAddress } = pick(allSuppliers, who);
    const owner = getDehydratedSupplier(chain.ctx, operatorAddress)?.ownerAddress ?? operatorAddress;
    return { signer: pick([operatorAddress, owner], to), operatorAddress };
  }),
  kind(service.MsgTransferServiceSchema, ({ chain, owners, gateways }, { who, to, amount }) => {
    const serviceId = pick(SERVICES, who);
    const ownerAddress = getService(chain.ctx, serviceId)?.ownerAddress ?? "";
    return { ownerAddress, serviceId, newOwnerAddress: pick([...owners, ...gateways], to + amount).address };
  }),
  kind(service.MsgAddServiceSchema, ({ chain }, { who, amount }) => {
    const id = pick(SERVICES, who);
    const ownerAddress = getService(chain.ctx, id)?.ownerAddress ?? "";
    const computeUnitsPerRelay = UNITS + BigInt(amount % 3) * 250_000n;
    return { ownerAddress, service: { id, name: id, computeUnitsPerRelay, ownerAddress } };
  }),
  kind(shared.MsgUpdateParamSchema, (_, { to, amount }) => ({ authority: GOV, ...sharedParam(to, amount) })),
  kind(shared.MsgUpdateParamsSchema, ({ chain }, { amount }) => ({
    authority: GOV,
    params: { ...getSharedParams(chain.ctx), ...pick(TIMES, amount) },
  })),
  kind(tokenomics.MsgUpdateParamSchema, (game, { to, amount }) => ({
    authority: GOV,
    ...tokenomicsParam(game, to, amount),
  })),
];

/** A new or changed stake: other shares, other services, another amount or another owner. */
function supplierInit({ chain, owners, gateways }: Game, who: Party, [to, amount]: readonly [number, number]) {
  const { address: operatorAddress } = who;
  const owner = getDehydratedSupplier(chain.ctx, operatorAddress)?.ownerAddress ?? operatorAddress;
  const parties = { signer: operatorAddress, ownerAddress: owner, operatorAddress };
  const stake = upokt(100_000_000n - BigInt(amount % 4) * 20_000_000n);
  // An owner that is not the operator changes the owner or the stake, but no services.
  if (amount % 5 === 0) {
    return { ...parties, signer: owner, ownerAddress: pick([who, ...gateways], to).address, stake, services: [] };
  }
  const endpoints = [{ url: "https://b.example", rpcType: shared.RPCType.JSON_RPC }];
  const partner = pick(owners, amount).address;
  const percentage = BigInt(10 * (1 + (to % 9)));
  const revShare =
    partner === operatorAddress
      ? [{ address: operatorAddress, revSharePercentage: 100n }]
      : [
          { address: partner, revSharePercentage: percentage },
          { address: operatorAddress, revSharePercentage: 100n - percentage },
        ];
  const ids = amount % 7 === 0 ? SERVICES : [pick(SERVICES, to % 3 === 0 ? 1 : 0)];
  return { ...parties, stake, services: ids.map((serviceId) => ({ serviceId, endpoints, revShare })) };
}

/** Lengths of sessions and windows: usual, long and as short as can be. */
const TIMES = [
  {
    numBlocksPerSession: 4n,
    gracePeriodEndOffsetBlocks: 1n,
    claimWindowOpenOffsetBlocks: 1n,
    claimWindowCloseOffsetBlocks: 2n,
    proofWindowOpenOffsetBlocks: 1n,
    proofWindowCloseOffsetBlocks: 2n,
    supplierUnbondingPeriodSessions: 2n,
    applicationUnbondingPeriodSessions: 2n,
    gatewayUnbondingPeriodSessions: 2n,
  },
  {
    numBlocksPerSession: 6n,
    gracePeriodEndOffsetBlocks: 2n,
    claimWindowOpenOffsetBlocks: 2n,
    claimWindowCloseOffsetBlocks: 5n,
    proofWindowOpenOffsetBlocks: 1n,
    proofWindowCloseOffsetBlocks: 5n,
    supplierUnbondingPeriodSessions: 3n,
    applicationUnbondingPeriodSessions: 3n,
    gatewayUnbondingPeriodSessions: 1n,
  },
  {
    numBlocksPerSession: 3n,
    gracePeriodEndOffsetBlocks: 0n,
    claimWindowOpenOffsetBlocks: 0n,
    claimWindowCloseOffsetBlocks: 1n,
    proofWindowOpenOffsetBlocks: 0n,
    proofWindowCloseOffsetBlocks: 1n,
    supplierUnbondingPeriodSessions: 1n,
    applicationUnbondingPeriodSessions: 1n,
    gatewayUnbondingPeriodSessions: 1n,
  },
] as const;

function sharedParam(to: number, amount: number) {
  const few = BigInt(1 + (amount % 4));
  const [name, value] = pick(
    [
      ["proof_window_close_offset_blocks", few],
      ["claim_window_close_offset_blocks", few],
      ["num_blocks_per_session", few + 2n],
      ["compute_units_to_tokens_multiplier", pick([MILLION, 2n * MILLION, 500_000n], amount)],
      ["compute_unit_cost_granularity", pick([MILLION, 2n * MILLION], amount)],
      ["application_unbonding_period_sessions", few],
      ["supplier_unbonding_period_sessions", few],
      ["gateway_unbonding_period_sessions", few],
    ] as const,
    to,
  );
  return { name, asType: { case: "asUint64" as const, value } };
}

/** Shares of a minted amount: usual, equal, and those that pay one kind of party alone. */
const SHARES = [
  { dao: 0.1, proposer: 0.05, supplier: 0.7, sourceOwner: 0.15, application: 0 },
  { dao: 0.2, proposer: 0.2, supplier: 0.2, sourceOwner: 0.2, application: 0.2 },
  { dao: 0, proposer: 1, supplier: 0, sourceOwner: 0, application: 0 },
  { dao: 0, proposer: 0, supplier: 1, sourceOwner: 0, application: 0 },
] as const;
const INFLATIONS = [0, 0.1, 0.9] as const;
const MINT_RATIOS = [0.1, 0.5, 1] as const;

function tokenomicsParam(
  { daos }: Game,
  to: number,
  amount: number,
): MessageInitShape<typeof tokenomics.MsgUpdateParamSchema> {
  switch (to % 6) {
    case 0:
      return { name: "mint_ratio", asType: { case: "asFloat", value: pick(MINT_RATIOS, amount) } };
    case 1:
      return { name: "global_inflation_per_claim", asType: { case: "asFloat", value: pick(INFLATIONS, amount) } };
    case 2: {
      const value = createMessage(tokenomics.MintAllocationPercentagesSchema, pick(SHARES, amount));
      return { name: "mint_allocation_percentages", asType: { case: "asMintAllocationPercentages", value } };
    }
    case 3: {
      const value = createMessage(tokenomics.MintEqualsBurnClaimDistributionSchema, pick(SHARES, amount));
      const asType = { case: "asMintEqualsBurnClaimDistribution", value } as const;
      return { name: "mint_equals_burn_claim_distribution", asType };
    }
    case 4:
      return { name: "dao_reward_address", asType: { case: "asString", value: pick(daos, amount) } };
    default:
      return { name: "overservicing_bonus_multiplier", asType: { case: "asUint64", value: BigInt(amount % 4) } };
  }
}

const SUPPLIER_MOVES: readonly MoveKind[] = [
  kind(proof.MsgCreateClaimSchema, (game, { who, to, amount }) => {
    const claim = game.anyHeader(to);
    if (claim === undefined) return undefined;
    const work = new Work(claim.header, pick(game.dishonestSuppliers, who));
    return {
      supplierOperatorAddress: work.supplier.address,
      sessionHeader: work.header,
      rootHash: work.invent(1 + amount * 20, claim.units).trie.root(),
    };
  }),
  kind(proof.MsgSubmitProofSchema, (game, { who, to, amount }) => {
    const sessionHeader = game.anyHeader(to)?.header;
    if (sessionHeader === undefined) return undefined;
    const { address: supplierOperatorAddress } = pick(game.dishonestSuppliers, who);
    return { supplierOperatorAddress, sessionHeader, proof: Buffer.alloc(1 + amount, amount) };
  }),
];

const description = (text: string) => ({
  moniker: text,
  identity: "",
  website: "",
  securityContact: "",
  details: "",
});

/** Moves of validators and delegators. The chain refuses those that delegate: it cannot undelegate yet. */
const VALIDATOR_MOVES: readonly MoveKind[] = [
  kind(staking.MsgCreateValidatorSchema, (game, { who, amount }) => {
    // Of other tokens than each other one, so that the order of validators is sure.
    const tokens = (BigInt(game.ledger.size) + 10n * BigInt(1 + (amount % 2))) * MILLION + 7n;
    return newValidator(pick(game.validators, who), tokens, (RATE_ONE * BigInt(amount % 11)) / 10n);
  }),
  kind(staking.MsgEditValidatorSchema, (game, { who, amount }) => ({
    description: description(`validator ${amount}`),
    validatorAddress: validatorAddress(pick(game.validators, who)),
    commissionRate: amount % 4 === 0 ? "" : `${(RATE_ONE * BigInt(amount % 11)) / 10n}`,
    minSelfDelegation: amount % 5 === 0 ? `${amount + 1}` : "",
  })),
  kind(staking.MsgDelegateSchema, (game, { who, to, amount }) => ({
    delegatorAddress: pick(game.parties, who).address,
    validatorAddress: validatorAddress(pick(game.validators, to)),
    amount: upokt(1n + BigInt(amount)),
  })),
  kind(staking.MsgUndelegateSchema, (game, { who, amount }) => ({
    delegatorAddress: pick(game.validators, who).address,
    validatorAddress: validatorAddress(pick(game.validators, who)),
    amount: upokt(1n + BigInt(amount)),
  })),
  kind(staking.MsgBeginRedelegateSchema, (game, { who, to, amount }) => ({
    delegatorAddress: pick(game.validators, who).address,
    validatorSrcAddress: validatorAddress(pick(game.validators, who)),
    validatorDstAddress: validatorAddress(pick(game.validators, to)),
    amount: upokt(1n + BigInt(amount)),
  })),
  kind(staking.MsgCancelUnbondingDelegationSchema, (game, { who, amount }) => ({
    delegatorAddress: pick(game.validators, who).address,
    validatorAddress: validatorAddress(pick(game.validators, who)),
    amount: upokt(1n + BigInt(amount)),
    creationHeight: game.chain.block.heightBlocks - 1n,
  })),
  kind(staking.MsgUpdateParamsSchema, (_, { to, amount }) => ({
    authority: GOV,
    params: {
      unbondingTime: { seconds: pick([1n, 200_000n], to), nanos: 0 },
      maxValidators: 1 + (amount % 4),
      maxEntries: 7,
      historicalEntries: 10_000,
      bondDenom: "upokt",
      minCommissionRate: pick(["0", "50000000000000000"], to),
    },
  })),
];

const grantOf = (msg: string) => {
  const authorization = createMessage(authz.GenericAuthorizationSchema, { msg });
  return { authorization: packAny(authz.GenericAuthorizationSchema, authorization) };
};

/** Message that lets an agent send a type of messages for another. */
export function grantInit(granter: string, grantee: string, typeUrl: string) {
  return { granter, grantee, grant: grantOf(typeUrl) };
}

const ACCOUNT_MOVES: readonly MoveKind[] = [
  kind(bank.MsgSendSchema, ({ parties }, { who, to, amount }) => ({
    fromAddress: pick(parties, who).address,
    toAddress: pick(parties, to).address,
    amount: coin(1n + BigInt(amount) * 1_000_000_000n),
  })),
  kind(bank.MsgMultiSendSchema, ({ parties }, { who, to, amount }) => {
    const value = 1n + BigInt(amount) * 1_000_000_000n;
    const outputs = [to, to + 1].map((at) => ({ address: pick(parties, at).address, coins: coin(value) }));
    return { inputs: [{ address: pick(parties, who).address, coins: coin(2n * value) }], outputs };
  }),
  kind(authz.MsgGrantSchema, ({ parties, agent }, { who, to, amount }) => {
    const { schema } = pick(KINDS, to * 24 + amount);
    return grantInit(pick(parties, who).address, agent.address, typeUrlOf(schema));
  }),
  kind(authz.MsgRevokeSchema, ({ agent, grants }, { who }) => {
    if (grants.length === 0) return undefined;
    const [granter, msgTypeUrl] = pick(grants, who);
    return { granter, grantee: agent.address, msgTypeUrl };
  }),
  kind(gateway.MsgUpdateGatewayMetadataSchema, ({ gateways }, { who, amount }) => ({
    address: pick(gateways, who).address,
    metadata: { card: Buffer.alloc(1 + amount, amount) },
  })),
  kind(service.MsgAddServiceSchema, ({ owners, chain }, { who, amount }) => {
    const ownerAddress = getService(chain.ctx, MORE_SERVICE)?.ownerAddress ?? pick(owners, who).address;
    const changed = { id: MORE_SERVICE, name: "later", computeUnitsPerRelay: 1n + BigInt(amount), ownerAddress };
    return { ownerAddress, service: changed };
  }),
];

const proofParams = ({ provesAll }: Game, amount: number) => ({
  // Unsigned relays cannot be proven.
  proofRequestProbability: provesAll ? pick([0, 0.5, 1], amount) : 0,
  proofRequirementThreshold: upokt(provesAll ? pick([1n, 10n ** 12n], amount) : 10n ** 12n + BigInt(amount)),
  proofMissingPenalty: upokt(10_000_000n),
  proofSubmissionFee: upokt(pick([1n, 1_000n], amount)),
});

/** Moves of the authority beside those among {@link MAIN}. */
const AUTHORITY_MOVES: readonly MoveKind[] = [
  kind(proof.MsgUpdateParamsSchema, (game, { amount }) => ({ authority: GOV, params: proofParams(game, amount) })),
  kind(proof.MsgUpdateParamSchema, (game, { to, amount }) => {
    const { proofRequestProbability, proofRequirementThreshold, proofSubmissionFee } = proofParams(game, amount);
    const asCoin = (value: typeof proofSubmissionFee) => ({ case: "asCoin" as const, value });
    return pick(
      [
        {
          authority: GOV,
          name: "proof_request_probability",
          asType: { case: "asFloat" as const, value: proofRequestProbability },
        },
        { authority: GOV, name: "proof_requirement_threshold", asType: asCoin(proofRequirementThreshold) },
        { authority: GOV, name: "proof_submission_fee", asType: asCoin(proofSubmissionFee) },
        { authority: GOV, name: "proof_missing_penalty", asType: asCoin(upokt(pick([1n, 30_000_000n], amount))) },
      ],
      to,
    );
  }),
  kind(tokenomics.MsgUpdateParamsSchema, ({ chain, daos }, { to, amount }) => ({
    authority: GOV,
    params: {
      ...getTokenomicsParams(chain.ctx),
      daoRewardAddress: pick(daos, amount),
      mintAllocationPercentages: createMessage(tokenomics.MintAllocationPercentagesSchema, pick(SHARES, to)),
      mintEqualsBurnClaimDistribution: createMessage(
        tokenomics.MintEqualsBurnClaimDistributionSchema,
        pick(SHARES, amount),
      ),
      globalInflationPerClaim: pick(INFLATIONS, to),
      mintRatio: pick(MINT_RATIOS, amount),
    },
  })),
  kind(session.MsgUpdateParamSchema, (_, { amount }) => ({
    authority: GOV,
    name: "num_suppliers_per_session",
    asType: { case: "asUint64" as const, value: BigInt(1 + (amount % 5)) },
  })),
  kind(session.MsgUpdateParamsSchema, (_, { amount }) => ({
    authority: GOV,
    params: { numSuppliersPerSession: BigInt(1 + (amount % 5)) },
  })),
  // A lower target of relays would raise the difficulty, which has its own tests.
  kind(service.MsgUpdateParamSchema, (_, { amount }) => ({
    authority: GOV,
    name: "add_service_fee",
    asType: { case: "asCoin" as const, value: upokt(1_000_000_000n + BigInt(amount)) },
  })),
  kind(service.MsgUpdateParamsSchema, (_, { amount }) => ({
    authority: GOV,
    params: { addServiceFee: upokt(1_000_000_000n), targetNumRelays: 10n ** 9n + BigInt(amount) },
  })),
  kind(application.MsgUpdateParamSchema, (_, { to, amount }) => ({
    authority: GOV,
    ...pick(
      [
        {
          name: "max_delegated_gateways",
          asType: { case: "asUint64" as const, value: BigInt(1 + (amount % 7)) },
        },
        {
          name: "min_stake",
          asType: { case: "asCoin" as const, value: upokt(pick([MILLION, 119_000_000n, 10n ** 12n], amount)) },
        },
      ],
      to,
    ),
  })),
  kind(application.MsgUpdateParamsSchema, (_, { to, amount }) => ({
    authority: GOV,
    params: {
      maxDelegatedGateways: BigInt(1 + (to % 7)),
      minStake: upokt(pick([MILLION, 110_000_000n], amount)),
    },
  })),
  kind(supplier.MsgUpdateParamSchema, (_, { to, amount }) => ({
    authority: GOV,
    name: pick(["min_stake", "staking_fee"], to),
    asType: { case: "asCoin" as const, value: upokt(pick([MILLION, 50_000_000n, 200_000_000n], amount)) },
  })),
  kind(supplier.MsgUpdateParamsSchema, (_, { amount }) => ({
    authority: GOV,
    params: { minStake: upokt(pick([MILLION, 90_000_000n], amount)), stakingFee: upokt(BigInt(amount)) },
  })),
  kind(gateway.MsgUpdateParamSchema, (_, { amount }) => ({
    authority: GOV,
    name: "min_stake",
    asType: { case: "asCoin" as const, value: upokt(pick([1n, 10n ** 12n], amount)) },
  })),
  kind(gateway.MsgUpdateParamsSchema, (_, { amount }) => ({
    authority: GOV,
    params: { minStake: upokt(pick([1n, 10n ** 12n], amount)) },
  })),
  kind(bank.MsgUpdateParamsSchema, (_, { amount }) => ({
    authority: GOV,
    params: { defaultSendEnabled: amount % 3 !== 0 },
  })),
  kind(bank.MsgSetSendEnabledSchema, (_, { to, amount }) => ({
    authority: GOV,
    sendEnabled: to % 2 === 0 ? [{ denom: "upokt", enabled: amount % 3 !== 0 }] : [],
    useDefaultFor: to % 2 === 0 ? [] : ["upokt"],
  })),
];

/** Every kind of moves. All of them are made at every height of sessions' lives. */
export const KINDS: readonly MoveKind[] = [
  ...MAIN,
  ...SUPPLIER_MOVES,
  ...VALIDATOR_MOVES,
  ...ACCOUNT_MOVES,
  ...AUTHORITY_MOVES,
];

/** Kinds of moves of random games: what sessions depend on comes three times as often. */
export const MOVES: readonly MoveKind[] = [...KINDS, ...MAIN, ...MAIN];

/** Message types that the chain serves and refuses, whatever they say. */
export const REFUSED: ReadonlySet<string> = new Set(
  [
    staking.MsgDelegateSchema,
    staking.MsgUndelegateSchema,
    staking.MsgBeginRedelegateSchema,
    staking.MsgCancelUnbondingDelegationSchema,
  ].map((schema) => typeUrlOf(schema)),
);

/** Type URL of the message that wraps a part of all moves. */
export const WRAPPER: string = typeUrlOf(authz.MsgExecSchema);

/** Message types that are in no game, with the reason. */
export const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  [typeUrlOf(auth.MsgUpdateParamsSchema), "bounds transactions; the games run messages without transactions"],
  [typeUrlOf(upgrade.MsgSoftwareUpgradeSchema), "names the height at which other rules apply; see upgrade.test.ts"],
  [typeUrlOf(upgrade.MsgCancelUpgradeSchema), "names the height at which other rules apply; see upgrade.test.ts"],
]);
