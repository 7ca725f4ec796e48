import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { encodeBech32, moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import {
  type base,
  createMessage,
  cryptoEd25519,
  decodeMessage,
  encodeMessage,
  methodAt,
  packAny,
  base as schemas,
  staking,
  toApiJson,
} from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { addSigner, bytesOfAddress, fund, runRecorded } from "../../../test/recorded-tx.ts";
import { StateMachine } from "../../app/state-machine.ts";
import { addressText } from "../../state/addresses.ts";
import type { BlockInfo, Context } from "../../state/context.ts";
import { GasMeter } from "../../state/gas.ts";
import { fail, SDK } from "../../state/outcome.ts";
import { Overlay } from "../../state/overlay.ts";
import { readMessage } from "../../state/read-message.ts";
import { getAccount } from "../auth/accounts.ts";
import { authModule } from "../auth/auth-module.ts";
import { balances, getBalance, getSupply } from "../bank/balances.ts";
import { bankModule } from "../bank/bank-module.ts";
import { genutilModule } from "../genutil/genutil-module.ts";
import { operatorOf } from "./create-validator.ts";
import { delegate } from "./delegate.ts";
import { stakingModule } from "./staking-module.ts";
import {
  BONDED_POOL,
  getBondedValidators,
  getDelegationsTo,
  getValidator,
  NOT_BONDED_POOL,
  setIsStale,
} from "./state.ts";

const ROOT = new URL("../../../../../test/spec/recorded-chain/", import.meta.url);
const GENESIS = JSON.parse(readFileSync(new URL("genesis.json", ROOT), "utf8")) as {
  readonly app_state: Readonly<Record<string, unknown>>;
};
const AUTHORITY = moduleAddress("gov");
const OPERATOR = "poktvaloper1lvrxptamh6ws83x64x4m3stx0p5m94d7gq6yul";
const ACCOUNT = "pokt1lvrxptamh6ws83x64x4m3stx0p5m94d72nfxh8";
const EMPTY = { get: () => undefined, range: () => [] };

const machine = new StateMachine({ gasPrices: [] }, [
  authModule({
    moduleAccounts: {
      fee_collector: [],
      [BONDED_POOL]: ["burner", "staking"],
      [NOT_BONDED_POOL]: ["burner", "staking"],
    },
    authority: AUTHORITY,
  }),
  bankModule({ blocked: new Set(), authority: AUTHORITY }),
  stakingModule({ authority: AUTHORITY }),
  genutilModule(),
]);

const blockAt = (heightBlocks: bigint, timeNanos = 1_795_270_244_080_935_120n): BlockInfo => ({
  chainId: "pocket",
  heightBlocks,
  timeNanos,
  hash: new Uint8Array(32),
  proposer: new Uint8Array(20),
});

function begin(appState: Readonly<Record<string, unknown>> = GENESIS.app_state) {
  const state = new Overlay(EMPTY);
  const outcome = machine.initGenesis(EMPTY, blockAt(0n), appState);
  for (const [key, value] of outcome.changes) if (value !== undefined) state.set(key, value);
  const context = (block: BlockInfo): Context => ({ block, mode: "block", state, gas: new GasMeter(), events: [] });
  const ctx = context(blockAt(1n));
  const run = (block: BlockInfo, txs: readonly Uint8Array[] = []) => {
    const ran = machine.runBlock(state, block, txs);
    for (const [key, value] of ran.changes) {
      if (value === undefined) state.delete(key);
      else state.set(key, value);
    }
    return ran;
  };
  return { state, outcome, ctx, context, run };
}

/** Every coin is somewhere, and the pools hold what the validators say. */
function assertSums(ctx: Context): void {
  const sum = [...balances.entries(ctx)].reduce((total, [, amount]) => total + amount, 0n);
  assert.equal(sum, getSupply(ctx, "upokt") + getSupply(ctx, "mact"));
  const bonded = getBondedValidators(ctx).reduce((total, { tokens }) => total + BigInt(tokens), 0n);
  assert.equal(getBalance(ctx, moduleAddressBytes(BONDED_POOL), "upokt"), bonded);
}

function asked(state: Overlay, path: string, json: Record<string, unknown>): unknown {
  const method = methodAt(path);
  assert.ok(method);
  const request = createMessage(method.input, json);
  const answer = machine.query(state, blockAt(2n), path, encodeMessage(method.input, request));
  if (!answer.ok) return { code: answer.status, message: answer.text, details: [] };
  const decoded = decodeMessage(method.output, answer.value);
  assert.ok(decoded.ok);
  return toApiJson(method.output, decoded.message);
}

const query = (method: string): string => `/cosmos.staking.v1beta1.Query/${method}`;

function runMessage(ctx: Context, typeUrl: string, message: Parameters<typeof encodeMessage>[1]) {
  const handler = stakingModule({ authority: AUTHORITY }).messages?.[typeUrl];
  assert.ok(handler);
  // As a transaction's decoder reads it.
  const read = readMessage(handler.schema, encodeMessage(handler.schema, message));
  if (!read.ok) return fail(SDK.txDecode, read.fault);
  const fault = handler.validate(read.message);
  return fault === undefined ? handler.run(ctx, read.message) : ({ ok: false, fault } as const);
}

const encodeOperator = (bytes: Uint8Array): string => encodeBech32("poktvaloper", bytes);
const upokt = (amount: string, denom = "upokt"): base.Coin => createMessage(schemas.CoinSchema, { denom, amount });
const describe = (moniker: string, details = ""): staking.Description =>
  createMessage(staking.DescriptionSchema, { moniker, details });
const commissionOf = (over: Partial<staking.CommissionRates> = {}): staking.CommissionRates => ({
  ...createMessage(staking.CommissionRatesSchema, {
    rate: "100000000000000000",
    maxRate: "200000000000000000",
    maxChangeRate: "10000000000000000",
  }),
  ...over,
});

function createOf(byte: number, over: Partial<staking.MsgCreateValidator> = {}): staking.MsgCreateValidator {
  const key = createMessage(cryptoEd25519.PubKeySchema, { key: new Uint8Array(32).fill(byte) });
  const message = createMessage(staking.MsgCreateValidatorSchema, {
    description: describe(`v${byte}`),
    commission: commissionOf(),
    minSelfDelegation: "1",
    validatorAddress: encodeOperator(new Uint8Array(20).fill(byte)),
    pubkey: packAny(cryptoEd25519.PubKeySchema, key),
    value: upokt("5000000"),
  });
  return { ...message, ...over };
}

suite("staking from the recorded genesis", () => {
  test("its genesis transaction makes the recorded validator, bonded, with its power", () => {
    const { outcome, ctx, state } = begin();
    const [update, ...others] = outcome.validatorUpdates;
    assert.deepEqual(others, []);
    assert.equal(update?.power, 900n);
    assert.equal(Buffer.from(update.publicKey).toString("base64"), "UPgI/11weHlMk6i08CaHAdCNM0XlzyxXS+8TSJZw6tI=");
    assert.equal(getAccount(ctx, bytesOfAddress(ACCOUNT))?.base.sequence, 1n);
    assertSums(ctx);
    const { validator } = (recordedAnswers().get("validator") ?? assert.fail()).body as {
      validator: Record<string, unknown>;
    };
    assert.deepEqual(asked(state, query("Validator"), { validatorAddr: OPERATOR }), {
      validator: { ...validator, tokens: "900000000", delegator_shares: "900000000.000000000000000000" },
    });
  });

  test("a changed signature or amount stops the chain before it begins", () => {
    const text = JSON.stringify(GENESIS.app_state);
    for (const [from, to] of [
      ["J9tZCQdflPIY1D7N", "J9tZCQdflPIY1D7M"],
      ['"amount":"900000000"', '"amount":"900000001"'],
      ['"sequence":"0"}],"fee"', '"sequence":"1"}],"fee"'],
    ] as const) {
      assert.ok(text.includes(from), from);
      assert.throws(() => begin(JSON.parse(text.replace(from, to)) as Record<string, unknown>), /genesis transactions/);
    }
  });

  test("staking-delegate, which the real chain takes: refused before it costs anything, as nothing can be undelegated", () => {
    const { state, ctx } = begin();
    const tx = readRecordedTx("staking-delegate");
    const delegator = bytesOfAddress(tx.signer.address);
    if (getAccount(ctx, delegator) === undefined) addSigner(ctx, tx);
    const held = getBalance(ctx, delegator, "upokt");
    const block = blockAt(BigInt(tx.result?.tx_response.height ?? "0"));
    for (const mode of ["check", "deliver"] as const) {
      const { code, codespace, log } = runRecorded(machine, { state, block, ctx }, tx, mode);
      assert.deepEqual([code, codespace], [37, "sdk"], mode);
      assert.match(log, /cannot undelegate yet, so it accepts no delegation.*keep them in the account/);
    }
    assert.equal(getBalance(ctx, delegator, "upokt"), held);
    assertSums(ctx);
  });

  test("after a delegation: the recorded answers", () => {
    const { state, ctx } = begin();
    const tx = readRecordedTx("staking-delegate");
    const delegator = bytesOfAddress(tx.signer.address);
    if (getAccount(ctx, delegator) === undefined) addSigner(ctx, tx);
    const height = BigInt(tx.result?.tx_response.height ?? "0");
    const operator = operatorOf(OPERATOR);
    assert.ok(operator.ok);
    const validator = getValidator(ctx, operator.value) ?? assert.fail();
    assert.ok(delegate(ctx, delegator, validator, { denom: "upokt", amount: 123_456_789n }).ok);
    setIsStale.set(ctx, undefined, true);
    const ran = machine.runBlock(state, blockAt(height + 1n), []);
    assert.deepEqual(
      ran.validatorUpdates.map(({ power }) => power),
      [1023n],
    );
    for (const [name, path, request] of [
      ["params", "Params", {}],
      ["pool", "Pool", {}],
      ["validators", "Validators", {}],
      ["validator", "Validator", { validatorAddr: OPERATOR }],
      ["delegations", "ValidatorDelegations", { validatorAddr: OPERATOR }],
      ["delegator", "DelegatorDelegations", { delegatorAddr: tx.signer.address }],
      ["delegator unbonding", "DelegatorUnbondingDelegations", { delegatorAddr: tx.signer.address }],
      ["delegator validators", "DelegatorValidators", { delegatorAddr: tx.signer.address }],
      ["validator bad", "Validator", { validatorAddr: "zzz" }],
    ] as const) {
      assert.deepEqual(asked(state, query(path), request), recordedAnswers().get(name)?.body, name);
    }
    assert.deepEqual(asked(state, query("HistoricalInfo"), { height: 1n }), {
      code: 12,
      message: "Not Implemented",
      details: [],
    });
    assertSums(ctx);
  });

  test("an exported genesis makes the same state, and the same validators", () => {
    const { state, ctx } = begin();
    fund(ctx, addressText(new Uint8Array(20).fill(7)), 9_000_000n);
    assert.ok(runMessage(ctx, "/cosmos.staking.v1beta1.MsgCreateValidator", createOf(7)).ok);
    machine.runBlock(state, blockAt(1n), []);
    const exported = machine.exportGenesis(state, blockAt(1n));
    const again = begin(JSON.parse(JSON.stringify(exported)) as Record<string, unknown>);
    assert.deepEqual(machine.exportGenesis(again.state, blockAt(1n)), exported);
    assert.deepEqual(
      again.outcome.validatorUpdates.map(({ power }) => power),
      [900n],
    );
  });
});

suite("the set of validators", () => {
  test("the strongest vote, as many as may; who drops out unbonds, and its tokens change pools", () => {
    const { state, ctx, run, context } = begin();
    for (const [byte, amount] of [
      [1, 950_000_000n],
      [2, 899_000_000n],
    ] as const) {
      fund(ctx, addressText(new Uint8Array(20).fill(byte)), amount);
      const message = createOf(byte, { value: upokt(amount.toString()) });
      assert.ok(runMessage(ctx, "/cosmos.staking.v1beta1.MsgCreateValidator", message).ok);
    }
    const { validatorUpdates } = run(blockAt(2n));
    assert.deepEqual(
      validatorUpdates.map(({ power }) => power),
      [950n, 0n],
    );
    assertSums(ctx);
    assert.deepEqual(
      getBondedValidators(ctx).map(({ tokens }) => tokens),
      ["950000000"],
    );
    assert.deepEqual(run(blockAt(3n)).validatorUpdates, []);
    assert.equal(getBalance(ctx, moduleAddressBytes(NOT_BONDED_POOL), "upokt"), 900_000_000n + 899_000_000n);
    // Anybody can make others for the smallest coin: they are not read, so that they cost settlement nothing.
    const other = new Uint8Array(20).fill(77);
    const key = Buffer.concat([Buffer.from("staking/"), Uint8Array.of(0x21, other.length), other]);
    state.set(key, Uint8Array.of(0xff));
    assert.throws(() => getValidator(ctx, other));
    assert.equal(getBondedValidators(ctx).length, 1);
    state.delete(key);
    const later = blockAt(4n, blockAt(4n).timeNanos + 1_814_400_000_000_000n);
    run(later);
    const count = (status: string): unknown =>
      (asked(state, query("Validators"), { status }) as { pagination: { total: string } }).pagination.total;
    assert.deepEqual(
      ["BONDED", "UNBONDING", "UNBONDED"].map((status) => count(`BOND_STATUS_${status}`)),
      ["1", "0", "2"],
    );
    const delegations = getDelegationsTo(context(later), new Uint8Array(20).fill(1));
    assert.deepEqual(
      delegations.map(({ shares }) => shares),
      [`950000000${"0".repeat(18)}`],
    );
  });

  test("a validator of the same power as another stands behind it when its address is higher", () => {
    const { ctx, run } = begin();
    for (const byte of [1, 255]) {
      fund(ctx, addressText(new Uint8Array(20).fill(byte)), 900_000_000n);
      const message = createOf(byte, { value: upokt("900000000") });
      assert.ok(runMessage(ctx, "/cosmos.staking.v1beta1.MsgCreateValidator", message).ok);
    }
    assert.deepEqual(
      run(blockAt(2n)).validatorUpdates.map(({ publicKey, power }) => [publicKey[0], power]),
      [
        [1, 900n],
        [0x50, 0n],
      ],
    );
  });

  test("what may not be is refused with the SDK's code and text", () => {
    const { ctx } = begin();
    fund(ctx, addressText(new Uint8Array(20).fill(9)), 6_000_000n);
    const cases: [Partial<staking.MsgCreateValidator>, string, number][] = [
      [{ value: upokt("0") }, "sdk", 18],
      [{ value: upokt("5", "mact") }, "sdk", 18],
      [{ value: upokt("7000000") }, "sdk", 5],
      [{ minSelfDelegation: "0" }, "sdk", 18],
      [{ minSelfDelegation: "6000000" }, "staking", 16],
      [{ minSelfDelegation: "x" }, "sdk", 2],
      [{ description: describe("") }, "sdk", 18],
      [{ description: describe("m".repeat(71)) }, "sdk", 18],
      [{ commission: commissionOf({ rate: "300000000000000000" }) }, "staking", 11],
      [{ commission: commissionOf({ maxRate: "1000000000000000001" }) }, "staking", 10],
      [{ commission: commissionOf({ rate: "-1" }) }, "staking", 9],
      [{ commission: commissionOf({ maxChangeRate: "-1" }) }, "staking", 13],
      [{ commission: commissionOf({ maxChangeRate: "200000000000000001" }) }, "staking", 14],
      [{ validatorAddress: OPERATOR }, "staking", 4],
      [{ validatorAddress: ACCOUNT }, "sdk", 7],
      [{ pubkey: packAny(cryptoEd25519.PubKeySchema, createMessage(cryptoEd25519.PubKeySchema)) }, "staking", 6],
    ];
    for (const [over, codespace, code] of cases) {
      const scratch = { ...ctx, state: new Overlay(ctx.state) };
      const message = createOf(9, over);
      const result = runMessage(scratch, "/cosmos.staking.v1beta1.MsgCreateValidator", message);
      assert.ok(!result.ok);
      assert.deepEqual([result.fault.codespace, result.fault.code], [codespace, code], result.fault.text);
    }
    const undelegate = createMessage(staking.MsgUndelegateSchema, { delegatorAddress: ACCOUNT });
    const result = runMessage(ctx, "/cosmos.staking.v1beta1.MsgUndelegate", undelegate);
    assert.deepEqual(result, {
      ok: false,
      fault: { codespace: "sdk", code: 37, text: "this chain cannot undelegate yet: feature not supported" },
    });
  });

  test("a commission changes once a day and by its most change; the description keeps what it is told to", () => {
    const { ctx, context } = begin();
    const edit = (block: BlockInfo, over: { commissionRate: string; minSelfDelegation?: string }) =>
      runMessage(
        context(block),
        "/cosmos.staking.v1beta1.MsgEditValidator",
        createMessage(staking.MsgEditValidatorSchema, {
          validatorAddress: OPERATOR,
          description: describe("[do-not-modify]", "d"),
          ...over,
        }),
      );
    const code = (result: ReturnType<typeof edit>): number => (result.ok ? 0 : result.fault.code);
    const tomorrow = blockAt(9n, blockAt(9n).timeNanos + 86_400_000_000_000n);
    assert.equal(code(edit(blockAt(9n), { commissionRate: "105000000000000000" })), 12);
    assert.equal(code(edit(tomorrow, { commissionRate: "111000000000000000" })), 15);
    assert.equal(code(edit(tomorrow, { commissionRate: "105000000000000000", minSelfDelegation: "1" })), 17);
    assert.equal(code(edit(tomorrow, { commissionRate: "105000000000000000", minSelfDelegation: "2" })), 0);
    // Down it may go by any step, as the SDK has it.
    const later = blockAt(9n, tomorrow.timeNanos + 86_400_000_000_000n);
    assert.equal(code(edit(later, { commissionRate: "10000000000000000" })), 0);
    const [validator] = getBondedValidators(ctx);
    assert.deepEqual(
      [validator?.description?.moniker, validator?.description?.details, validator?.minSelfDelegation],
      ["validator1", "d", "2"],
    );
    assert.equal(validator?.commission?.commissionRates?.rate, "10000000000000000");
  });
});

interface Recorded {
  readonly name: string;
  readonly body: unknown;
}

function recordedAnswers(): ReadonlyMap<string, Recorded> {
  const list = JSON.parse(readFileSync(new URL("rest/staking.json", ROOT), "utf8")) as Recorded[];
  return new Map(list.map((entry) => [entry.name, entry]));
}
