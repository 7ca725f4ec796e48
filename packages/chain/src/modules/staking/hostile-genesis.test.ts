import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { moduleAddress } from "@turnpike/crypto";
import { createMessage, staking } from "@turnpike/proto";
import { pocketMachine } from "../../app/pocket-machine.ts";
import type { BlockInfo } from "../../state/context.ts";
import { GasMeter } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { stakingMessages } from "./messages.ts";
import { getStakingParams } from "./state.ts";

interface Staking {
  params: Record<string, unknown>;
  validators: Record<string, unknown>[];
  delegations: { delegation: Record<string, string> }[] & Record<string, unknown>[];
  last_validator_powers: Record<string, unknown>[];
  exported: boolean;
}

const EMPTY = { get: () => undefined, range: () => [] };
const GENESIS = new URL("../../../../../test/spec/recorded-chain/genesis.json", import.meta.url);
const { machine } = pocketMachine({ gasPrices: [] });
const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 0n,
  timeNanos: 1_795_270_244_080_935_120n,
  hash: new Uint8Array(32),
  proposer: new Uint8Array(20),
};

function begin(appState: Record<string, unknown>): Overlay {
  const state = new Overlay(EMPTY);
  for (const [key, value] of machine.initGenesis(EMPTY, block, appState).changes) {
    if (value !== undefined) state.set(key, value);
  }
  return state;
}

const recorded = JSON.parse(readFileSync(GENESIS, "utf8")) as { app_state: Record<string, unknown> };
const exported = JSON.stringify(machine.exportGenesis(begin(recorded.app_state), block));

function changed(change: (staking: Staking, validator: Record<string, unknown>) => void): Record<string, unknown> {
  const appState = JSON.parse(exported) as Record<string, unknown>;
  const state = appState["staking"] as Staking;
  change(state, state.validators[0] ?? assert.fail());
  return appState;
}

function assertRefused(change: Parameters<typeof changed>[0], why: RegExp): void {
  assert.throws(
    () => begin(changed(change)),
    (error) => {
      assert.ok(isAppError(error, "CONFIG_INVALID"), String(error));
      assert.match(error.message, why);
      return true;
    },
  );
}

const other = { operator_address: "poktvaloper1qyqszqgpqyqszqgpqyqszqgpqyqszqgpdxdg6u" };

suite("a genesis of staking that would stop the chain later", () => {
  test("what was exported begins again", () => {
    assert.equal(JSON.stringify(machine.exportGenesis(begin(changed(() => undefined)), block)), exported);
  });

  test("powers that are not those of the validators that vote", () => {
    assertRefused((state) => state.last_validator_powers.splice(0), /vote/);
    assertRefused((state) => state.last_validator_powers.push(...state.last_validator_powers), /power/);
    assertRefused((state) => Object.assign(state.last_validator_powers[0] ?? {}, { power: "901" }), /power/);
    assertRefused((_, validator) => Object.assign(validator, { jailed: true }), /jailed/);
    const unbonded = changed((_, validator) => Object.assign(validator, { status: "BOND_STATUS_UNBONDED" }));
    const { balances } = unbonded["bank"] as { balances: { address: string }[] };
    const pool = balances.find(({ address }) => address === moduleAddress("bonded_tokens_pool")) ?? assert.fail();
    pool.address = moduleAddress("not_bonded_tokens_pool");
    assert.throws(() => begin(unbonded), /power/);
  });

  test("a pool that holds less than its validators; what was sent to it besides is no fault", () => {
    const withPool = (amount: string): Record<string, unknown> => {
      const appState = changed(() => undefined);
      const { supply, balances } = appState["bank"] as {
        supply: unknown[];
        balances: { address: string; coins: { amount: string }[] }[];
      };
      supply.splice(0);
      const pool = balances.find(({ address }) => address === moduleAddress("bonded_tokens_pool"));
      Object.assign(pool?.coins[0] ?? assert.fail(), { amount });
      return appState;
    };
    assert.throws(() => begin(withPool("899999999")), /bonded_tokens_pool has 899999999/);
    begin(withPool("900000001"));
  });

  test("two validators of one key", () => {
    assertRefused((state, validator) => {
      state.validators.push({ ...validator, ...other, status: "BOND_STATUS_UNBONDED", tokens: "0" });
    }, /key/);
  });

  test("a commission over all, and delegations that are not the validator's shares", () => {
    assertRefused((_, validator) => {
      const rates = {
        rate: "5.000000000000000000",
        max_rate: "5.000000000000000000",
        max_change_rate: "0.010000000000000000",
      };
      Object.assign(validator, { commission: { commission_rates: rates, update_time: "2026-01-01T00:00:00Z" } });
    }, /commission/);
    assertRefused((state) => state.delegations.splice(0), /delegations/);
    assertRefused((state) => state.delegations.push(...state.delegations), /delegation/);
    assertRefused((state) => {
      state.delegations.push({ ...state.delegations[0], validator_address: other.operator_address });
    }, /delegation/);
  });

  test("times and counts that no block can keep", () => {
    assertRefused((state) => Object.assign(state.params, { unbonding_time: "315576000000s" }), /unbonding time/);
    assertRefused((state) => Object.assign(state.params, { max_validators: 4_000_000_000 }), /max validators/);
    assertRefused((_, validator) => {
      Object.assign(validator, { status: "BOND_STATUS_UNBONDING", unbonding_time: "0001-01-01T00:00:00Z" });
    }, /staking/);
  });

  test("the denomination of bonds stays what the pools hold", () => {
    const authority = moduleAddress("gov");
    const handler = stakingMessages({ authority })["/cosmos.staking.v1beta1.MsgUpdateParams"] ?? assert.fail();
    const state = begin(recorded.app_state);
    const ctx = { block, mode: "block" as const, state, gas: new GasMeter(), events: [] };
    const params = { ...getStakingParams(ctx), maxValidators: 1 };
    const update = (over: Partial<staking.Params>) =>
      handler.run(ctx, createMessage(staking.MsgUpdateParamsSchema, { authority, params: { ...params, ...over } }));
    const refused = update({ bondDenom: "mact" });
    assert.ok(!refused.ok && refused.fault.code === 18, JSON.stringify(refused));
    assert.ok(update({}).ok);
    machine.runBlock(state, { ...block, heightBlocks: 1n, hash: new Uint8Array(32).fill(1) }, []);
  });
});
