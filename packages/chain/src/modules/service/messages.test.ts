import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, service, shared } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import {
  AUTHORITY,
  ask,
  atHeight,
  emptyState,
  machine,
  recordedAsked,
  runExecuted,
  runMessage,
} from "../../../test/modules/shared/modules.ts";
import { planted } from "../../../test/planted.ts";
import {
  addSigner,
  assertAsRecorded,
  assertRefusedAsRecorded,
  bytesOfAddress,
  fund,
  runRecorded,
  type SignerState,
  stateOf,
  type TestState,
} from "../../../test/recorded-tx.ts";
import { addressText } from "../../state/addresses.ts";
import { createAccount } from "../auth/accounts.ts";
import { getBalance } from "../bank/balances.ts";
import { getComputeUnitsPerRelayAt, getService, getServiceParams, services } from "./state.ts";

const OWNER = "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8";
const OTHER = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const THIRD = "pokt1l420gpd6jag686mvr7pcw4xzfqphhg93lzwsym";
const RECORDED_PARAMS = { add_service_fee: { denom: "upokt", amount: "1000000000" }, target_num_relays: "10" };
const GENESIS = { service: { params: RECORDED_PARAMS } };

const xfer = { id: "xfer", name: "To be transferred", computeUnitsPerRelay: 3n };

interface Replay {
  readonly signer?: SignerState;
  readonly there?: Parameters<typeof createMessage<typeof shared.ServiceSchema>>[1];
}

const DELIVERED: Readonly<Record<string, Replay>> = {
  "service-add-new": {},
  "service-add-xfer": {},
  "service-transfer": { there: { ...xfer, ownerAddress: OTHER } },
  "service-update-cupr": {
    there: { id: "svc-new", name: "A new service", computeUnitsPerRelay: 7n, ownerAddress: OWNER },
  },
  "fail-service-fee-funds": { signer: { balance: 5100n } },
  "fail-service-transfer-not-owner": { there: { ...xfer, ownerAddress: THIRD } },
};

const REFUSED = [
  "fail-service-bad-id",
  "fail-service-cupr-zero",
  "fail-service-long-name",
  "fail-service-owner-mismatch",
];

function replayState(name: string, { signer, there }: Replay): TestState {
  const tx = readRecordedTx(name);
  const state = stateOf(machine, tx, { appState: GENESIS });
  addSigner(state.ctx, tx, signer);
  createAccount(state.ctx, moduleAddressBytes("service"));
  if (there !== undefined) services.set(state.ctx, there.id ?? "", planted(createMessage(shared.ServiceSchema, there)));
  return state;
}

suite("recorded transactions of services", () => {
  for (const [name, replay] of Object.entries(DELIVERED)) {
    test(`${name}: in a block, the recorded code, text, data and events`, () => {
      const tx = readRecordedTx(name);
      assertAsRecorded(runRecorded(machine, replayState(name, replay), tx, "deliver"), tx);
      assert.equal(runRecorded(machine, replayState(name, replay), tx, "check").code, 0);
    });
  }

  for (const name of REFUSED) {
    test(`${name}: by the mempool, the recorded code and text`, () => {
      const tx = readRecordedTx(name);
      assertRefusedAsRecorded(runRecorded(machine, replayState(name, {}), tx, "check"), tx);
    });
  }

  test("params-service-target-num-relays: the parameter is as the recorded query shows it later", () => {
    const tx = readRecordedTx("params-service-target-num-relays");
    const state = stateOf(machine, tx, { appState: GENESIS });
    const path = "/pocket.service.Query/Params";
    const before = ask(state, path, service.QueryParamsRequestSchema);
    assert.deepEqual(before, recordedAsked("service", "params at height 5"));
    assert.ok(runExecuted(state.ctx, tx).ok);
    assert.deepEqual(ask(state, path, service.QueryParamsRequestSchema), recordedAsked("service", "params"));
  });
});

