import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { utf8ToBytes } from "@turnpike/base";
import { moduleAddress } from "@turnpike/crypto";
import { createMessage, shared, supplier } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { CountedReads } from "../../../test/counted-reads.ts";
import { AUTHORITY, blockAt, machine, stakeOf, TestChain } from "../../../test/modules/supplier/suppliers.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { StateMachine } from "../../app/state-machine.ts";
import { addressText } from "../../state/addresses.ts";
import type { ChainEvent } from "../../state/context.ts";
import { Overlay, type StateReads } from "../../state/overlay.ts";
import { balances, getBalance, getSupply } from "../bank/balances.ts";
import { getActiveServiceConfigs, getSupplier, setDehydratedSupplier, unstakingSuppliers } from "./state.ts";
import { supplierModule } from "./supplier-module.ts";

const address = (n: number): string => addressText(new Uint8Array(20).fill(n));
const [ANNA, BERT, CARL] = [address(1), address(2), address(3)];
const upokt = (amount: string): supplier.MsgStakeSupplier["stake"] & object => ({
  ...(stakeOf(ANNA).stake ?? assert.fail()),
  amount,
});
const names = (events: readonly ChainEvent[]): string[] => events.map(({ type }) => type);

function funded(...who: readonly string[]): TestChain {
  const chain = new TestChain();
  for (const one of who) fund(chain.at(1n), one, 100_000_000n);
  return chain;
}

const stake = (chain: TestChain, height: bigint, message: supplier.MsgStakeSupplier) =>
  chain.run(height, supplier.MsgStakeSupplierSchema, message);

const unstake = (chain: TestChain, height: bigint, signer: string, operatorAddress = signer) =>
  chain.run(
    height,
    supplier.MsgUnstakeSupplierSchema,
    createMessage(supplier.MsgUnstakeSupplierSchema, { signer, operatorAddress }),
  );

const history = (chain: TestChain, height: bigint, operator = ANNA): string[] =>
  (getSupplier(chain.at(height), operator)?.serviceConfigHistory ?? []).map(
    ({ service, activationHeight, deactivationHeight }) =>
      `${service?.serviceId ?? ""} ${activationHeight}-${deactivationHeight}`,
  );

const text = (result: { ok: boolean; fault?: { text: string } }): string =>
  result.ok ? "" : (result.fault?.text ?? "");

