import { hash } from "node:crypto";
import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { concatBytes, utf8ToBytes } from "@turnpike/base";
import { ACCOUNT_PREFIX, addressToBytes, encodeBech32, moduleAddress } from "@turnpike/crypto";
import {
  type Any,
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
import { bySupplier, claimMessage, PROOF_SESSIONS } from "./gas-proofs.ts";
import type { GasState, OpenGasState, ProvingState } from "./gas-state.ts";
import { type Account, SERVICE_ID, serviceIdOf, UNITS_PER_RELAY } from "./ground.ts";

/** Transactions of one message type, at one size. */
export interface GasCase<State extends GasState = OpenGasState> {
  readonly name: string;
  /** Type URL of the message that is measured. */
  readonly typeUrl: string;
  /** @param run number of the run: 0 and up, for cases whose transactions must be new to the chain in each */
  readonly txs: (state: State, run: number) => readonly Uint8Array[];
}

/** Transactions of a usual case, each of another account. */
const COUNT = 40;
/** Messages of a transaction that has many. */
const MANY = 200;
/** Items of lists, texts and cards as long as a transaction of 730 KB has them. */
const LARGE_BYTES = 700_000;
const CARD_BYTES = 256 * 1024;
const CONFIG_BYTES = 60_000;
const GOV = moduleAddress("gov");
/** Sessions that are looked through for those of one supplier. */
const MOST_SESSIONS = 400;
const NOTHING = new Uint8Array(0);
const RELAYS = 1_000n;
/** The genesis holds a transaction of the authority, which makes its validator. */
const AUTHORITY_SEQUENCE = 1n;

type Init<Desc extends DescMessage> = (state: GasState, account: Account, i: number) => MessageInitShape<Desc>;
type Group = "accounts" | "suppliers" | "applications" | "gateways";

const upokt = (amount: bigint) => ({ denom: "upokt", amount: amount.toString() });
const POKT = 1_000_000n;
/** Address of an account that is not there. */
const stranger = (i: number): string =>
  encodeBech32(ACCOUNT_PREFIX, hash("sha256", `stranger ${i}`, "buffer").subarray(0, 20));
const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const bytesOf = (length: number): Uint8Array => new Uint8Array(length).fill(97);
const accountOf = (state: GasState, group: Group, i: number): Account => {
  const account = state[group][i];
  if (account === undefined) throw new RangeError(`${group} ${i}`);
  return account;
};
const exec = (account: Account, msgs: Any[]): Any =>
  packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: account.signer.address, msgs }));

/** One transaction of each of the first accounts of a group, with one message each. */
function usual<Desc extends DescMessage>(name: string, schema: Desc, group: Group, init: Init<Desc>): GasCase {
  const txs = (state: GasState): Uint8Array[] =>
    state[group].slice(0, COUNT).map((account, i) => state.sign(account, [pack(schema, init(state, account, i))]));
  return { name, typeUrl: typeUrlOf(schema), txs };
}

function pack<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Any {
  return packAny(schema, createMessage(schema, init));
}

/** One transaction with messages of one account. */
function single(
  name: string,
  schema: DescMessage,
  group: Group,
  make: (state: GasState, account: Account) => Any[],
): GasCase {
  const txs = (state: GasState): Uint8Array[] => {
    const account = accountOf(state, group, 0);
    return [state.sign(account, make(state, account))];
  };
  return { name, typeUrl: typeUrlOf(schema), txs };
}

/** The usual case, and many such messages in one transaction and in one MsgExec. */
function shapes<Desc extends DescMessage>(name: string, schema: Desc, group: Group, init: Init<Desc>): GasCase[] {
  const many = (state: GasState, account: Account): Any[] => times(MANY, (i) => pack(schema, init(state, account, i)));
  return [
    usual(name, schema, group, init),
    single(`${name}-many`, schema, group, many),
    single(`${name}-in-exec`, schema, group, (state, account) => [exec(account, many(state, account))]),
  ];
}

function endpointsOf(bytes: number): MessageInitShape<typeof shared.SupplierEndpointSchema>[] {
  const url = `https://supplier.example.com/${"a".repeat(30)}`;
  return times(Math.max(1, Math.floor(bytes / (url.length + 6))), () => ({ url, rpcType: shared.RPCType.JSON_RPC }));
}

function stakeOf(
  { signer: { address } }: Account,
  services: MessageInitShape<typeof shared.SupplierServiceConfigSchema>[],
  stake = 1_001n * POKT,
): MessageInitShape<typeof supplier.MsgStakeSupplierSchema> {
  return { signer: address, ownerAddress: address, operatorAddress: address, stake: upokt(stake), services };
}

function configOf({ signer: { address } }: Account, serviceId: string, bytes = 60) {
  return { serviceId, endpoints: endpointsOf(bytes), revShare: [{ address, revSharePercentage: 100n }] };
}

const claimOf = (state: GasState, account: Account, applicationIndex: number): Any =>
  claimIn(state.session(accountOf(state, "applications", applicationIndex)).header, account);

