import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  type Address,
  decimalToUnits,
  type Labels,
  type NetworkId,
  noMetrics,
  type ServiceId,
  silentLog,
} from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import type { Sale } from "../settler.ts";
import type { PayerKind, PaymentRecord } from "../types.ts";
import { GasCosts } from "./gas-costs.ts";
import { settlementUnprofitableTotal } from "./metrics.ts";
import type { EngineNetwork } from "./options.ts";
import { PRICE_DECIMALS, type ProfitRule } from "./profit.ts";
import { ProfitGuard } from "./profit-guard.ts";
import type { QueueItem } from "./queue.ts";

const NETWORK = "eip155:8453" as NetworkId;
const ASSET: Address = `0x${"Ab".repeat(20)}`;
const GWEI = 1_000_000_000n;
const HOLD_MS = 5_000;
const RESERVE_MS = 10_000;
const GAS = { perTransfer: 120_000n, perWallet: 400_000n, perDeployment: 2_000_000n };

const usd = (text: string): bigint => decimalToUnits(text, PRICE_DECIMALS);

/**
 * A guard at a coin price of $2,000, so that 73,600 gas (a payment alone) are half a cent at 0.0340 gwei, and 44,200 (its
 * share of fifty) at 0.0566 gwei.
 */
function rig(change: Partial<ProfitRule> = {}, net: Partial<EngineNetwork> = {}) {
  const clock = virtualClock(1_000_000_000);
  const counted: (Labels | undefined)[] = [];
  const state = {
    maxBatch: 50,
    baseFee: GWEI / 100n,
    rule: {
      whenUnprofitable: "refuse",
      maxCostPercent: 100,
      coinPriceUsd: usd("2000"),
      assets: new Map([[ASSET.toLowerCase(), { decimals: 6, priceUsd: usd("1") }]]),
      ...change,
    } satisfies ProfitRule as ProfitRule,
  };
  const costs = new GasCosts(GAS, () => clock.monotonicMs());
  const head = () => ({
    head: { number: 1n, hash: "0x" as const, timeSeconds: 1_000_000, baseFee: state.baseFee },
    atMs: 0,
  });
  const fees = { maxFeePerGasWei: 5n * GWEI, priorityFeeWei: 0n, bumpPercent: 20 };
  const guard = new ProfitGuard(
    {
      net: {
        network: NETWORK,
        holdMs: HOLD_MS,
        holdReserveMs: RESERVE_MS,
        profit: () => state.rule,
        ...net,
      } as EngineNetwork,
      fees,
      maxBatch: () => state.maxBatch,
    },
    {
      costs,
      head,
      clock,
      log: silentLog,
      metrics: {
        ...noMetrics,
        count: (spec, labels, by = 1) => {
          if (spec === settlementUnprofitableTotal) for (let n = 0; n < by; n++) counted.push(labels);
        },
      },
    },
  );
  const actions = (): unknown[] => counted.map((labels) => labels?.action);
  return { guard, state, clock, costs, actions };
}

const sale = (change: Partial<Sale> = {}): Sale => ({
  network: NETWORK,
  asset: ASSET,
  payTo: `0x${"02".repeat(20)}`,
  from: `0x${"01".repeat(20)}`,
  kind: "eoa",
  value: 5_000n,
  spareMs: 60_000,
  ...change,
});

function item(queuedAtMs = 0, change: { value?: bigint; kind?: PayerKind; validBefore?: bigint } = {}): QueueItem {
  const { value = 5_000n, kind = "eoa", validBefore = 1_000_060n } = change;
  const payment = {
    value,
    kind,
    validBefore,
    key: { asset: ASSET.toLowerCase(), from: "0x01" },
    signature: new Uint8Array(65),
  } as unknown as PaymentRecord;
  return {
    payment,
    answer: { contentType: "", body: new Uint8Array() },
    queuedAtMs,
    alone: kind !== "eoa",
    commit() {},
    reject() {},
  };
}