suite("suppliers: who may change what", () => {
  test("a new one pays stake and fee, and holds nothing before the next session", () => {
    const chain = funded(ANNA);
    const events = stake(chain, 5n, stakeOf(ANNA)).events;
    assert.ok(names(events).includes("pocket.supplier.EventSupplierStaked"));
    assert.deepEqual(history(chain, 5n), ["anvil 11-0"]);
    assert.deepEqual(getSupplier(chain.at(10n), ANNA)?.services, []);
    assert.equal(getSupplier(chain.at(11n), ANNA)?.services.length, 1);
    assert.equal(getBalance(chain.at(5n), bytesOfAddress(ANNA), "upokt"), 100_000_000n - 2_000_001n);
    assert.deepEqual(names(chain.block(10n)), []);
    assert.deepEqual(names(chain.block(11n)), ["pocket.supplier.EventSupplierServiceConfigActivated"]);
    chain.assertStakes(1n);
  });

  test("without services, without a stake, and for services that are not there", () => {
    const chain = funded(ANNA);
    const { stake: _, ...unstaked } = stakeOf(ANNA);
    assert.match(text(stake(chain, 5n, unstaked)), /InvalidArgument desc = when staking a new supplier, the stake/);
    assert.match(
      text(stake(chain, 5n, stakeOf(ANNA, {}, ["anvil", "nosuch"]))),
      /code = InvalidArgument desc = service "nosuch" does not exist: service not found/,
    );
    const owned = stakeOf(ANNA, { ownerAddress: moduleAddress("supplier") });
    assert.match(text(stake(chain, 5n, owned)), /is a module account and cannot be used: invalid address/);
    assert.ok(stake(chain, 5n, stakeOf(ANNA, {}, [])).ok);
    assert.deepEqual(history(chain, 5n), []);
  });

  test("up from the signer, down to the owner, never under the least", () => {
    const chain = funded(ANNA, BERT);
    assert.ok(stake(chain, 5n, stakeOf(ANNA, { ownerAddress: BERT })).ok);
    const shared = { signer: BERT, ownerAddress: BERT, services: [] };
    assert.ok(stake(chain, 6n, stakeOf(ANNA, { ...shared, stake: upokt("5000000") })).ok);
    assert.equal(getBalance(chain.at(6n), bytesOfAddress(BERT), "upokt"), 100_000_000n - 3_000_001n);
    assert.ok(stake(chain, 7n, stakeOf(ANNA, { ownerAddress: BERT, stake: upokt("1000000") }, [])).ok);
    assert.equal(getBalance(chain.at(7n), bytesOfAddress(BERT), "upokt"), 100_000_000n + 999_999n);
    assert.match(
      text(stake(chain, 8n, stakeOf(ANNA, { ...shared, stake: upokt("999999") }))),
      /InvalidArgument desc = supplier with owner "\w+" must stake at least 1000000upokt: invalid supplier stake/,
    );
    const { stake: _, ...same } = stakeOf(ANNA, shared);
    assert.ok(stake(chain, 9n, same).ok);
    assert.equal(getSupplier(chain.at(9n), ANNA)?.stake?.amount, "1000000");
    chain.assertStakes(4n);
  });

  test("the owner is changed by the owner alone, the services by the operator alone", () => {
    const chain = funded(ANNA, BERT, CARL);
    assert.ok(stake(chain, 5n, stakeOf(ANNA, { ownerAddress: BERT })).ok);
    assert.match(
      text(stake(chain, 6n, stakeOf(ANNA, { ownerAddress: CARL }))),
      /is not allowed to update the owner address "\w+": unauthorized supplier update$/,
    );
    const byOwner = stakeOf(ANNA, { signer: BERT, ownerAddress: BERT });
    const refused = stake(chain, 6n, byOwner);
    assert.ok(!refused.ok && refused.fault.codespace === "supplier" && refused.fault.code === 1104);
    assert.match(
      text(stake(chain, 6n, stakeOf(ANNA, { signer: CARL, ownerAddress: CARL, services: [] }))),
      /does not match owner address/,
    );
    assert.ok(stake(chain, 6n, stakeOf(ANNA, { signer: BERT, ownerAddress: CARL, services: [] })).ok);
    assert.equal(getSupplier(chain.at(6n), ANNA)?.ownerAddress, CARL);
    assert.match(
      text(unstake(chain, 7n, BERT, ANNA)),
      /PermissionDenied desc = signer "\w+" is not allowed to unstake/,
    );
    assert.match(
      text(unstake(chain, 7n, BERT, BERT)),
      /NotFound desc = supplier with operator address "\w+": supplier not/,
    );
  });

  test("services that were to begin are replaced, held ones end with the session, others stay ended", () => {
    const chain = funded(ANNA);
    assert.ok(stake(chain, 5n, stakeOf(ANNA)).ok);
    assert.ok(stake(chain, 8n, stakeOf(ANNA, {}, ["anvil", "rest"])).ok);
    assert.deepEqual(history(chain, 8n), ["anvil 11-0", "rest 11-0"]);
    assert.ok(stake(chain, 15n, stakeOf(ANNA, {}, ["rest", "heavy"])).ok);
    assert.deepEqual(history(chain, 15n), ["anvil 11-21", "heavy 21-0", "rest 11-21", "rest 21-0"]);
    assert.ok(stake(chain, 25n, stakeOf(ANNA, {}, [])).ok);
    assert.deepEqual(history(chain, 25n).length, 4);
    const active = (height: bigint): string[] =>
      ["anvil", "rest", "heavy"].filter((id) => getActiveServiceConfigs(chain.at(height), id, height).length > 0);
    assert.deepEqual(
      [active(20n), active(21n)],
      [
        ["anvil", "rest"],
        ["rest", "heavy"],
      ],
    );
  });

  test("unbonding ends at the session end that its period gives, unless the owner stakes again", () => {
    const chain = funded(ANNA, BERT);
    assert.ok(stake(chain, 5n, stakeOf(ANNA, { ownerAddress: BERT })).ok);
    assert.ok(unstake(chain, 12n, ANNA).ok);
    assert.deepEqual(history(chain, 12n), ["anvil 11-21"]);
    assert.match(
      text(stake(chain, 13n, stakeOf(ANNA, { ownerAddress: BERT }))),
      /PermissionDenied desc = signer "\w+" is not allowed to cancel the unbonding of supplier with owner "\w+"; only the owner/,
    );
    const again = stake(chain, 13n, stakeOf(ANNA, { signer: BERT, ownerAddress: BERT, services: [] }));
    assert.deepEqual(
      names(again.events).filter((name) => name.startsWith("pocket")),
      ["pocket.supplier.EventSupplierUnbondingCanceled", "pocket.supplier.EventSupplierStaked"],
    );
    assert.deepEqual([...unstakingSuppliers.entries(chain.at(13n))], []);
    assert.ok(unstake(chain, 22n, BERT, ANNA).ok);
    for (let height = 23n; height < 50n; height++) assert.ok(!names(chain.block(height)).includes("transfer"));
    assert.ok(names(chain.block(50n)).includes("pocket.supplier.EventSupplierUnbondingEnd"));
    assert.equal(getSupplier(chain.at(50n), ANNA), undefined);
    assert.deepEqual(history(chain, 50n), []);
    assert.equal(getBalance(chain.at(50n), bytesOfAddress(BERT), "upokt"), 100_000_000n + 2_000_000n - 1n);
    chain.assertStakes(2n);
  });

  test("a slashed supplier that is written as unbonding goes, with the reason that its stake gives", () => {
    const chain = funded(ANNA);
    assert.ok(stake(chain, 5n, stakeOf(ANNA)).ok);
    const found = getSupplier(chain.at(6n), ANNA) ?? assert.fail();
    setDehydratedSupplier(chain.at(6n), { ...found, stake: upokt("999999"), unstakeSessionEndHeight: 10n });
    assert.deepEqual(history(chain, 6n), ["anvil 11-0"]);
    for (let height = 7n; height < 30n; height++) chain.block(height);
    const end = chain.block(30n).find(({ type }) => type.endsWith("UnbondingEnd"));
    assert.equal(end?.attributes[0]?.value, '"SUPPLIER_UNBONDING_REASON_BELOW_MIN_STAKE"');
    assert.deepEqual(getActiveServiceConfigs(chain.at(30n), "anvil", 30n), []);
  });

  test("parameters are the authority's; bad ones are refused with the module's code and text", () => {
    const chain = new TestChain();
    const set = (name: string, amount: string, denom = "upokt", authority = AUTHORITY) => {
      const asType = { case: "asCoin" as const, value: { ...upokt(amount), denom } };
      const message = createMessage(supplier.MsgUpdateParamSchema, { authority, name, asType });
      return text(chain.run(5n, supplier.MsgUpdateParamSchema, message));
    };
    assert.equal(
      set("min_stake", "0"),
      "min_stake amount must be greater than 0: got 0upokt: the provided param is invalid",
    );
    assert.equal(
      set("staking_fee", "-1"),
      "staking_fee amount must be positive: got -1upokt: the provided param is invalid",
    );
    assert.equal(set("x", "1"), 'unsupported param "x": the provided param is invalid');
    assert.match(set("min_stake", "5", "mact"), /^invalid min_stake denom "mact"; expected "upokt"/);
    assert.match(set("min_stake", "5", "upokt", ANNA), /InvalidArgument desc = invalid authority; expected/);
    assert.equal(set("staking_fee", "0"), "");
    assert.equal(set("min_stake", "7"), "");
    const none = createMessage(supplier.MsgUpdateParamsSchema, { authority: AUTHORITY });
    assert.match(text(chain.run(5n, supplier.MsgUpdateParamsSchema, none)), /^missing param: the provided param/);
    fund(chain.at(5n), ANNA, 7n);
    assert.ok(stake(chain, 5n, stakeOf(ANNA, { stake: upokt("7") })).ok);
    chain.assertStakes(0n);
  });
});