function claimIn(header: session.SessionHeader | undefined, account: Account): Any {
  const rootHash = Buffer.alloc(48, 1);
  rootHash.writeBigUInt64BE(UNITS_PER_RELAY * RELAYS, 32);
  rootHash.writeBigUInt64BE(RELAYS, 40);
  return pack(proof.MsgCreateClaimSchema, {
    supplierOperatorAddress: account.signer.address,
    ...(header === undefined ? {} : { sessionHeader: header }),
    rootHash,
  });
}

/** Suppliers of an application's session, each once over all sessions, with that application's place. */
function claimants(state: GasState, count: number): { readonly account: Account; readonly application: number }[] {
  const byAddress = new Map(state.suppliers.map((account) => [account.signer.address, account]));
  const pairs: { readonly account: Account; readonly application: number }[] = [];
  for (let i = 0; pairs.length < count && i < state.applications.length; i++) {
    for (const { operatorAddress } of state.session(accountOf(state, "applications", i)).suppliers) {
      const account = byAddress.get(operatorAddress);
      if (account === undefined) continue;
      byAddress.delete(operatorAddress);
      pairs.push({ account, application: i });
    }
  }
  return pairs.slice(0, count);
}

/** Sessions that one supplier is in, by their applications' places. */
function sessionsOf(state: GasState, { signer }: Account, count: number): number[] {
  const places: number[] = [];
  for (let i = 0; places.length < count && i < Math.min(state.applications.length, MOST_SESSIONS); i++) {
    const { suppliers } = state.session(accountOf(state, "applications", i));
    if (suppliers.some(({ operatorAddress }) => operatorAddress === signer.address)) places.push(i);
  }
  return places;
}

const BANK: readonly GasCase[] = [
  ...shapes("send", bank.MsgSendSchema, "accounts", (state, { signer }, i) => ({
    fromAddress: signer.address,
    toAddress: accountOf(state, "accounts", (i + 1) % COUNT).signer.address,
    amount: [upokt(5n)],
  })),
  ...shapes("send-new", bank.MsgSendSchema, "accounts", (_, { signer }, i) => ({
    fromAddress: signer.address,
    toAddress: stranger(i),
    amount: [upokt(5n)],
  })),
  single("send-empty-coins", bank.MsgSendSchema, "accounts", (_, { signer }) => [
    pack(bank.MsgSendSchema, {
      fromAddress: signer.address,
      toAddress: stranger(0),
      amount: times(LARGE_BYTES / 2, () => ({})),
    }),
  ]),
  single("send-many-coins", bank.MsgSendSchema, "accounts", (_, { signer }) => [
    pack(bank.MsgSendSchema, {
      fromAddress: signer.address,
      toAddress: stranger(0),
      amount: times(LARGE_BYTES / 20, (i) => ({ denom: `coin${String(i).padStart(6, "0")}`, amount: "5" })),
    }),
  ]),
  single("send-exec-empty-coins", bank.MsgSendSchema, "accounts", (_, account) => [
    exec(account, [
      pack(bank.MsgSendSchema, {
        fromAddress: account.signer.address,
        toAddress: stranger(0),
        amount: times(LARGE_BYTES / 2, () => ({})),
      }),
    ]),
  ]),
  usual("multi-send", bank.MsgMultiSendSchema, "accounts", (_, { signer }, i) => ({
    inputs: [{ address: signer.address, coins: [upokt(5n)] }],
    outputs: [{ address: stranger(i), coins: [upokt(5n)] }],
  })),
  ...[3_000, 10_000].map((count) =>
    single(`multi-send-${count}`, bank.MsgMultiSendSchema, "accounts", (_, { signer }) => [
      pack(bank.MsgMultiSendSchema, {
        inputs: [{ address: signer.address, coins: [upokt(BigInt(count))] }],
        outputs: times(count, (i) => ({ address: stranger(i), coins: [upokt(1n)] })),
      }),
    ]),
  ),
  single("multi-send-one-receiver", bank.MsgMultiSendSchema, "accounts", (_, { signer }) => [
    pack(bank.MsgMultiSendSchema, {
      inputs: [{ address: signer.address, coins: [upokt(10_000n)] }],
      outputs: times(10_000, () => ({ address: stranger(0), coins: [upokt(1n)] })),
    }),
  ]),
  single("multi-send-exec", bank.MsgMultiSendSchema, "accounts", (_, account) => [
    exec(account, [
      pack(bank.MsgMultiSendSchema, {
        inputs: [{ address: account.signer.address, coins: [upokt(3_000n)] }],
        outputs: times(3_000, (i) => ({ address: stranger(i), coins: [upokt(1n)] })),
      }),
    ]),
  ]),
  single("set-send-enabled-many", bank.MsgSetSendEnabledSchema, "accounts", (_, account) => [
    exec(account, [
      pack(bank.MsgSetSendEnabledSchema, {
        authority: account.signer.address,
        useDefaultFor: times(LARGE_BYTES / 14, (i) => `coin${String(i).padStart(6, "0")}`),
      }),
    ]),
  ]),
  usual("set-send-enabled", bank.MsgSetSendEnabledSchema, "accounts", (_, { signer }) => ({
    authority: signer.address,
    useDefaultFor: ["upokt"],
  })),
];

