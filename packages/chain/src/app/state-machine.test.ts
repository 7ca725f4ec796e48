import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { auth, bank, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { authModule } from "../modules/auth/auth-module.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import type { BlockInfo } from "../state/context.ts";
import { moduleGenesis } from "../state/module.ts";
import { Overlay } from "../state/overlay.ts";
import { StateMachine } from "./state-machine.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const USER = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const OTHER = "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8";
const authority = moduleAddress("gov");
const machine = new StateMachine({ gasPrices: [] }, [
  authModule({ moduleAccounts: { fee_collector: [], gov: ["burner"] }, authority }),
  bankModule({ blocked: new Set(), authority }),
]);
const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 0n,
  timeNanos: 0n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};
const account = (address: string, number: string): Record<string, unknown> => ({
  "@type": "/cosmos.auth.v1beta1.BaseAccount",
  address,
  pub_key: null,
  account_number: number,
  sequence: "4",
});
const APP_STATE = {
  auth: { accounts: [account(USER, "0"), account(OTHER, "1")] },
  bank: {
    params: { send_enabled: [], default_send_enabled: true },
    balances: [
      {
        address: USER,
        coins: [
          { denom: "mact", amount: "7" },
          { denom: "upokt", amount: "1000" },
        ],
      },
      { address: OTHER, coins: [{ denom: "upokt", amount: "5" }] },
    ],
    supply: [
      { denom: "mact", amount: "7" },
      { denom: "upokt", amount: "1005" },
    ],
  },
};

function stateOf(appState: Readonly<Record<string, unknown>>): Overlay {
  const state = new Overlay(EMPTY);
  for (const [key, value] of machine.initGenesis(EMPTY, block, appState).changes) {
    if (value !== undefined) state.set(key, value);
  }
  return state;
}

suite("state machine", () => {
  test("what a state exports makes the same state again, byte by byte, whatever the order of its members", () => {
    const first = stateOf(APP_STATE);
    const exported = machine.exportGenesis(first, block);
    const turned = Object.fromEntries(Object.entries(exported).reverse());
    assert.deepEqual(stateOf(turned).changes(), first.changes());
    assert.ok(first.changes().length > 10);
  });

  test("a genesis whose supply is not the sum, with two balances of an address, or of a foreign shape is refused", () => {
    const { bank: good } = APP_STATE;
    const [first] = good.balances;
    for (const bad of [
      { ...good, supply: [{ denom: "upokt", amount: "1006" }] },
      { ...good, supply: [], balances: [first, first] },
      { ...good, supply: [], balances: [{ address: "zzz", coins: [] }] },
      { ...good, nonsense: 1 },
    ]) {
      assert.throws(() => stateOf({ ...APP_STATE, bank: bad }), { code: "CONFIG_INVALID" });
    }
  });

  test("what a module did not foresee in a genesis is refused by the module's name", () => {
    const surprised = {
      name: "surprised",
      genesis: moduleGenesis(auth.GenesisStateSchema, {
        init(): undefined {
          Buffer.alloc(8).writeBigUInt64BE(-1n);
        },
        export: () => createMessage(auth.GenesisStateSchema),
      }),
    };
    assert.throws(() => new StateMachine({ gasPrices: [] }, [surprised]).initGenesis(EMPTY, block, {}), {
      code: "CONFIG_INVALID",
      message: /^app_state\.surprised is not valid: /,
    });
  });

  test("queries go through pages, and refuse with the SDK's codes and texts", () => {
    const state = stateOf(APP_STATE);
    const ask = (init: Parameters<typeof createMessage<typeof bank.QueryAllBalancesRequestSchema>>[1]) =>
      machine.query(
        state,
        block,
        "/cosmos.bank.v1beta1.Query/AllBalances",
        encodeMessage(bank.QueryAllBalancesRequestSchema, createMessage(bank.QueryAllBalancesRequestSchema, init)),
      );
    const read = (answer: ReturnType<typeof ask>): bank.QueryAllBalancesResponse => {
      assert.ok(answer.ok);
      const decoded = decodeMessage(bank.QueryAllBalancesResponseSchema, answer.value);
      assert.ok(decoded.ok);
      return decoded.message;
    };
    const first = read(ask({ address: USER, pagination: { limit: 1n } }));
    assert.deepEqual(
      first.balances.map((coin) => coin.denom),
      ["mact"],
    );
    assert.equal(first.pagination?.total, 0n);
    const key = first.pagination?.nextKey ?? new Uint8Array(0);
    const second = read(ask({ address: USER, pagination: { key } }));
    assert.deepEqual(
      second.balances.map((coin) => coin.amount),
      ["1000"],
    );
    assert.equal(read(ask({ address: USER })).pagination?.total, 2n);
    assert.deepEqual(ask({ address: "zzz" }), {
      ok: false,
      status: 3,
      text: "invalid address: decoding bech32 failed: invalid bech32 string length 3",
    });
    assert.deepEqual(ask({ address: USER, pagination: { key, offset: 1n } }).ok, false);
    assert.deepEqual(machine.query(state, block, "/no.Query/Such", new Uint8Array(0)), {
      ok: false,
      status: 12,
      text: "Not Implemented",
    });
  });
});
