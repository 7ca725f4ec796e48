import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";
import { encodeBech32, moduleAddress, VALIDATOR_PREFIX } from "@turnpike/crypto";
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
import type { Chance } from "@turnpike/testkit/chance";
import { applications } from "../../src/modules/application/state.ts";
import { grants } from "../../src/modules/authz/grants.ts";
import { gateways } from "../../src/modules/gateway/state.ts";
import { claims } from "../../src/modules/proof/state.ts";
import { getComputeUnitsPerRelayAt, services } from "../../src/modules/service/state.ts";
import { outlineSession } from "../../src/modules/session/hydrate.ts";
import { validators } from "../../src/modules/staking/state.ts";
import { suppliers } from "../../src/modules/supplier/state.ts";
import { addressText, parseAddress } from "../../src/state/addresses.ts";
import type { Context } from "../../src/state/context.ts";
import { PARAMS } from "../modules/tokenomics/params.ts";
import { ACTORS, type Actor, CONSENSUS_KEYS, SERVICES, SHARED_PARAMS, SIGNERS } from "./actors.ts";
import { honestProof } from "./honest-work.ts";

/** Inputs of plausible messages: choices, and the state that the messages should fit. */
export interface Setting {
  readonly chance: Chance;
  readonly ctx: Context;
}

/** A message that the state may well take, with its schema. */
export interface Plausible {
  readonly schema: DescMessage;
  readonly message: Message;
}

/** Makes a plausible message. */
export type Make = (setting: Setting) => Plausible;

const AUTHORITY = moduleAddress("gov");
const POKT = 1_000_000n;

const coin = (amount: bigint, denom = "upokt") => ({ denom, amount: `${amount}` });

function operatorAddressOf(actor: Actor): string {
  const address = parseAddress(SIGNERS[actor].address);
  return encodeBech32(VALIDATOR_PREFIX, address.ok ? address.value : new Uint8Array(20));
}

const someActor = ({ chance }: Setting): string => SIGNERS[chance.pick(ACTORS)].address;

function oneOf(chance: Chance, list: readonly string[], otherwise: string): string {
  const [first, ...others] = list;
  return first === undefined ? otherwise : chance.pick([first, ...others]);
}

const keysOf = <T>(entries: Iterable<readonly [string, T]>): string[] => Array.from(entries, ([key]) => key);
const anApplication = (s: Setting): string => oneOf(s.chance, keysOf(applications.entries(s.ctx)), someActor(s));
const aGateway = (s: Setting): string => oneOf(s.chance, keysOf(gateways.entries(s.ctx)), someActor(s));
const aSupplier = (s: Setting): string => oneOf(s.chance, keysOf(suppliers.entries(s.ctx)), someActor(s));
const aService = (s: Setting): string => oneOf(s.chance, keysOf(services.entries(s.ctx)), "eth");
const aValidator = (s: Setting): string => {
  const all = [...validators.entries(s.ctx)].map(([, { operatorAddress }]) => operatorAddress);
  return oneOf(s.chance, all, operatorAddressOf("validator"));
};

function of<Desc extends DescMessage>(schema: Desc, make: (setting: Setting) => MessageInitShape<Desc>) {
  const plausible: Make = (setting) => ({ schema, message: createMessage(schema, make(setting)) });
  return [typeUrlOf(schema), plausible] as const;
}

const amount = ({ chance }: Setting): bigint =>
  chance.weighted([
    [4, 1n + BigInt(chance.below(1_000_000))],
    [3, POKT * BigInt(1 + chance.below(20_000))],
    [1, 1n],
    [1, 10n ** 12n],
  ]);

const stake = (s: Setting): bigint =>
  s.chance.weighted([
    [3, 1_000n * POKT + BigInt(s.chance.below(1_000))],
    [2, 100n * POKT],
    [1, 10_000n * POKT],
    [2, amount(s)],
  ]);

const card = ({ chance }: Setting) => ({ card: chance.bytes(chance.pick([1, 20, 300])) });

