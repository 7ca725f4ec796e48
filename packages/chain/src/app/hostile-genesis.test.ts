import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { accountAddress, cosmosPublicKey, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import type { BlockInfo } from "../state/context.ts";
import { Overlay } from "../state/overlay.ts";
import { pocketMachine } from "./pocket-machine.ts";

type Json = Record<string, unknown>;

const EMPTY = { get: () => undefined, range: () => [] };
const { machine } = pocketMachine({ gasPrices: [] });
const addressOf = (secret: string): string =>
  accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(secret))));
const [APP, GATEWAY, OWNER] = ["app", "gateway", "owner"].map(addressOf) as [string, string, string];
const STAKE = { denom: "upokt", amount: "5000000" };
const PARAMS = {
  num_blocks_per_session: "10",
  grace_period_end_offset_blocks: "1",
  claim_window_open_offset_blocks: "1",
  claim_window_close_offset_blocks: "4",
  proof_window_open_offset_blocks: "0",
  proof_window_close_offset_blocks: "4",
  supplier_unbonding_period_sessions: "1",
  application_unbonding_period_sessions: "1",
  gateway_unbonding_period_sessions: "1",
  compute_units_to_tokens_multiplier: "42",
  compute_unit_cost_granularity: "1000000",
};

const blockAt = (heightBlocks: bigint): BlockInfo => ({
  chainId: "pocket",
  heightBlocks,
  timeNanos: 1_800_000_000_000_000_000n + heightBlocks,
  hash: new Uint8Array(32).fill(1),
  proposer: new Uint8Array(20),
});

interface Actors {
  readonly app?: Json;
  readonly gateway?: Json;
  readonly supplier?: Json;
  /** What a module's account has in place of its stakes. */
  readonly held?: Readonly<Record<string, string>>;
  readonly more?: Json;
}

function genesisOf({ app = {}, gateway = {}, supplier = {}, held = {}, more = {} }: Actors): Json {
  const balances = ["application", "gateway", "supplier"].map((name) => ({
    address: moduleAddress(name),
    coins: [{ denom: "upokt", amount: held[name] ?? STAKE.amount }],
  }));
  return {
    bank: { balances: balances.filter(({ coins: [coin] }) => coin?.amount !== "0") },
    application: {
      application_list: [{ address: APP, stake: STAKE, service_configs: [{ service_id: "svc" }], ...app }],
    },
    gateway: { gateway_list: [{ address: GATEWAY, stake: STAKE, ...gateway }] },
    supplier: { supplierList: [{ owner_address: OWNER, operator_address: OWNER, stake: STAKE, ...supplier }] },
    ...more,
  };
}

function begin(appState: Json): Overlay {
  const state = new Overlay(EMPTY);
  for (const [key, value] of machine.initGenesis(EMPTY, blockAt(0n), appState).changes) {
    if (value !== undefined) state.set(key, value);
  }
  return state;
}

function assertRefused(appState: Json, why: RegExp): void {
  assert.throws(
    () => begin(appState),
    (error) => {
      assert.ok(isAppError(error, "CONFIG_INVALID"), String(error));
      assert.match(error.message, why);
      return true;
    },
  );
}

/** Runs blocks up to a height: none of them may throw. */
function runTo(state: Overlay, last: bigint): void {
  for (let height = 1n; height <= last; height++) {
    for (const [key, value] of machine.runBlock(state, blockAt(height), []).changes) {
      if (value === undefined) state.delete(key);
      else state.set(key, value);
    }
  }
}

const HUGE = ((1n << 64n) - 1n).toString();