const description = (bytes: number) => ({
  moniker: "a".repeat(70),
  identity: "a".repeat(bytes),
  website: "a".repeat(140),
  securityContact: "a".repeat(140),
  details: "a".repeat(280),
});
const operatorAddress = ({ signer }: Account): string =>
  encodeBech32("poktvaloper", addressToBytes(signer.address) ?? new Uint8Array(20));
const rate = (percent: number): string => (BigInt(percent) * 10n ** 16n).toString();

const createValidator: Init<typeof staking.MsgCreateValidatorSchema> = (_, account, i) => ({
  description: description(3_000),
  commission: { rate: rate(5), maxRate: rate(20), maxChangeRate: rate(1) },
  minSelfDelegation: "1",
  delegatorAddress: account.signer.address,
  validatorAddress: operatorAddress(account),
  pubkey: pack(cryptoEd25519.PubKeySchema, { key: hash("sha256", `consensus ${i}`, "buffer") }),
  value: upokt(POKT),
});

const delegation = (account: Account, state: GasState) => ({
  delegatorAddress: account.signer.address,
  validatorAddress: operatorAddress(state.authority),
  amount: upokt(5n),
});

const STAKING: readonly GasCase[] = [
  usual("create-validator", staking.MsgCreateValidatorSchema, "accounts", createValidator),
  single("edit-validator-many", staking.MsgEditValidatorSchema, "accounts", (state, account) => [
    pack(staking.MsgCreateValidatorSchema, createValidator(state, account, 0)),
    ...times(MANY, (i) =>
      pack(staking.MsgEditValidatorSchema, {
        description: description(i % 3_000),
        validatorAddress: operatorAddress(account),
      }),
    ),
  ]),
  single("edit-validator-long", staking.MsgEditValidatorSchema, "accounts", (_, account) => [
    pack(staking.MsgEditValidatorSchema, {
      description: description(LARGE_BYTES),
      validatorAddress: operatorAddress(account),
      commissionRate: "1".repeat(1_000),
    }),
  ]),
  usual("delegate", staking.MsgDelegateSchema, "accounts", (state, account) => delegation(account, state)),
  usual("undelegate", staking.MsgUndelegateSchema, "accounts", (state, account) => delegation(account, state)),
  usual("redelegate", staking.MsgBeginRedelegateSchema, "accounts", (state, { signer }) => ({
    delegatorAddress: signer.address,
    validatorSrcAddress: operatorAddress(state.authority),
    validatorDstAddress: operatorAddress(state.authority),
    amount: upokt(5n),
  })),
  usual("cancel-unbonding", staking.MsgCancelUnbondingDelegationSchema, "accounts", (state, account) => ({
    ...delegation(account, state),
    creationHeight: 1n,
  })),
];

const generic = (msg: string) => ({
  authorization: pack(authz.GenericAuthorizationSchema, { msg }),
  expiration: { seconds: 4_000_000_000n, nanos: 0 },
});

const AUTHZ: readonly GasCase[] = [
  ...shapes("grant", authz.MsgGrantSchema, "accounts", (_, { signer }, i) => ({
    granter: signer.address,
    grantee: stranger(i),
    grant: generic("/cosmos.bank.v1beta1.MsgSend"),
  })),
  ...shapes("grant-again", authz.MsgGrantSchema, "accounts", (state, { signer }, i) => ({
    granter: signer.address,
    grantee: accountOf(state, "accounts", 50).signer.address,
    grant: generic(["/cosmos.bank.v1beta1.MsgSend", "/cosmos.bank.v1beta1.MsgMultiSend"][i % 2] ?? ""),
  })),
  single("grant-long", authz.MsgGrantSchema, "accounts", (_, { signer }) => [
    pack(authz.MsgGrantSchema, {
      granter: signer.address,
      grantee: stranger(0),
      grant: generic("a".repeat(LARGE_BYTES)),
    }),
  ]),
  usual("revoke", authz.MsgRevokeSchema, "accounts", (_, { signer }, i) => ({
    granter: signer.address,
    grantee: stranger(i),
    msgTypeUrl: "/cosmos.bank.v1beta1.MsgSend",
  })),
  single("grant-and-revoke", authz.MsgRevokeSchema, "accounts", (_, { signer }) =>
    times(MANY, (i) =>
      i % 2 === 0
        ? pack(authz.MsgGrantSchema, {
            granter: signer.address,
            grantee: stranger(0),
            grant: generic("/cosmos.bank.v1beta1.MsgSend"),
          })
        : pack(authz.MsgRevokeSchema, {
            granter: signer.address,
            grantee: stranger(0),
            msgTypeUrl: "/cosmos.bank.v1beta1.MsgSend",
          }),
    ),
  ),
  usual("exec", authz.MsgExecSchema, "accounts", (state, { signer: { address } }, i) => ({
    grantee: address,
    msgs: [
      pack(bank.MsgSendSchema, {
        fromAddress: address,
        toAddress: accountOf(state, "accounts", (i + 1) % COUNT).signer.address,
        amount: [upokt(5n)],
      }),
    ],
  })),
  single("exec-nested", authz.MsgExecSchema, "accounts", (state, account) => [
    times(7, (i) => i).reduce<Any>(
      (inner) => exec(account, [inner]),
      exec(
        account,
        times(1_000, (i) => sendOf(state, i)),
      ),
    ),
  ]),
  single("exec-unknown", authz.MsgExecSchema, "accounts", (_, account) => [
    exec(
      account,
      times(10_000, () => ({ ...exec(account, []), typeUrl: "/cosmos.gov.v1.MsgVote", value: NOTHING })),
    ),
  ]),
];