const endpointsOf = ({ chance }: Setting) => [
  {
    url: chance.pick(["https://a.example/rpc", "http://127.0.0.1:9", "http://[::1]:80/x?y"]),
    rpcType: chance.pick([shared.RPCType.JSON_RPC, shared.RPCType.REST, shared.RPCType.GRPC]),
    configs: chance.often(0.2) ? [{ key: shared.ConfigOptions.TIMEOUT, value: "5" }] : [],
  },
];

function revShareOf(s: Setting, owner: string) {
  const parts = s.chance.pick([[100], [50, 50], [1, 99], [33, 33, 34], [0, 100]] as const);
  const addresses = [owner, someActor(s), SIGNERS["spare-4"].address];
  return parts.map((share, index) => ({ address: addresses[index] ?? owner, revSharePercentage: BigInt(share) }));
}

const descriptionOf = ({ chance }: Setting) => ({
  moniker: chance.pick(["a validator", "b"]),
  identity: "",
  website: "https://a.example",
  securityContact: "",
  details: "text",
});

const RATES = ["0", "50000000000000000", "100000000000000000", "1000000000000000000"] as const;

const SHARES = [
  { dao: 0.1, proposer: 0.05, supplier: 0.7, sourceOwner: 0.15, application: 0 },
  { dao: 0.2, proposer: 0.2, supplier: 0.2, sourceOwner: 0.2, application: 0.2 },
  { dao: 0, proposer: 1, supplier: 0, sourceOwner: 0, application: 0 },
  { dao: 0, proposer: 0, supplier: 1, sourceOwner: 0, application: 0 },
] as const;

function headerOf(s: Setting) {
  const { ctx } = s;
  const height = ctx.block.heightBlocks - BigInt(1 + s.chance.below(6));
  const outline = outlineSession(ctx, anApplication(s), aService(s), height > 0n ? height : 1n);
  return outline.ok ? outline.value : undefined;
}

function claimInit(s: Setting) {
  const outline = headerOf(s) ?? headerOf(s) ?? headerOf(s);
  const { serviceId = "eth", sessionStartBlockHeight = 1n } = outline?.header ?? {};
  const units = getComputeUnitsPerRelayAt(s.ctx, serviceId, sessionStartBlockHeight) ?? 1n;
  const relays = s.chance.pick([1n, 10n, 5_000n, 10n ** 9n, 2n ** 63n, 2n ** 64n - 1n]);
  const rootHash = Buffer.alloc(48, 7);
  rootHash.writeBigUInt64BE(BigInt.asUintN(64, relays * units), 32);
  rootHash.writeBigUInt64BE(relays, 40);
  const operators = outline?.suppliers.map(({ operatorAddress }) => operatorAddress) ?? [];
  return {
    supplierOperatorAddress: oneOf(s.chance, operators, aSupplier(s)),
    ...(outline === undefined ? {} : { sessionHeader: outline.header }),
    rootHash: Uint8Array.from(rootHash),
  };
}

function proofInit(s: Setting) {
  const [first, ...others] = [...claims.entries(s.ctx)].map(([, claim]) => claim);
  const claim = first === undefined ? claimInit(s) : s.chance.pick([first, ...others]);
  const { supplierOperatorAddress, sessionHeader } = claim;
  const proofBytes =
    sessionHeader === undefined ? undefined : honestProof(s.ctx, sessionHeader, supplierOperatorAddress);
  return {
    supplierOperatorAddress,
    ...(sessionHeader === undefined ? {} : { sessionHeader }),
    proof: proofBytes ?? s.chance.bytes(300),
  };
}

function updateParam(of: DescMessage): Make {
  const params = PARAMS.filter(([schema]) => schema.typeName === of.typeName);
  return ({ chance }) => {
    const [first, ...others] = params;
    const [, name, kind] = first === undefined ? (["", "", "asUint64"] as const) : chance.pick([first, ...others]);
    const value =
      kind === "asUint64"
        ? chance.pick([0n, 1n, 2n, 4n, 5n, 10n, 100n, 42_000_000n])
        : kind === "asCoin"
          ? coin(chance.pick([0n, 1n, 1_000n, POKT, 100n * POKT]))
          : kind === "asFloat"
            ? chance.pick([0, 0.25, 0.5, 0.1, 1])
            : SIGNERS.dao.address;
    const init = { authority: AUTHORITY, name, asType: { case: kind, value } } as never;
    return { schema: of, message: createMessage(of, init) };
  };
}