suite("refusing sales that cost more than they bring", () => {
  test("attack: a third party's sale is measured by what it pays for its settlement, whatever its amount", () => {
    const fees = new Map([["seller:shop", usd("0.004")]]);
    const to = rig({
      feeUsd: ({ payTo, serviceId = "" }) => (payTo === sale().payTo ? undefined : (fees.get(serviceId) ?? 0n)),
    });
    to.state.baseFee = 28n * (GWEI / 1_000n);
    const third = { payTo: `0x${"03".repeat(20)}`, value: 10n ** 12n } as const;
    assert.equal(to.guard.refusal(sale()), undefined, "the operator's own");
    assert.equal(to.guard.refusal(sale(third))?.code, "SETTLEMENT_UNPROFITABLE", "a million dollars of a third party");
    const shop = "seller:shop" as ServiceId;
    assert.equal(to.guard.refusal(sale({ ...third, serviceId: shop }))?.code, "SETTLEMENT_UNPROFITABLE");
    fees.set(shop, usd("0.0042"));
    assert.equal(to.guard.refusal(sale({ ...third, serviceId: shop, value: 1n })), undefined);
    to.state.rule = { ...to.state.rule, assets: new Map() };
    assert.equal(to.guard.refusal(sale(third))?.code, "SETTLEMENT_UNPROFITABLE", "its token has no price");
  });

  test("by the current fee: served while it pays for a transaction, refused with a wait when it does not", () => {
    const to = rig();
    to.state.baseFee = 33n * (GWEI / 1_000n);
    assert.equal(to.guard.refusal(sale()), undefined);
    to.state.baseFee = 35n * (GWEI / 1_000n);
    assert.deepEqual(to.guard.refusal(sale()), { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: 30 });
    assert.equal(to.guard.refusal(sale({ value: 6_000n })), undefined, "a dearer sale pays for it");
    assert.deepEqual(to.actions(), ["refused"]);
  });

  test("settle, no rule, no coin price, and a token without a price let everything pass", () => {
    for (const change of [
      { whenUnprofitable: "settle" as const },
      { coinPriceUsd: undefined },
      { assets: new Map<string, never>() },
    ]) {
      const to = rig(change);
      to.state.baseFee = 4n * GWEI;
      assert.equal(to.guard.refusal(sale()), undefined);
    }
    const bare = rig({}, { profit: () => undefined });
    bare.state.baseFee = 4n * GWEI;
    assert.equal(bare.guard.refusal(sale()), undefined);
    assert.equal(bare.guard.holdMs([item()]), 0);
  });

  test("the rule and its prices are read each time: a new coin price counts with the next sale", () => {
    const to = rig();
    assert.equal(to.guard.refusal(sale()), undefined);
    to.state.rule = { ...to.state.rule, coinPriceUsd: usd("9000") };
    assert.equal(to.guard.refusal(sale())?.code, "SETTLEMENT_UNPROFITABLE");
    to.state.rule = { ...to.state.rule, maxCostPercent: 200 };
    assert.equal(to.guard.refusal(sale()), undefined);
  });

  test("a token of other places or another price is measured by what it is worth", () => {
    const eighteen = new Map([[ASSET.toLowerCase(), { decimals: 18, priceUsd: usd("0.5") }]]);
    const to = rig({ assets: eighteen });
    assert.equal(to.guard.refusal(sale({ value: 10n ** 16n })), undefined);
    assert.equal(to.guard.refusal(sale({ value: 10n ** 14n }))?.code, "SETTLEMENT_UNPROFITABLE");
  });

  test("attack: a fee that is said to be beyond all measure counts as the cap, which is what would be paid", () => {
    const to = rig();
    to.state.baseFee = 10n ** 40n;
    // 5 gwei, 73,600 gas, $2,000: 73.6 cents
    assert.equal(to.guard.refusal(sale({ value: 736_000n })), undefined);
    assert.equal(to.guard.refusal(sale({ value: 735_999n }))?.code, "SETTLEMENT_UNPROFITABLE");
  });

  test("wait serves what pays its share of a full transaction, and refuses what does not", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = 54n * (GWEI / 1_000n);
    assert.equal(to.guard.refusal(sale()), undefined);
    // Fewer share a transaction without the settlement contract.
    to.state.maxBatch = 8;
    assert.equal(to.guard.refusal(sale())?.code, "SETTLEMENT_UNPROFITABLE");
    to.state.maxBatch = 50;
    to.state.baseFee = 58n * (GWEI / 1_000n);
    assert.equal(to.guard.refusal(sale())?.code, "SETTLEMENT_UNPROFITABLE");
  });

  test("attack: a payment that cannot be held, for its short window or its code, must pay for itself under wait", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = 50n * (GWEI / 1_000n);
    assert.equal(to.guard.refusal(sale({ spareMs: HOLD_MS + RESERVE_MS })), undefined);
    const short = sale({ spareMs: HOLD_MS + RESERVE_MS - 1 });
    assert.equal(to.guard.refusal(short)?.code, "SETTLEMENT_UNPROFITABLE");
    assert.equal(to.guard.refusal(sale({ kind: "erc1271" }))?.code, "SETTLEMENT_UNPROFITABLE");
  });

  test("attack: a signature of many bytes is refused when the fee for its data is more than the sale; one of few is not", () => {
    const { guard, costs } = rig();
    costs.learn({ payments: [item().payment], alone: false }, { gas: 70_000n, dataFeeWei: 200_000_000_000n });
    const wallet = { kind: "erc1271", gas: 90_000n, value: 4_000n } as const;
    assert.equal(guard.refusal(sale({ ...wallet, signatureBytes: 600 })), undefined);
    assert.equal(guard.refusal(sale({ ...wallet, signatureBytes: 8_192 }))?.code, "SETTLEMENT_UNPROFITABLE");
  });

  test("networks are judged apart", () => {
    const [cheap, dear] = [rig(), rig()];
    dear.state.baseFee = GWEI;
    assert.equal(cheap.guard.refusal(sale()), undefined);
    assert.equal(dear.guard.refusal(sale())?.code, "SETTLEMENT_UNPROFITABLE");
    for (let round = 0; round < 20; round++) {
      dear.costs.learn({ payments: [item().payment], alone: false }, { gas: 150_000n, dataFeeWei: 10n ** 15n });
    }
    assert.equal(cheap.guard.refusal(sale()), undefined);
  });
});