const SERVICE: readonly GasCase[] = [
  ...shapes("add-service", service.MsgAddServiceSchema, "accounts", (_, { signer: { address } }, i) => ({
    ownerAddress: address,
    service: { id: `new-${address.slice(-8)}-${i}`, name: "new", computeUnitsPerRelay: 1n, ownerAddress: address },
  })),
  single("change-service-many", service.MsgAddServiceSchema, "accounts", (_, { signer: { address } }) =>
    times(MANY, (i) =>
      pack(service.MsgAddServiceSchema, {
        ownerAddress: address,
        service: {
          id: "new",
          name: "a".repeat(169),
          computeUnitsPerRelay: BigInt(i + 1),
          ownerAddress: address,
          metadata: { card: bytesOf(1_000) },
        },
      }),
    ),
  ),
  single("add-service-card", service.MsgAddServiceSchema, "accounts", (_, { signer: { address } }) => [
    pack(service.MsgAddServiceSchema, {
      ownerAddress: address,
      service: {
        id: "new",
        name: "new",
        computeUnitsPerRelay: 1n,
        ownerAddress: address,
        metadata: { card: bytesOf(CARD_BYTES) },
      },
    }),
  ]),
  single("add-service-long", service.MsgAddServiceSchema, "accounts", (_, { signer: { address } }) => [
    pack(service.MsgAddServiceSchema, {
      ownerAddress: address,
      service: { id: "a".repeat(LARGE_BYTES), name: "new", computeUnitsPerRelay: 1n, ownerAddress: address },
    }),
  ]),
  {
    name: "transfer-service",
    typeUrl: typeUrlOf(service.MsgTransferServiceSchema),
    txs: (state) =>
      times(COUNT, (i) =>
        state.sign(
          state.authority,
          [
            pack(service.MsgTransferServiceSchema, {
              ownerAddress: state.authority.signer.address,
              serviceId: serviceIdOf(i),
              newOwnerAddress: stranger(i),
            }),
          ],
          AUTHORITY_SEQUENCE + BigInt(i),
        ),
      ),
  },
];

const GATEWAY: readonly GasCase[] = [
  usual("stake-gateway", gateway.MsgStakeGatewaySchema, "accounts", (_, { signer: { address } }) => ({
    address,
    stake: upokt(1_000n * POKT),
  })),
  single("stake-gateway-many", gateway.MsgStakeGatewaySchema, "gateways", (_, { signer: { address } }) =>
    times(MANY, (i) => pack(gateway.MsgStakeGatewaySchema, { address, stake: upokt(1_001n * POKT + BigInt(i)) })),
  ),
  usual("unstake-gateway", gateway.MsgUnstakeGatewaySchema, "gateways", (_, { signer: { address } }) => ({ address })),
  single("gateway-card", gateway.MsgUpdateGatewayMetadataSchema, "gateways", (_, { signer: { address } }) => [
    pack(gateway.MsgUpdateGatewayMetadataSchema, { address, metadata: { card: bytesOf(CARD_BYTES) } }),
    ...times(MANY, (i) => pack(gateway.MsgStakeGatewaySchema, { address, stake: upokt(1_001n * POKT + BigInt(i)) })),
  ]),
  single("gateway-card-many", gateway.MsgUpdateGatewayMetadataSchema, "gateways", (_, { signer: { address } }) =>
    times(MANY, (i) =>
      pack(gateway.MsgUpdateGatewayMetadataSchema, { address, metadata: { card: bytesOf(2_000 + i) } }),
    ),
  ),
];

const stakeApplication = ({ signer: { address } }: Account, i: number, serviceId = SERVICE_ID) => ({
  address,
  stake: upokt(10_001n * POKT + BigInt(i)),
  services: [{ serviceId }],
});