const actorMessages = [
  of(bank.MsgSendSchema, (s) => ({ fromAddress: someActor(s), toAddress: someActor(s), amount: [coin(amount(s))] })),
  of(bank.MsgMultiSendSchema, (s) => {
    const [a, b] = [amount(s), amount(s)];
    const outputs = [
      { address: someActor(s), coins: [coin(a)] },
      { address: someActor(s), coins: [coin(b)] },
    ];
    return { inputs: [{ address: someActor(s), coins: [coin(a + b)] }], outputs };
  }),
  of(authz.MsgExecSchema, (s) => {
    const address = someActor(s);
    const send = { fromAddress: address, toAddress: someActor(s), amount: [coin(amount(s))] };
    return { grantee: address, msgs: [packAny(bank.MsgSendSchema, createMessage(bank.MsgSendSchema, send))] };
  }),
  of(authz.MsgGrantSchema, (s) => {
    const msg = s.chance.pick(["/cosmos.bank.v1beta1.MsgSend", "/pocket.supplier.MsgStakeSupplier"]);
    const authorization = createMessage(authz.GenericAuthorizationSchema, { msg });
    const seconds = s.ctx.block.timeNanos / 1_000_000_000n + BigInt(s.chance.below(40));
    return {
      granter: someActor(s),
      grantee: someActor(s),
      grant: {
        authorization: packAny(authz.GenericAuthorizationSchema, authorization),
        ...(s.chance.often(0.7) ? { expiration: { seconds, nanos: 0 } } : {}),
      },
    };
  }),
  of(authz.MsgRevokeSchema, (s) => {
    const granted = [...grants.entries(s.ctx)].map(([[granter, [grantee, msgTypeUrl]]]) => ({
      granter: addressText(granter),
      grantee: addressText(grantee),
      msgTypeUrl,
    }));
    const [first, ...others] = granted.filter(({ granter }) => granter !== AUTHORITY);
    const other = { granter: someActor(s), grantee: someActor(s), msgTypeUrl: "/cosmos.bank.v1beta1.MsgSend" };
    return first === undefined ? other : s.chance.pick([first, ...others]);
  }),
  of(service.MsgAddServiceSchema, (s) => {
    const ownerAddress = s.chance.often(0.7) ? SIGNERS["service-owner"].address : someActor(s);
    const id = s.chance.pick([...SERVICES, "new-1", "new-2"]);
    const computeUnitsPerRelay = s.chance.pick([1n, 7n, 100n, 1_000n, 1_048_576n]);
    const metadata = s.chance.often(0.3) ? { metadata: card(s) } : {};
    return { ownerAddress, service: { id, name: "A service", computeUnitsPerRelay, ownerAddress, ...metadata } };
  }),
  of(service.MsgTransferServiceSchema, (s) => ({
    ownerAddress: SIGNERS["service-owner"].address,
    serviceId: aService(s),
    newOwnerAddress: someActor(s),
  })),
  of(gateway.MsgStakeGatewaySchema, (s) => ({ address: someActor(s), stake: coin(stake(s)) })),
  of(gateway.MsgUnstakeGatewaySchema, (s) => ({ address: aGateway(s) })),
  of(gateway.MsgUpdateGatewayMetadataSchema, (s) => ({ address: aGateway(s), metadata: card(s) })),
  of(application.MsgStakeApplicationSchema, (s) => ({
    address: s.chance.often(0.6) ? anApplication(s) : someActor(s),
    stake: coin(stake(s) * 12n),
    services: [{ serviceId: aService(s) }],
    ...(s.chance.often(0.3) ? { perSessionSpendLimit: coin(amount(s)) } : {}),
  })),
  of(application.MsgUnstakeApplicationSchema, (s) => ({ address: anApplication(s) })),
  of(application.MsgDelegateToGatewaySchema, (s) => ({ appAddress: anApplication(s), gatewayAddress: aGateway(s) })),
  of(application.MsgUndelegateFromGatewaySchema, (s) => {
    const appAddress = anApplication(s);
    const delegated = applications.get(s.ctx, appAddress)?.delegateeGatewayAddresses ?? [];
    return { appAddress, gatewayAddress: oneOf(s.chance, delegated, aGateway(s)) };
  }),
  of(application.MsgTransferApplicationSchema, (s) => ({
    sourceAddress: anApplication(s),
    destinationAddress: someActor(s),
  })),
  of(supplier.MsgStakeSupplierSchema, (s) => {
    const operatorAddress = s.chance.often(0.6) ? aSupplier(s) : someActor(s);
    const record = suppliers.get(s.ctx, operatorAddress);
    const ownerAddress = record?.ownerAddress ?? operatorAddress;
    const serviceIds = s.chance.often(0.5) ? [aService(s)] : [...SERVICES];
    const configs = serviceIds.map((serviceId) => ({
      serviceId,
      endpoints: endpointsOf(s),
      revShare: revShareOf(s, ownerAddress),
    }));
    return {
      signer: s.chance.often(0.5) ? ownerAddress : operatorAddress,
      ownerAddress,
      operatorAddress,
      stake: coin(BigInt(record?.stake?.amount ?? "0") + stake(s)),
      services: configs,
    };
  }),
  of(supplier.MsgUnstakeSupplierSchema, (s) => {
    const operatorAddress = aSupplier(s);
    return { signer: operatorAddress, operatorAddress };
  }),
  of(proof.MsgCreateClaimSchema, claimInit),
  of(proof.MsgSubmitProofSchema, proofInit),
] as const;

