import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { encodeBech32, moduleAddress } from "@turnpike/crypto";
import { createMessage, cryptoEd25519, packAny, staking } from "@turnpike/proto";
import { assertOnlyFaults, sampleOf } from "../../../test/modules/supplier/hostile.ts";
import { blockAt } from "../../../test/modules/supplier/suppliers.ts";
import { fund } from "../../../test/recorded-tx.ts";
import { addressText } from "../../state/addresses.ts";
import { GasMeter } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { timestampOf } from "../../state/timestamps.ts";
import { stakingModule } from "./staking-module.ts";
import { getValidator, setValidator, unbondingValidators, validatorsByKey, validatorsByPower } from "./state.ts";
import { finishUnbonding, updateValidatorSet } from "./validator-set.ts";

const AUTHORITY = moduleAddress("gov");
const BYTES = new Uint8Array(20).fill(1);
const OPERATOR = encodeBech32("poktvaloper", BYTES);
const ANNA = addressText(BYTES);

const create = (operator: string, byte: number, amount: string): staking.MsgCreateValidator =>
  createMessage(staking.MsgCreateValidatorSchema, {
    description: { moniker: "v" },
    commission: { rate: "100000000000000000", maxRate: "200000000000000000", maxChangeRate: "10000000000000000" },
    minSelfDelegation: "1",
    validatorAddress: operator,
    pubkey: packAny(
      cryptoEd25519.PubKeySchema,
      createMessage(cryptoEd25519.PubKeySchema, { key: new Uint8Array(32).fill(byte) }),
    ),
    value: { denom: "upokt", amount },
  });

suite("staking: hostile input", () => {
  const module = stakingModule({ authority: AUTHORITY });
  const begin = () => {
    const state = new Overlay({ get: () => undefined, range: () => [] });
    const ctx = { block: blockAt(3n), mode: "block" as const, state, gas: new GasMeter(), events: [] };
    fund(ctx, ANNA, 2n ** 80n);
    const handler = module.messages?.["/cosmos.staking.v1beta1.MsgCreateValidator"] ?? assert.fail();
    assert.ok(handler.run(ctx, create(OPERATOR, 1, "5000000")).ok);
    updateValidatorSet(ctx);
    return ctx;
  };

  test("10,000 bent messages end in faults, or in nothing worse than what a right one does", () => {
    const ctx = begin();
    const amount = { denom: "upokt", amount: "1000000" };
    const second = new Uint8Array(20).fill(2);
    fund(ctx, addressText(second), 2n ** 80n);
    const samples = [
      sampleOf(staking.MsgCreateValidatorSchema, create(encodeBech32("poktvaloper", second), 2, "7000000")),
      sampleOf(
        staking.MsgDelegateSchema,
        createMessage(staking.MsgDelegateSchema, { delegatorAddress: ANNA, validatorAddress: OPERATOR, amount }),
      ),
      sampleOf(
        staking.MsgEditValidatorSchema,
        createMessage(staking.MsgEditValidatorSchema, {
          validatorAddress: OPERATOR,
          description: { moniker: "w" },
          minSelfDelegation: "2",
        }),
      ),
      sampleOf(
        staking.MsgUpdateParamsSchema,
        createMessage(staking.MsgUpdateParamsSchema, {
          authority: AUTHORITY,
          params: {
            unbondingTime: { seconds: 5n },
            maxValidators: 2,
            maxEntries: 7,
            bondDenom: "upokt",
            minCommissionRate: "0",
          },
        }),
      ),
    ];
    const { taken, refused } = assertOnlyFaults(module, ctx, samples, 10_000);
    assert.ok(taken > 50 && refused > 3_000, `${taken} ${refused}`);
  });

  test("attack: a bond without voting power is refused, so that a coin each does not make validators that stay", () => {
    const handler = module.messages?.["/cosmos.staking.v1beta1.MsgCreateValidator"] ?? assert.fail();
    const second = new Uint8Array(20).fill(2);
    const ctx = begin();
    fund(ctx, addressText(second), 2n ** 80n);
    const operator = encodeBech32("poktvaloper", second);
    for (const amount of ["1", "999999"]) {
      const result = handler.run(ctx, create(operator, 2, amount));
      assert.ok(!result.ok && result.fault.code === 18);
      assert.match(result.fault.text, new RegExp(`bond of ${amount}upokt gives no voting power.*1000000upokt`));
    }
    assert.ok(handler.run(ctx, create(operator, 2, "1000000")).ok);
  });

  test("a validator that ends its unbonding without delegations is removed", () => {
    const ctx = begin();
    const validator = getValidator(ctx, BYTES) ?? assert.fail();
    for (const [tokens, delegatorShares] of [
      ["5000000", "5000000000000000000000000"],
      ["5000000", "0"],
      ["0", "0"],
    ] as const) {
      const unbondingTime = timestampOf(ctx.block.timeNanos);
      setValidator(ctx, { ...validator, status: staking.BondStatus.UNBONDING, unbondingTime, tokens, delegatorShares });
      unbondingValidators.set(ctx, [ctx.block.timeNanos, BYTES], new Uint8Array(0));
      finishUnbonding(ctx);
      assert.equal(getValidator(ctx, BYTES) === undefined, tokens === "0");
    }
    const indexes = [validatorsByKey, validatorsByPower, unbondingValidators].map(
      (collection) => [...collection.entries(ctx)].length,
    );
    assert.deepEqual(indexes, [0, 0, 0]);
  });

  test("a delegation that would make too much power is refused", () => {
    const handler = module.messages?.["/cosmos.staking.v1beta1.MsgCreateValidator"] ?? assert.fail();
    const second = new Uint8Array(20).fill(2);
    const ctx = begin();
    fund(ctx, addressText(second), 2n ** 80n);
    const result = handler.run(ctx, create(encodeBech32("poktvaloper", second), 2, (2n ** 71n).toString()));
    assert.ok(!result.ok && result.fault.code === 18);
    assert.match(result.fault.text, /too much power/);
  });
});