const APPLICATION: readonly GasCase[] = [
  usual("stake-application", application.MsgStakeApplicationSchema, "accounts", (_, account, i) =>
    stakeApplication(account, i),
  ),
  ...shapes("restake-application", application.MsgStakeApplicationSchema, "applications", (_, account, i) =>
    stakeApplication(account, i),
  ),
  single("application-other-service-many", application.MsgStakeApplicationSchema, "applications", (_, account) =>
    times(MANY, (i) => pack(application.MsgStakeApplicationSchema, stakeApplication(account, i, serviceIdOf(i % 40)))),
  ),
  single(
    "stake-application-services",
    application.MsgStakeApplicationSchema,
    "accounts",
    (_, { signer: { address } }) => [
      pack(application.MsgStakeApplicationSchema, {
        address,
        stake: upokt(10_001n * POKT),
        services: times(LARGE_BYTES / 2, () => ({})),
      }),
    ],
  ),
  usual("unstake-application", application.MsgUnstakeApplicationSchema, "applications", (_, { signer }) => ({
    address: signer.address,
  })),
  usual("delegate-to-gateway", application.MsgDelegateToGatewaySchema, "applications", (state, { signer }) => ({
    appAddress: signer.address,
    gatewayAddress: accountOf(state, "gateways", 0).signer.address,
  })),
  usual(
    "undelegate-from-gateway-refused",
    application.MsgUndelegateFromGatewaySchema,
    "applications",
    (state, { signer }) => ({
      appAddress: signer.address,
      gatewayAddress: accountOf(state, "gateways", 0).signer.address,
    }),
  ),
  {
    name: "delegate-and-undelegate",
    typeUrl: typeUrlOf(application.MsgUndelegateFromGatewaySchema),
    txs: (state) =>
      state.applications.slice(0, COUNT).map((account) => {
        const gatewayAddress = accountOf(state, "gateways", 0).signer.address;
        const init = { appAddress: account.signer.address, gatewayAddress };
        return state.sign(account, [
          pack(application.MsgDelegateToGatewaySchema, init),
          pack(application.MsgUndelegateFromGatewaySchema, init),
        ]);
      }),
  },
  single("delegate-alternately", application.MsgDelegateToGatewaySchema, "applications", (state, { signer }) =>
    times(MANY, (i) => {
      const gatewayAddress = accountOf(state, "gateways", (i >> 1) % Math.min(64, state.gateways.length)).signer
        .address;
      const init = { appAddress: signer.address, gatewayAddress };
      return i % 2 === 0
        ? pack(application.MsgDelegateToGatewaySchema, init)
        : pack(application.MsgUndelegateFromGatewaySchema, init);
    }),
  ),
  ...shapes("transfer-application", application.MsgTransferApplicationSchema, "applications", (_, { signer }, i) => ({
    sourceAddress: signer.address,
    destinationAddress: stranger(i),
  })),
];

const SUPPLIER: readonly GasCase[] = [
  usual("stake-supplier", supplier.MsgStakeSupplierSchema, "accounts", (_, account) =>
    stakeOf(account, [configOf(account, SERVICE_ID)]),
  ),
  ...shapes("restake-supplier", supplier.MsgStakeSupplierSchema, "suppliers", (_, account, i) =>
    stakeOf(account, [configOf(account, SERVICE_ID)], 1_001n * POKT + BigInt(i)),
  ),
  single("stake-supplier-100-services", supplier.MsgStakeSupplierSchema, "accounts", (_, account) => [
    pack(
      supplier.MsgStakeSupplierSchema,
      stakeOf(
        account,
        times(100, (i) => configOf(account, serviceIdOf(i))),
      ),
    ),
  ]),
  single("restake-supplier-100-services", supplier.MsgStakeSupplierSchema, "accounts", (_, account) => [
    pack(
      supplier.MsgStakeSupplierSchema,
      stakeOf(
        account,
        times(100, (i) => configOf(account, serviceIdOf(i))),
      ),
    ),
    ...times(20, (n) => pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [], 1_001n * POKT + BigInt(n + 1)))),
  ]),
  single("stake-supplier-large-config", supplier.MsgStakeSupplierSchema, "accounts", (_, account) => [
    pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [configOf(account, serviceIdOf(0), CONFIG_BYTES)])),
  ]),
  single("restake-supplier-large-config", supplier.MsgStakeSupplierSchema, "accounts", (_, account) => [
    pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [configOf(account, serviceIdOf(0), CONFIG_BYTES)])),
    ...times(20, (n) => pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [], 1_001n * POKT + BigInt(n + 1)))),
  ]),
  ...(["", "-in-exec"] as const).flatMap((suffix) => {
    const wrap = (account: Account, any: Any): Any[] => [suffix === "" ? any : exec(account, [any])];
    return [
      single(`stake-supplier-empty-endpoints${suffix}`, supplier.MsgStakeSupplierSchema, "accounts", (_, account) => {
        const config = { ...configOf(account, serviceIdOf(0)), endpoints: times(LARGE_BYTES / 2, () => ({})) };
        return wrap(account, pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [config])));
      }),
      single(`stake-supplier-empty-services${suffix}`, supplier.MsgStakeSupplierSchema, "accounts", (_, account) =>
        wrap(
          account,
          pack(
            supplier.MsgStakeSupplierSchema,
            stakeOf(
              account,
              times(LARGE_BYTES / 2, () => ({})),
            ),
          ),
        ),
      ),
      single(`stake-supplier-60000-services${suffix}`, supplier.MsgStakeSupplierSchema, "accounts", (_, account) => {
        const { address } = account.signer;
        const services = times(8_000, (i) => ({
          serviceId: `s${i}`,
          endpoints: [{ url: "http://a", rpcType: shared.RPCType.JSON_RPC }],
          revShare: [{ address, revSharePercentage: 100n }],
        }));
        return wrap(account, pack(supplier.MsgStakeSupplierSchema, stakeOf(account, services)));
      }),
      single(`stake-supplier-shares${suffix}`, supplier.MsgStakeSupplierSchema, "accounts", (_, account) => {
        const revShare = times(12_000, (i) => ({ address: stranger(i), revSharePercentage: 1n }));
        const config = { ...configOf(account, serviceIdOf(0)), revShare };
        return wrap(account, pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [config])));
      }),
      single(`stake-supplier-long-url${suffix}`, supplier.MsgStakeSupplierSchema, "accounts", (_, account) => {
        const url = `https://a.example/${"a%20".repeat(LARGE_BYTES / 4)}`;
        const endpoints = [{ url, rpcType: shared.RPCType.JSON_RPC }];
        const config = { ...configOf(account, serviceIdOf(0)), endpoints };
        return wrap(account, pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [config])));
      }),
    ];
  }),
  usual("unstake-supplier", supplier.MsgUnstakeSupplierSchema, "suppliers", (_, { signer: { address } }) => ({
    signer: address,
    operatorAddress: address,
  })),
];