suite("holding served payments for others", () => {
  const dear = 50n * (GWEI / 1_000n);

  test("one that does not pay for a transaction waits as long as the rule says, and no longer", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = dear;
    const first = item();
    assert.equal(to.guard.holdMs([first]), HOLD_MS);
    to.clock.advance(HOLD_MS - 1);
    assert.equal(to.guard.holdMs([first]), 1);
    assert.equal(to.guard.holdMs([first, item(HOLD_MS - 1)]), 1, "the oldest decides");
    to.clock.advance(1);
    assert.equal(to.guard.holdMs([first]), 0);
    assert.deepEqual(to.actions(), ["held", "held"]);
    to.guard.settling([first]);
    assert.deepEqual(to.actions(), ["held", "held", "settled"]);
  });

  test("they go when there are enough of them, when the fee falls, or when one pays for a transaction", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = dear;
    const items = Array.from({ length: 8 }, () => item());
    assert.ok(to.guard.holdMs(items.slice(0, 2)) > 0);
    assert.equal(to.guard.holdMs(items), 0);
    assert.equal(to.guard.holdMs([item(), item(0, { value: 1_000_000n })]), 0, "together they pay");
    to.state.baseFee = GWEI / 100n;
    assert.equal(to.guard.holdMs([item()]), 0);
    to.state.baseFee = 4n * GWEI;
    assert.ok(to.guard.holdMs([item(), item()]) > 0);
    assert.equal(to.guard.holdMs([...items, item(0, { value: 600_000n })]), 0, "one that pays waits for no other");
  });

  test("attack: the end of a window is no time to wait", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = dear;
    // The chain's time is 1,000,000: this one has 12 seconds, 10 of which are for settling.
    const late = item(0, { validBefore: 1_000_012n });
    assert.equal(to.guard.holdMs([item(), late]), 2_000);
    to.clock.advance(2_000);
    assert.equal(to.guard.holdMs([item(), late]), 0);
    assert.equal(to.guard.holdMs([item(0, { validBefore: 1_000_005n })]), 0);
  });

  test("wallets, and every other rule, are never held", () => {
    const to = rig({ whenUnprofitable: "wait" });
    to.state.baseFee = dear;
    assert.equal(to.guard.holdMs([item(0, { kind: "erc1271" })]), 0);
    assert.equal(to.guard.longestHoldMs(), HOLD_MS);
    for (const whenUnprofitable of ["settle", "refuse"] as const) {
      to.state.rule = { ...to.state.rule, whenUnprofitable };
      assert.equal(to.guard.holdMs([item()]), 0);
      assert.equal(to.guard.longestHoldMs(), 0);
    }
  });

  test("what is settled at a loss is counted under every rule that knows the price", () => {
    const to = rig({ whenUnprofitable: "settle" });
    to.state.baseFee = GWEI;
    to.guard.settling([item(), item()]);
    assert.deepEqual(to.actions(), ["settled", "settled"]);
  });
});