suite("adding and changing services", () => {
  const add = (state: TestState, init: Record<string, unknown>, signer = OWNER) =>
    runMessage(state.ctx, service.MsgAddServiceSchema, {
      ownerAddress: signer,
      service: { id: "s", name: "n", computeUnitsPerRelay: 5n, ownerAddress: signer, ...init } as never,
    });
  const fresh = (): TestState => {
    const state = emptyState(GENESIS, { heightBlocks: 25n });
    fund(state.ctx, OWNER, 1_000_000_001n);
    return state;
  };
  const text = (ran: ReturnType<typeof add>): string =>
    ran.ok ? "" : `${ran.fault.codespace} ${ran.fault.code} ${ran.fault.text}`;

  test("a change costs nothing, keeps the card unless there is another, and counts from the next session on", () => {
    const state = fresh();
    const card = Buffer.from("card");
    assert.ok(add(state, { metadata: { card } }).ok);
    assert.equal(getBalance(state.ctx, bytesOfAddress(OWNER), "upokt"), 1n);
    assert.equal(getBalance(state.ctx, moduleAddressBytes("service"), "upokt"), 1_000_000_000n);
    assert.ok(add(atHeight(state, 33n), { name: "", computeUnitsPerRelay: 2n ** 21n }).ok);
    assert.deepEqual(getService(state.ctx, "s")?.metadata?.card, Uint8Array.from(card));
    const held = [1n, 21n, 33n, 40n, 41n].map((height) => getComputeUnitsPerRelayAt(state.ctx, "s", height));
    assert.deepEqual(held, [2n ** 21n, 5n, 5n, 5n, 2n ** 21n]);
    assert.equal(getBalance(state.ctx, bytesOfAddress(OWNER), "upokt"), 1n);
    assert.ok(add(atHeight(state, 45n), { name: "only the name", computeUnitsPerRelay: 2n ** 21n }).ok);
    assert.equal(getComputeUnitsPerRelayAt(state.ctx, "s", 51n), 2n ** 21n);
  });

  test("a service of the genesis gets its history with its first change", () => {
    const list = [{ id: "s", name: "n", compute_units_per_relay: "5", owner_address: OWNER }];
    const state = emptyState({ service: { ...GENESIS.service, service_list: list } }, { heightBlocks: 25n });
    assert.ok(add(state, { computeUnitsPerRelay: 6n }).ok);
    const held = [0n, 1n, 30n, 31n].map((height) => getComputeUnitsPerRelayAt(state.ctx, "s", height));
    assert.deepEqual(held, [6n, 5n, 5n, 6n]);
  });

  test("each refusal has its text", () => {
    const state = fresh();
    fund(state.ctx, OTHER, 1_000_000_000n);
    services.set(
      state.ctx,
      "taken",
      planted(createMessage(shared.ServiceSchema, { id: "taken", ownerAddress: THIRD })),
    );
    const texts = [
      add(state, { id: "" }),
      add(state, { id: "i".repeat(43) }),
      add(state, { name: "a/b" }),
      add(state, { computeUnitsPerRelay: 2n ** 21n + 1n }),
      add(state, { metadata: { card: new Uint8Array(0) } }),
      add(state, { metadata: { card: new Uint8Array(262_145) } }),
      add(state, {}, "pokt1"),
      add(state, { id: "taken" }),
      add(state, {}, OTHER),
      add(state, {}, THIRD),
    ].map(text);
    const status = "undefined 1 rpc error: code =";
    assert.deepEqual(texts, [
      "shared 1108 empty service ID: invalid service ID",
      `shared 1108 service ID '${"i".repeat(43)}' exceeds maximum length: 42: invalid service ID`,
      "shared 1109 service name 'a/b' contains invalid characters: invalid service name",
      "shared 1107 compute units per relay must be less than 2097152: invalid compute units per relay: invalid service",
      "shared 1111 metadata card must not be empty: invalid service metadata",
      "shared 1111 metadata card exceeds maximum size: got 262145 bytes, max 262144 bytes: invalid service metadata",
      "service 1102 invalid signer address pokt1; (decoding bech32 failed: invalid bech32 string length 5): invalid address when adding a new service",
      `${status} InvalidArgument desc = existing owner address "${THIRD}" does not match the new owner address "${OWNER}": invalid owner address`,
      `${status} FailedPrecondition desc = account has 1000000000, but the service fee is 1000000000upokt: not enough funds to add service`,
      `${status} FailedPrecondition desc = account has no spendable coins: not enough funds to add service`,
    ]);
    const transfers = [
      { ownerAddress: "", serviceId: "taken", newOwnerAddress: OWNER },
      { ownerAddress: OWNER, serviceId: "taken", newOwnerAddress: "x" },
      { ownerAddress: OWNER, serviceId: "", newOwnerAddress: OTHER },
      { ownerAddress: OWNER, serviceId: "taken", newOwnerAddress: OWNER },
      { ownerAddress: OWNER, serviceId: "nosuch", newOwnerAddress: OTHER },
    ].map((init) => text(runMessage(state.ctx, service.MsgTransferServiceSchema, init)));
    const address = "invalid address when adding a new service";
    assert.deepEqual(transfers, [
      `service 1102 invalid owner address ; (empty address string is not allowed): ${address}`,
      `service 1102 invalid new owner address x; (decoding bech32 failed: invalid bech32 string length 1): ${address}`,
      "service 1103 service ID cannot be empty: missing service ID",
      "service 1113 new owner address cannot be the same as the current owner address: invalid owner address",
      `${status} NotFound desc = service "nosuch" not found: service not found`,
    ]);
  });

  test("refusals of parameters have their texts", () => {
    const { ctx } = fresh();
    const change = (name: string, asType: service.MsgUpdateParam["asType"], authority = AUTHORITY): string =>
      text(runMessage(ctx, service.MsgUpdateParamSchema, { authority, name, asType }));
    const coin = (denom: string, amount: string) => {
      const value = { $typeName: "cosmos.base.v1beta1.Coin", denom, amount } as const;
      return { case: "asCoin", value } as const;
    };
    const invalid = "the provided param is invalid";
    const below = "add_service_fee param is below minimum value 1upokt: got";
    assert.deepEqual(
      [
        change("add_service_fee", coin("upokt", "0")),
        change("add_service_fee", coin("upokt", "")),
        change("add_service_fee", coin("mact", "5")),
        change("add_service_fee", { case: "asUint64", value: 5n }),
        change("target_num_relays", coin("upokt", "5")),
        change("target_num_relays", { case: undefined }),
        change("nosuch", coin("upokt", "5")),
        change("target_num_relays", { case: "asUint64", value: 5n }, OWNER),
        change("add_service_fee", coin("upokt", "5")),
      ],
      [
        `service 1115 ${below} 0upokt: ${invalid}`,
        `service 1115 ${below} upokt: ${invalid}`,
        `service 1115 invalid add_service_fee denom: mact: ${invalid}`,
        `service 1115 invalid type for param "add_service_fee"; expected *types.MsgUpdateParam_AsCoin, got *types.MsgUpdateParam_AsUint64: ${invalid}`,
        `service 1115 target_num_relays must be greater than 0: got 0: ${invalid}`,
        `service 1115 missing param AsType: ${invalid}`,
        `service 1115 unsupported param "nosuch": ${invalid}`,
        `undefined 1 rpc error: code = InvalidArgument desc = invalid authority; expected ${AUTHORITY}, got ${OWNER}: expected gov account as only signer for proposal message`,
        "",
      ],
    );
    assert.equal(getServiceParams(ctx).addServiceFee?.amount, "5");
  });
});

test("the fee goes to the account that clients know", () => {
  assert.equal(addressText(moduleAddressBytes("service")), "pokt1nhmtqf4gcmpxu0p6e53hpgtwj0llmsqpxtumcf");
});