const PROOF: readonly GasCase[] = [
  {
    name: "claim",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs: (state) =>
      claimants(state, COUNT).map(({ account, application }) =>
        state.sign(account, [claimOf(state, account, application)]),
      ),
  },
  {
    name: "claim-many-in-exec",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs(state) {
      const [first] = claimants(state, 1);
      if (first === undefined) return [];
      const places = sessionsOf(state, first.account, 8);
      const claims = places.map((place) => claimOf(state, first.account, place));
      return [state.sign(first.account, [exec(first.account, claims)])];
    },
  },
  {
    // Each draws its session, which no run before has.
    name: "claim-first-of-session",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs(state, run) {
      const claimed = new Set<Account>();
      return times(COUNT, (i) => {
        const { header, suppliers } = state.drawn(
          accountOf(state, "applications", (1 + run * COUNT + i) % state.applications.length),
        );
        const account = suppliers.find((one) => !claimed.has(one));
        if (account === undefined) return [];
        claimed.add(account);
        return [state.sign(account, [claimIn(header, account)])];
      }).flat();
    },
  },
  {
    name: "claim-of-few-suppliers-many",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs: (state) => bySupplier(state.works, claimMessage).map(({ account, messages }) => state.sign(account, messages)),
  },
  ...PROOF_SESSIONS.filter(({ members, isLargeService }) => members === 2 && isLargeService !== true).map(
    ({ name }): GasCase => ({
      name: `claim-of-few-suppliers-${name}`,
      typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
      txs: (state) =>
        state.works
          .filter(({ session }) => session === name)
          .map((work) => state.sign(work.supplier, [claimMessage(work)])),
    }),
  ),
  {
    // A supplier that changes its services between any two claims: candidates are other ones for each of them.
    name: "claim-after-restake",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs: (state) =>
      claimants(state, COUNT).flatMap(({ account, application }, i) => {
        const other = accountOf(state, "suppliers", state.suppliers.length - 1 - i);
        const stake = stakeOf(other, [configOf(other, SERVICE_ID)]);
        return [
          state.sign(other, [pack(supplier.MsgStakeSupplierSchema, stake)]),
          state.sign(account, [claimOf(state, account, application)]),
        ];
      }),
  },
  {
    name: "claim-after-restake-in-one",
    typeUrl: typeUrlOf(proof.MsgCreateClaimSchema),
    txs(state) {
      const [first] = claimants(state, 1);
      if (first === undefined) return [];
      const { account, application } = first;
      const messages = times(20, (i) => [
        pack(
          supplier.MsgStakeSupplierSchema,
          stakeOf(account, [configOf(account, SERVICE_ID)], 1_001n * POKT + BigInt(i)),
        ),
        claimOf(state, account, application),
      ]).flat();
      return [state.sign(account, messages)];
    },
  },
  ...[1_000, LARGE_BYTES].map(
    (bytes): GasCase => ({
      name: `proof-garbage-${bytes}`,
      typeUrl: typeUrlOf(proof.MsgSubmitProofSchema),
      txs: (state) =>
        claimants(state, bytes === LARGE_BYTES ? 2 : COUNT).map(({ account, application }) => {
          const { header } = state.session(accountOf(state, "applications", application));
          const message = pack(proof.MsgSubmitProofSchema, {
            supplierOperatorAddress: account.signer.address,
            ...(header === undefined ? {} : { sessionHeader: header }),
            proof: bytesOf(bytes),
          });
          return state.sign(account, [message]);
        }),
    }),
  ),
];

const textField = (number: number, bytes: Uint8Array): Uint8Array => {
  const length: number[] = [];
  let remainder = bytes.length;
  for (; remainder >= 0x80; remainder >>>= 7) length.push((remainder & 0x7f) | 0x80);
  return concatBytes(Uint8Array.of((number << 3) | 2, ...length, remainder), bytes);
};

/** All parameters of a module as they are: of the answer's field 1, into the message's field 2. */
function sameParams(state: GasState, module: string, schema: DescMessage): Any {
  const second = Uint8Array.from(state.query(`/${module}.Query/Params`, new Uint8Array(0)));
  second[0] = 0x12;
  const value = concatBytes(textField(1, utf8ToBytes(GOV)), second);
  return { ...pack(auth.MsgUpdateParamsSchema, {}), typeUrl: typeUrlOf(schema), value };
}