suite("a genesis that would stop the chain later", () => {
  test("a right one begins, and its actors unbond", () => {
    const unstaked = { unstake_session_end_height: "10" };
    const state = begin(genesisOf({ app: unstaked, gateway: unstaked, supplier: unstaked }));
    runTo(state, 41n);
    const { application, gateway, supplier } = machine.exportGenesis(state, blockAt(41n)) as Record<string, Json>;
    assert.deepEqual(
      [application?.["application_list"], gateway?.["gateway_list"], supplier?.["supplierList"]],
      [[], [], []],
    );
  });

  test("a transfer of an application to itself, which would double its stake", () => {
    for (const destination_address of [APP, APP.toUpperCase()]) {
      const pending_transfer = { destination_address, session_end_height: "10" };
      assertRefused(genesisOf({ app: { pending_transfer } }), /application_list\[0\]\.pending_transfer.*itself/);
    }
  });

  test("an account number that two accounts have; those without a number get free ones", () => {
    const account = (address: string, account_number: string): Json => ({
      "@type": "/cosmos.auth.v1beta1.BaseAccount",
      address,
      account_number,
    });
    const auth = (first: string, second: string): Json => ({
      auth: { accounts: [account(APP, first), account(OWNER, second)] },
    });
    assertRefused(genesisOf({ more: auth("7", "7") }), /auth\.accounts.*number 7.*twice/);
    for (const [first, second] of [
      ["0", "0"],
      ["0", "1"],
      ["7", "3"],
    ] as const) {
      const state = begin(genesisOf({ more: auth(first, second) }));
      const { accounts } = machine.exportGenesis(state, blockAt(0n))["auth"] as { readonly accounts: readonly Json[] };
      const numbers = accounts.map((one) => (one["base_account"] ?? one) as Json).map((one) => one["account_number"]);
      assert.equal(new Set(numbers).size, numbers.length);
    }
  });

  for (const [field, content] of Object.entries({
    proposals: [{ id: "1" }],
    deposits: [{ proposal_id: "1", depositor: OWNER, amount: [STAKE] }],
    votes: [{ proposal_id: "1", voter: OWNER }],
  })) {
    test(`${field} of gov, which nothing would carry out or give back`, () => {
      assertRefused(genesisOf({ more: { gov: { [field]: content } } }), new RegExp(`app_state\\.gov\\.${field}`));
      begin(genesisOf({ more: { gov: { [field]: [], params: { quorum: "0.5" } } } }));
    });
  }

  for (const name of ["application", "gateway", "supplier"]) {
    test(`stakes over what the account of ${name} has`, () => {
      const why = /4999999upokt.*5000000upokt/;
      assertRefused(genesisOf({ held: { [name]: "4999999" } }), why);
      assertRefused(genesisOf({ held: { [name]: "0" } }), /0upokt.*5000000upokt/);
    });
  }

  test("heights that no block has", () => {
    const never = { unstake_session_end_height: HUGE };
    for (const actors of [{ app: never }, { gateway: never }, { supplier: never }]) {
      assertRefused(genesisOf(actors), /height/);
    }
    const transfer = { destination_address: OWNER, session_end_height: HUGE };
    assertRefused(genesisOf({ app: { pending_transfer: transfer } }), /height/);
    const pending = { [HUGE]: { gateway_addresses: [GATEWAY] } };
    assertRefused(genesisOf({ app: { pending_undelegations: pending } }), /height/);
    const shared = { params: { ...PARAMS, session_grid_anchor_height: HUGE, session_number_at_anchor: HUGE } };
    assertRefused(genesisOf({ more: { shared } }), /shared/);
    const account = { "@type": "/cosmos.auth.v1beta1.BaseAccount", address: APP, account_number: HUGE };
    assertRefused(genesisOf({ more: { auth: { accounts: [account] } } }), /number/);
  });

  test("parameters whose sums leave 64 bits", () => {
    const huge = {
      ...PARAMS,
      num_blocks_per_session: "2",
      application_unbonding_period_sessions: "9",
      supplier_unbonding_period_sessions: "9223372036854775900",
    };
    assertRefused(genesisOf({ more: { shared: { params: huge } } }), /supplier_unbonding.*large/);
    const long = { ...PARAMS, num_blocks_per_session: "4611686018427387904" };
    assertRefused(genesisOf({ more: { shared: { params: long } } }), /num_blocks.*large/);
  });

  test("addresses and amounts that are none", () => {
    const transfer = { destination_address: "a/b", session_end_height: "10" };
    assertRefused(genesisOf({ app: { pending_transfer: transfer } }), /destination/);
    const pending = { "10": { gateway_addresses: ["nobody"] } };
    assertRefused(genesisOf({ app: { pending_undelegations: pending } }), /nobody/);
    for (const amount of ["abc", "1.5", "9".repeat(79)]) {
      assertRefused(genesisOf({ app: { per_session_spend_limit: { denom: "upokt", amount } } }), /limit/);
      const params = { min_stake: STAKE, staking_fee: { denom: "upokt", amount } };
      const supplier = { params, supplierList: [] };
      assertRefused({ ...genesisOf({}), supplier }, /staking_fee/);
    }
  });

  test("a difficulty that settlement cannot divide by, and compute units that no service has", () => {
    const target = (target_hash: string) => ({ serviceId: "svc", block_height: "1", num_relays_ema: "1", target_hash });
    const service = (list: Json) => genesisOf({ more: { service: list } });
    const zero = Buffer.alloc(32).toString("base64");
    assertRefused(service({ relayMiningDifficultyList: [target(zero)] }), /target/);
    for (const compute_units_per_relay of ["0", HUGE]) {
      const entry = { service_id: "svc", effective_height: "1", compute_units_per_relay };
      assertRefused(service({ compute_units_per_relay_history: [entry] }), /compute units/);
    }
  });

  test("an account with another's key", () => {
    const key = Buffer.from(cosmosPublicKey(privateKeyFromSecret(Buffer.from("app")))).toString("base64");
    const account = (address: string) => ({
      "@type": "/cosmos.auth.v1beta1.BaseAccount",
      address,
      pub_key: { "@type": "/cosmos.crypto.secp256k1.PubKey", key },
    });
    begin(genesisOf({ more: { auth: { accounts: [account(APP)] } } }));
    assertRefused(genesisOf({ more: { auth: { accounts: [account(OWNER)] } } }), /key of the account/);
  });

  test("a card that no message could have brought", () => {
    assertRefused(genesisOf({ gateway: { metadata: { card: Buffer.alloc(262_145).toString("base64") } } }), /card/);
  });

  test("one address with two balances, and more coins than an amount can tell", () => {
    const coins = [STAKE];
    const twice = { balances: [APP, APP.toUpperCase()].map((address) => ({ address, coins })) };
    assertRefused({ bank: twice }, /two balances/);
    const most = { denom: "upokt", amount: ((1n << 256n) - 1n).toString() };
    const over = { balances: [APP, GATEWAY].map((address) => ({ address, coins: [most] })) };
    assertRefused({ bank: over }, /supply/);
    assertRefused({ bank: { send_enabled: [{ denom: "x".repeat(600), enabled: true }] } }, /denom/);
  });

  test("a slashed supplier's stake of nothing comes back from an export", () => {
    const none = { denom: "upokt", amount: "0" };
    const supplier = { stake: none, unstake_session_end_height: "10" };
    const state = begin(genesisOf({ supplier, held: { supplier: "0" } }));
    begin(machine.exportGenesis(state, blockAt(1n)));
    runTo(state, 41n);
    assertRefused(genesisOf({ supplier: { stake: none } }), /stake/);
  });
});
