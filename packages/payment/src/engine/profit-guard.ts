import { type Clock, FaultLogThrottle, type Log, type Metrics } from "@turnpike/base";
import type { Sale } from "../settler.ts";
import type { PaymentRefusal } from "../types.ts";
import type { Head, SettlementCost } from "./chain.ts";
import type { FeePolicy } from "./fees.ts";
import type { GasCosts } from "./gas-costs.ts";
import { costUsdGauge, gasPerPaymentGauge, unprofitableTotal } from "./metrics.ts";
import type { EngineNetwork } from "./options.ts";
import { approximateUsd, isOverShare, type ProfitRule, usdOfUnits, usdOfWei } from "./profit.ts";
import type { QueueItem } from "./queue.ts";

/** Fees and batches that costs are estimated with. */
export interface ProfitGuardOptions {
  readonly net: EngineNetwork;
  readonly fees: FeePolicy;
  readonly maxBatch: number;
}

/** Modules of a {@link ProfitGuard}, which owns none of them. */
export interface ProfitGuardModules {
  readonly costs: GasCosts;
  /** The newest block, and when it was read (monotonic milliseconds). */
  readonly head: () => { readonly head: Head; readonly atMs: number } | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Applies the operator's rule for sales that their settlement costs more than. */
export interface ProfitGuard {
  /** Why a sale is not begun; undefined when it is. Nothing of it is written yet. */
  refusal(sale: Sale): PaymentRefusal | undefined;
  /** How long the next transaction's payments are held for others to share it, while it is not full; 0: they go now. */
  holdMs(items: readonly QueueItem[]): number;
  /** Longest time for which the rule holds a payment now. */
  longestHoldMs(): number;
  /** A transaction of these is about to be signed, for whatever it costs: they are served already. */
  settling(items: readonly QueueItem[]): void;
  /** Sets the gauges. */
  measure(): void;
}

/** Base fees fall by an eighth a block at most: sooner there is little to hope for. */
const RETRY_AFTER_SECONDS = 30;
const COST_KINDS = ["shared", "alone", "erc1271", "erc6492"] as const;

/** Creates the guard of one network; without a rule, and without a coin price, it lets everything pass. */
export function createProfitGuard(opts: ProfitGuardOptions, modules: ProfitGuardModules): ProfitGuard {
  const { net, fees, maxBatch } = opts;
  const { costs, clock, log, metrics } = modules;
  const { network } = net;
  const maxHoldMs = net.holdMs ?? 0;
  const reserveMs = net.holdReserveMs ?? 10_000;
  const faultLog = new FaultLogThrottle(clock);
  const held = new WeakSet<QueueItem>();

  /** What a transaction of this gas costs with the next block; undefined while it cannot be said. */
  const costOf = ({ gas, dataFeeWei }: SettlementCost, rule: ProfitRule): bigint | undefined => {
    const seen = modules.head();
    if (seen === undefined || rule.coinPriceUsd === undefined) return undefined;
    const asked = seen.head.baseFee + fees.priorityFeeWei;
    const price = asked < fees.maxFeePerGasWei ? asked : fees.maxFeePerGasWei;
    return usdOfWei(gas * price + dataFeeWei, rule.coinPriceUsd);
  };

  /** What these sales bring together; undefined when the price of one's token is not known. */
  const salesOf = (sales: readonly Pick<Sale, "asset" | "value">[], rule: ProfitRule): bigint | undefined => {
    let sum = 0n;
    for (const { asset, value } of sales) {
      const price = rule.assets.get(asset.toLowerCase());
      if (price === undefined) return undefined;
      sum += usdOfUnits(value, price);
    }
    return sum;
  };

  /** Whether a transaction of this gas costs more than its share of these sales. False while that cannot be said. */
  const isLoss = (
    cost: SettlementCost,
    sales: readonly Pick<Sale, "asset" | "value">[],
    rule: ProfitRule,
    shares = 1,
  ): boolean => {
    const spent = costOf(cost, rule);
    const brought = salesOf(sales, rule);
    if (spent === undefined || brought === undefined) return false;
    return isOverShare(spent, brought * BigInt(shares), rule.maxCostPercent);
  };

  const saleOf = ({ payment: { key, value } }: QueueItem): Pick<Sale, "asset" | "value"> => ({
    asset: key.asset,
    value,
  });

  const costOfItems = (items: readonly QueueItem[]): SettlementCost => {
    const [only, ...others] = items;
    if (only === undefined) return { gas: 0n, dataFeeWei: 0n };
    return others.length > 0 ? costs.shared(items.length) : costs.alone(only.payment.kind, only.payment.key.from);
  };

  /** Time of a block that is made now. A chain that makes none while idle is behind; the later time holds no longer. */
  const chainNowMs = ({ head, atMs }: { readonly head: Head; readonly atMs: number }): number =>
    Math.max(clock.nowMs(), head.timeSeconds * 1_000 + (clock.monotonicMs() - atMs));

  const leftOf = ({ payment, queuedAtMs }: QueueItem): number => {
    const seen = modules.head();
    if (seen === undefined) return 0;
    const windowMs = Number(payment.validBefore) * 1_000 - chainNowMs(seen) - reserveMs;
    return Math.min(queuedAtMs + maxHoldMs - clock.monotonicMs(), windowMs);
  };

  /** What a sale is measured by: its share of a full transaction if it can wait for one, else one by itself. */
  const isRefused = (sale: Sale, rule: ProfitRule): boolean => {
    const canWait = rule.whenUnprofitable === "wait" && sale.kind === "eoa" && sale.spareMs >= maxHoldMs + reserveMs;
    return canWait
      ? isLoss(costs.shared(maxBatch), [sale], rule, maxBatch)
      : isLoss(costs.alone(sale.kind, sale.from.toLowerCase()), [sale], rule);
  };

  return {
    refusal(sale) {
      const rule = net.profit?.();
      if (rule === undefined || rule.whenUnprofitable === "settle") return undefined;
      if (!isRefused(sale, rule)) {
        faultLog.onRecovery();
        return undefined;
      }
      metrics.count(unprofitableTotal, { network, action: "refused" });
      if (faultLog.onFailure())
        log.warn({ value: sale.value.toString() }, "a sale is refused: settling it costs too much");
      return { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: RETRY_AFTER_SECONDS };
    },

    holdMs(items) {
      const rule = net.profit?.();
      if (rule?.whenUnprofitable !== "wait" || items.length === 0) return 0;
      if (items.some(({ alone }) => alone) || !isLoss(costOfItems(items), items.map(saleOf), rule)) return 0;
      // One that pays for a transaction by itself waits for no other.
      if (items.some((item) => !isLoss(costs.alone("eoa", ""), [saleOf(item)], rule))) return 0;
      const leftMs = Math.max(0, Math.min(...items.map(leftOf)));
      for (const item of leftMs > 0 ? items : []) {
        if (!held.has(item)) metrics.count(unprofitableTotal, { network, action: "held" });
        held.add(item);
      }
      return leftMs;
    },

    longestHoldMs: () => (net.profit?.()?.whenUnprofitable === "wait" ? maxHoldMs : 0),

    settling(items) {
      const rule = net.profit?.();
      if (rule === undefined || items.length === 0 || !isLoss(costOfItems(items), items.map(saleOf), rule)) return;
      metrics.count(unprofitableTotal, { network, action: "settled" }, items.length);
    },

    measure() {
      const rule = net.profit?.();
      for (const kind of COST_KINDS) {
        const cost = costs.each(kind);
        metrics.set(gasPerPaymentGauge, Number(cost.gas), { network, kind });
        const usd = rule === undefined ? undefined : costOf(cost, rule);
        if (usd !== undefined) metrics.set(costUsdGauge, approximateUsd(usd), { network, kind });
        else metrics.remove?.(costUsdGauge, { network, kind });
      }
    },
  };
}