function paramCases(name: string, schema: DescMessage, make: (state: GasState) => Any): GasCase[] {
  const typeUrl = typeUrlOf(schema);
  const txs = (state: GasState, count: number): Uint8Array[] => {
    const message = make(state);
    return [
      state.sign(
        state.authority,
        [
          exec(
            state.authority,
            times(count, () => message),
          ),
        ],
        AUTHORITY_SEQUENCE,
      ),
    ];
  };
  return [
    { name, typeUrl, txs: (state) => txs(state, 1) },
    { name: `${name}-many`, typeUrl, txs: (state) => txs(state, MANY) },
  ];
}

const WHOLE: readonly (readonly [module: string, schema: DescMessage])[] = [
  ["cosmos.auth.v1beta1", auth.MsgUpdateParamsSchema],
  ["cosmos.bank.v1beta1", bank.MsgUpdateParamsSchema],
  ["cosmos.staking.v1beta1", staking.MsgUpdateParamsSchema],
  ["pocket.service", service.MsgUpdateParamsSchema],
  ["pocket.gateway", gateway.MsgUpdateParamsSchema],
  ["pocket.application", application.MsgUpdateParamsSchema],
  ["pocket.supplier", supplier.MsgUpdateParamsSchema],
  ["pocket.session", session.MsgUpdateParamsSchema],
  ["pocket.proof", proof.MsgUpdateParamsSchema],
  ["pocket.tokenomics", tokenomics.MsgUpdateParamsSchema],
  ["pocket.shared", shared.MsgUpdateParamsSchema],
];

const units = (value: bigint) => ({ case: "asUint64" as const, value });
const coins = (value: bigint) => ({ case: "asCoin" as const, value: upokt(value) });

const ONE: readonly (readonly [DescMessage, Any])[] = [
  [
    service.MsgUpdateParamSchema,
    pack(service.MsgUpdateParamSchema, { authority: GOV, name: "target_num_relays", asType: units(100_000n) }),
  ],
  [
    gateway.MsgUpdateParamSchema,
    pack(gateway.MsgUpdateParamSchema, { authority: GOV, name: "min_stake", asType: coins(POKT) }),
  ],
  [
    application.MsgUpdateParamSchema,
    pack(application.MsgUpdateParamSchema, { authority: GOV, name: "max_delegated_gateways", asType: units(7n) }),
  ],
  [
    supplier.MsgUpdateParamSchema,
    pack(supplier.MsgUpdateParamSchema, { authority: GOV, name: "min_stake", asType: coins(POKT) }),
  ],
  [
    session.MsgUpdateParamSchema,
    pack(session.MsgUpdateParamSchema, { authority: GOV, name: "num_suppliers_per_session", asType: units(15n) }),
  ],
  [
    proof.MsgUpdateParamSchema,
    pack(proof.MsgUpdateParamSchema, { authority: GOV, name: "proof_submission_fee", asType: coins(1n) }),
  ],
  [
    tokenomics.MsgUpdateParamSchema,
    pack(tokenomics.MsgUpdateParamSchema, {
      authority: GOV,
      name: "global_inflation_per_claim",
      asType: { case: "asFloat", value: 0.1 },
    }),
  ],
  [
    shared.MsgUpdateParamSchema,
    pack(shared.MsgUpdateParamSchema, {
      authority: GOV,
      name: "compute_units_to_tokens_multiplier",
      asType: units(42_000_000n),
    }),
  ],
];

const moduleOf = (schema: DescMessage): string => schema.typeName.split(".")[1] ?? "";

const PARAMS: readonly GasCase[] = [
  ...WHOLE.flatMap(([module, schema]) =>
    paramCases(`params-${moduleOf(schema)}`, schema, (state) => sameParams(state, module, schema)),
  ),
  ...ONE.flatMap(([schema, any]) => paramCases(`param-${moduleOf(schema)}`, schema, () => any)),
];

const plan = { name: "later", height: 1_000_000_000n, info: "" };
const UPGRADE: readonly GasCase[] = [
  ...paramCases("plan-upgrade", upgrade.MsgSoftwareUpgradeSchema, () =>
    pack(upgrade.MsgSoftwareUpgradeSchema, { authority: GOV, plan }),
  ),
  ...paramCases("cancel-upgrade", upgrade.MsgCancelUpgradeSchema, () =>
    pack(upgrade.MsgCancelUpgradeSchema, { authority: GOV }),
  ),
];

/** The case that all others are compared with. */
export const PLAIN_SEND = "send";

/** Every message type at its usual size and at its limits. `gas-cases.test.ts` fails for a message without one. */
export const GAS_CASES: readonly GasCase[] = [
  ...BANK,
  ...STAKING,
  ...AUTHZ,
  ...SERVICE,
  ...GATEWAY,
  ...APPLICATION,
  ...SUPPLIER,
  ...PROOF,
  ...PARAMS,
  ...UPGRADE,
];