suite("suppliers over many blocks", () => {
  type Step = {
    readonly who: number;
    readonly kind: "stake" | "unstake";
    readonly units: number;
    readonly ids: string[];
  };
  const steps = fc.array(
    fc.record({
      who: fc.integer({ min: 1, max: 4 }),
      kind: fc.constantFrom("stake" as const, "stake" as const, "unstake" as const),
      units: fc.integer({ min: 0, max: 6 }),
      ids: fc.uniqueArray(fc.constantFrom("anvil", "rest", "heavy"), { maxLength: 3 }),
    }),
    { maxLength: 40 },
  );

  function play(list: readonly Step[]): { chain: TestChain; fees: bigint; height: bigint } {
    const chain = funded(address(1), address(2), address(3), address(4));
    let fees = 0n;
    let height = 1n;
    for (const { who, kind, units, ids } of list) {
      const done =
        kind === "stake"
          ? stake(chain, height, stakeOf(address(who), { stake: upokt(`${units}000000`) }, ids))
          : unstake(chain, height, address(who));
      if (kind === "stake" && done.ok) fees++;
      chain.block(height);
      chain.assertStakes(fees);
      height += 1n;
    }
    return { chain, fees, height };
  }

  test("stakes and balances sum up whatever happens, and a genesis makes the same state again", () => {
    fc.assert(
      fc.property(steps, (list) => {
        const { chain, height } = play(list);
        const ctx = chain.at(height);
        const sum = [...balances.entries(ctx)].reduce((total, [, amount]) => total + amount, 0n);
        assert.equal(sum, getSupply(ctx, "upokt"));
        const exported = machine.exportGenesis(chain.state, blockAt(height));
        const again = new TestChain(JSON.parse(JSON.stringify(exported)) as Record<string, unknown>);
        assert.deepEqual(machine.exportGenesis(again.state, blockAt(height)), exported);
        const part = (state: StateReads): string[] =>
          [...state.range({ prefix: utf8ToBytes("supplier/") })].map((entry) => Buffer.concat(entry).toString("hex"));
        assert.deepEqual(part(again.state), part(chain.state));
      }),
      { numRuns: 25 },
    );
  });

  test("what no longer counts leaves no trace once all is over", () => {
    fc.assert(
      fc.property(steps, (list) => {
        const { chain, height } = play(list);
        for (let who = 1; who <= 4; who++) unstake(chain, height, address(who));
        for (let at = height; at < height + 60n; at++) chain.block(at);
        const left = [...chain.state.range({ prefix: Uint8Array.of(...utf8ToBytes("supplier/")) })];
        // The parameters alone.
        assert.equal(left.length, 1);
      }),
      { numRuns: 8 },
    );
  });
});