const stakingMessages = [
  of(staking.MsgCreateValidatorSchema, (s) => {
    const actor = s.chance.pick(["spare-1", "spare-2", "spare-3", "supplier-1"] as const);
    const key = createMessage(cryptoEd25519.PubKeySchema, { key: s.chance.pick(CONSENSUS_KEYS as never) });
    return {
      description: descriptionOf(s),
      commission: { rate: s.chance.pick(RATES), maxRate: RATES[3], maxChangeRate: s.chance.pick(RATES) },
      minSelfDelegation: "1",
      delegatorAddress: "",
      validatorAddress: operatorAddressOf(actor),
      pubkey: packAny(cryptoEd25519.PubKeySchema, key),
      value: coin(stake(s)),
    };
  }),
  of(staking.MsgEditValidatorSchema, (s) => ({
    description: descriptionOf(s),
    validatorAddress: aValidator(s),
    commissionRate: s.chance.pick(["", "100000000000000000", "110000000000000000"]),
    minSelfDelegation: s.chance.pick(["", "2"]),
  })),
  of(staking.MsgDelegateSchema, (s) => ({
    delegatorAddress: someActor(s),
    validatorAddress: aValidator(s),
    amount: coin(amount(s)),
  })),
  of(staking.MsgUndelegateSchema, (s) => ({
    delegatorAddress: someActor(s),
    validatorAddress: aValidator(s),
    amount: coin(amount(s)),
  })),
  of(staking.MsgBeginRedelegateSchema, (s) => ({
    delegatorAddress: someActor(s),
    validatorSrcAddress: aValidator(s),
    validatorDstAddress: aValidator(s),
    amount: coin(amount(s)),
  })),
  of(staking.MsgCancelUnbondingDelegationSchema, (s) => ({
    delegatorAddress: someActor(s),
    validatorAddress: aValidator(s),
    amount: coin(amount(s)),
    creationHeight: s.ctx.block.heightBlocks - 1n,
  })),
] as const;