/** Proofs that hold, which the end of the block verifies: each of another supplier of a session. */
export const PROOF_CASES: readonly GasCase<ProvingState>[] = PROOF_SESSIONS.map(({ name }) => ({
  name: `proof-${name}`,
  typeUrl: typeUrlOf(proof.MsgSubmitProofSchema),
  // Each supplier has sent its claims.
  txs: (state) => state.proofs(name).map(({ account, message }) => state.sign(account, [message], 1n)),
}));

/** Types of messages that the chain refuses whatever they hold, with the reason: their cases cost no more than a refusal. */
export const REFUSED_TYPES: Readonly<Record<string, string>> = {
  [typeUrlOf(staking.MsgDelegateSchema)]: "the chain accepts no delegation",
  [typeUrlOf(staking.MsgUndelegateSchema)]: "the chain accepts no delegation",
  [typeUrlOf(staking.MsgBeginRedelegateSchema)]: "the chain accepts no delegation",
  [typeUrlOf(staking.MsgCancelUnbondingDelegationSchema)]: "the chain accepts no delegation",
  [typeUrlOf(bank.MsgSetSendEnabledSchema)]: "the genesis has no grant for it",
  [typeUrlOf(auth.MsgUpdateParamsSchema)]: "the genesis has no grant for it",
  [typeUrlOf(bank.MsgUpdateParamsSchema)]: "the genesis has no grant for it",
  [typeUrlOf(staking.MsgUpdateParamsSchema)]: "the genesis has no grant for it",
};

/** Bytes that the checks refuse, some 700 KB each. */
export const REFUSED_TXS: Readonly<Record<string, (state: GasState) => Uint8Array>> = {
  garbage: () => hash("shake256", "garbage", { outputEncoding: "buffer", outputLength: LARGE_BYTES }),
  zeros: () => new Uint8Array(LARGE_BYTES),
  "unsigned-sends": (state) =>
    unsigned(
      state,
      times(5_000, (i) => sendOf(state, i)),
    ),
  "unsigned-empty-coins": (state) =>
    unsigned(state, [
      pack(bank.MsgSendSchema, {
        fromAddress: accountOf(state, "accounts", 0).signer.address,
        toAddress: stranger(0),
        amount: times(LARGE_BYTES / 2, () => ({})),
      }),
    ]),
  "unsigned-empty-messages": (state) =>
    unsigned(
      state,
      times(LARGE_BYTES / 40, () => pack(bank.MsgSendSchema, {})),
    ),
  "unknown-types": (state) =>
    unsigned(
      state,
      times(LARGE_BYTES / 30, () => ({ ...pack(bank.MsgSendSchema, {}), typeUrl: "/cosmos.gov.v1.MsgVote" })),
    ),
  "empty-anys": (state) =>
    unsigned(
      state,
      times(LARGE_BYTES / 2, () => ({ ...pack(bank.MsgSendSchema, {}), typeUrl: "" })),
    ),
  "nested-execs": (state) => {
    const account = accountOf(state, "accounts", 0);
    const deep = (depth: number): Any => (depth === 0 ? sendOf(state, 0) : exec(account, [deep(depth - 1)]));
    return unsigned(
      state,
      times(400, () => deep(7)),
    );
  },
  "exec-empty-endpoints": (state) => {
    const account = accountOf(state, "accounts", 0);
    const config = { ...configOf(account, SERVICE_ID), endpoints: times(LARGE_BYTES / 2, () => ({})) };
    return unsigned(state, [exec(account, [pack(supplier.MsgStakeSupplierSchema, stakeOf(account, [config]))])]);
  },
  "60000-services": (state) => {
    const account = accountOf(state, "accounts", 0);
    const services = times(60_000, (i) => ({ serviceId: `s${i}` }));
    return unsigned(state, [pack(supplier.MsgStakeSupplierSchema, stakeOf(account, services))]);
  },
  "many-signers": (state) =>
    unsigned(
      state,
      times(5_000, (i) =>
        pack(bank.MsgSendSchema, { fromAddress: stranger(i), toAddress: stranger(0), amount: [upokt(1n)] }),
      ),
    ),
  "wrong-sequence": (state) => {
    const account = accountOf(state, "accounts", 0);
    return state.sign(
      account,
      times(5_000, (i) => sendOf(state, i)),
      7n,
    );
  },
};

function sendOf(state: GasState, i: number): Any {
  return pack(bank.MsgSendSchema, {
    fromAddress: accountOf(state, "accounts", 0).signer.address,
    toAddress: stranger(i),
    amount: [upokt(1n)],
  });
}

function unsigned(state: GasState, messages: readonly Any[]): Uint8Array {
  return state.unsigned(messages);
}

/** A send of each account until they have this many bytes: what refused bytes are compared with. */
export function sendsOf(state: GasState, bytes: number): Uint8Array[] {
  const txs: Uint8Array[] = [];
  for (let sum = 0, i = 0; sum < bytes && i < state.accounts.length; i++) {
    const account = accountOf(state, "accounts", i);
    const message = pack(bank.MsgSendSchema, {
      fromAddress: account.signer.address,
      toAddress: stranger(i),
      amount: [upokt(1n)],
    });
    const tx = state.sign(account, [message]);
    txs.push(tx);
    sum += tx.length;
  }
  return txs;
}