suite("thousands of suppliers", () => {
  function readsOf(count: number): number[] {
    const supplierList = Array.from({ length: count }, (_, i) => {
      const bytes = new Uint8Array(20);
      new DataView(bytes.buffer).setUint32(0, i);
      const operator = addressText(bytes);
      const { services } = stakeOf(operator);
      const [service] = services;
      const ended = { operatorAddress: operator, service: service ?? assert.fail(), deactivationHeight: 21n };
      return createMessage(shared.SupplierSchema, {
        ownerAddress: operator,
        operatorAddress: operator,
        stake: upokt("2000000"),
        serviceConfigHistory: [
          { ...ended, activationHeight: 1n },
          { ...ended, activationHeight: 21n, deactivationHeight: 0n },
        ],
      });
    });
    const chain = new TestChain();
    const module = supplierModule({ authority: AUTHORITY });
    const state = createMessage(supplier.GenesisStateSchema, {
      params: { minStake: upokt("1"), stakingFee: upokt("0") },
      supplierList,
    });
    fund(chain.at(0n), moduleAddress("supplier"), BigInt(count) * 1_000_000_000n);
    module.genesis?.message?.init(chain.at(0n), state);
    const own = new StateMachine({ gasPrices: [] }, [module]);
    return [22n, 25n, 30n, 31n, 35n].map((height) => {
      const counted = new CountedReads(new Overlay(chain.state));
      own.runBlock(counted, blockAt(height), []);
      return counted.reads;
    });
  }

  test("a block in which nothing is due reads as little with 500 as with 5", () => {
    const few = readsOf(5);
    assert.deepEqual(readsOf(500), few);
    assert.ok(
      few.every((reads) => reads < 12),
      few.join(),
    );
  });
});