const authorityMessages = [
  of(auth.MsgUpdateParamsSchema, () => ({
    authority: AUTHORITY,
    params: {
      maxMemoCharacters: 256n,
      txSigLimit: 7n,
      txSizeCostPerByte: 10n,
      sigVerifyCostEd25519: 590n,
      sigVerifyCostSecp256k1: 1_000n,
    },
  })),
  of(bank.MsgUpdateParamsSchema, () => ({ authority: AUTHORITY, params: { defaultSendEnabled: true } })),
  of(bank.MsgSetSendEnabledSchema, (s) => ({
    authority: AUTHORITY,
    sendEnabled: [{ denom: s.chance.pick(["upokt", "mact"]), enabled: s.chance.often(0.9) }],
    useDefaultFor: s.chance.often(0.5) ? ["mact"] : [],
  })),
  of(staking.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: {
      unbondingTime: { seconds: s.chance.pick([1n, 60n, 1_814_400n]), nanos: 0 },
      maxValidators: s.chance.pick([1, 2, 100]),
      maxEntries: 7,
      historicalEntries: 10_000,
      bondDenom: "upokt",
      minCommissionRate: s.chance.pick(RATES),
    },
  })),
  of(upgrade.MsgSoftwareUpgradeSchema, (s) => ({
    authority: AUTHORITY,
    plan: { name: "later", height: s.ctx.block.heightBlocks + 1_000_000n, info: "" },
  })),
  of(upgrade.MsgCancelUpgradeSchema, () => ({ authority: AUTHORITY })),
  of(service.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: { addServiceFee: coin(s.chance.pick([1n, POKT])), targetNumRelays: s.chance.pick([1n, 100n]) },
  })),
  of(gateway.MsgUpdateParamsSchema, (s) => ({ authority: AUTHORITY, params: { minStake: coin(amount(s)) } })),
  of(application.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: { maxDelegatedGateways: s.chance.pick([1n, 7n]), minStake: coin(amount(s)) },
  })),
  of(supplier.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: { minStake: coin(amount(s)), stakingFee: coin(s.chance.pick([0n, 1n, POKT])) },
  })),
  of(session.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: { numSuppliersPerSession: s.chance.pick([1n, 2n, 15n]) },
  })),
  of(proof.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: {
      proofRequestProbability: s.chance.pick([0, 0.25, 0.5, 1]),
      proofRequirementThreshold: coin(s.chance.pick([1n, 20n * POKT])),
      proofMissingPenalty: coin(s.chance.pick([1n, 320n * POKT])),
      proofSubmissionFee: coin(s.chance.pick([1n, POKT])),
    },
  })),
  of(tokenomics.MsgUpdateParamsSchema, (s) => ({
    authority: AUTHORITY,
    params: {
      daoRewardAddress: s.chance.often(0.5) ? SIGNERS.dao.address : someActor(s),
      mintAllocationPercentages: s.chance.pick(SHARES),
      globalInflationPerClaim: s.chance.pick([0, 0.1, 0.5]),
      mintEqualsBurnClaimDistribution: s.chance.pick(SHARES),
      mintRatio: s.chance.pick([1, 0.975, 0.5]),
      overservicingBonusMultiplier: s.chance.pick([1n, 2n]),
    },
  })),
  of(shared.MsgUpdateParamsSchema, ({ chance }) => {
    const numBlocksPerSession = chance.pick([3n, 2n, 4n, 10n]);
    const offset = (): bigint => BigInt(chance.below(3));
    return {
      authority: AUTHORITY,
      params: {
        ...SHARED_PARAMS,
        numBlocksPerSession,
        claimWindowOpenOffsetBlocks: chance.pick([0n, 0n, 1n]),
        claimWindowCloseOffsetBlocks: 1n + offset(),
        proofWindowOpenOffsetBlocks: chance.pick([0n, 0n, 1n]),
        proofWindowCloseOffsetBlocks: 1n + offset(),
        supplierUnbondingPeriodSessions: chance.pick([1n, 4n]),
        applicationUnbondingPeriodSessions: 4n,
        gatewayUnbondingPeriodSessions: chance.pick([1n, 4n]),
        computeUnitsToTokensMultiplier: chance.pick([1n, 42_000_000n]),
      },
    };
  }),
  ...[
    service.MsgUpdateParamSchema,
    gateway.MsgUpdateParamSchema,
    application.MsgUpdateParamSchema,
    supplier.MsgUpdateParamSchema,
    session.MsgUpdateParamSchema,
    proof.MsgUpdateParamSchema,
    tokenomics.MsgUpdateParamSchema,
    shared.MsgUpdateParamSchema,
  ].map((schema) => [typeUrlOf(schema), updateParam(schema)] as const),
] as const;

/** Makers of plausible messages by type URL: of accounts, of validators and delegators, and of the authority. */
export const PLAUSIBLE = {
  actors: new Map(actorMessages),
  staking: new Map(stakingMessages),
  authority: new Map<string, Make>(authorityMessages),
} as const;
