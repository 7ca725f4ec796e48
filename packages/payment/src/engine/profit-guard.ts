import { type Clock, FaultLogThrottle, type Log, type Metrics } from "@turnpike/base";
import type { Sale } from "../settler.ts";
import type { PaymentRefusal } from "../types.ts";
import type { SettlementCost } from "./chain.ts";
import type { FeePolicy } from "./fees.ts";
import type { GasCosts } from "./gas-costs.ts";
import type { SeenHead } from "./head-tracker.ts";
import { settlementCostPerPaymentUsd, settlementGasPerPayment, settlementUnprofitableTotal } from "./metrics.ts";
import type { EngineNetwork } from "./options.ts";
import { approximateUsd, isOverShare, type ProfitRule, usdOfPrice, usdOfUnits, usdOfWei } from "./profit.ts";
import type { QueueItem } from "./queue.ts";

/** Fees and batches that costs are estimated with. */
export interface ProfitGuardOptions {
  readonly net: EngineNetwork;
  readonly fees: FeePolicy;
  readonly maxBatch: () => number;
}

/** Modules of a {@link ProfitGuard}, which owns none of them. */
export interface ProfitGuardModules {
  readonly costs: GasCosts;
  /** The newest block, and when it was read (monotonic milliseconds). */
  readonly head: () => SeenHead | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Base fees fall by an eighth a block at most: sooner there is little to hope for. */
const RETRY_AFTER_SECONDS = 30;
const COST_KINDS = ["shared", "alone", "erc1271", "erc6492"] as const;

/**
 * Applies the operator's rule of one network for sales that their settlement costs more than. Without a rule, and without
 * a coin price, it lets everything pass.
 */
export class ProfitGuard {
  readonly #net: EngineNetwork;
  readonly #fees: FeePolicy;
  readonly #maxBatch: () => number;
  readonly #modules: ProfitGuardModules;
  readonly #maxHoldMs: number;
  readonly #reserveMs: number;
  readonly #faultLog: FaultLogThrottle;
  readonly #held = new WeakSet<QueueItem>();

  constructor({ net, fees, maxBatch }: ProfitGuardOptions, modules: ProfitGuardModules) {
    this.#net = net;
    this.#fees = fees;
    this.#maxBatch = maxBatch;
    this.#modules = modules;
    this.#maxHoldMs = net.holdMs;
    this.#reserveMs = net.holdReserveMs;
    this.#faultLog = new FaultLogThrottle(modules.clock);
  }

  /** Why a sale is not begun; undefined when it is. Nothing of it is written yet. */
  refusal(sale: Sale): PaymentRefusal | undefined {
    const { log } = this.#modules;
    const rule = this.#net.profit?.();
    if (rule === undefined || rule.whenUnprofitable === "settle") return undefined;
    if (!this.#isRefused(sale, rule)) {
      this.#faultLog.onRecovery();
      return undefined;
    }
    this.#count("refused");
    if (this.#faultLog.onFailure())
      log.warn({ value: sale.value.toString() }, "a sale is refused: settling it costs too much");
    return { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: RETRY_AFTER_SECONDS };
  }

  /** How long the next transaction's payments are held for others to share it, while it is not full; 0: they go now. */
  holdMs(items: readonly QueueItem[]): number {
    const { costs } = this.#modules;
    const rule = this.#net.profit?.();
    if (rule?.whenUnprofitable !== "wait" || items.length === 0) return 0;
    if (items.some(({ alone }) => alone) || !this.#isLoss(this.#costOfItems(items), items.map(saleOf), rule)) return 0;
    // One that pays for a transaction by itself waits for no other.
    if (items.some((item) => !this.#isLoss(costs.alone({ kind: "eoa", payer: "" }), [saleOf(item)], rule))) return 0;
    const leftMs = Math.max(0, Math.min(...items.map((item) => this.#leftMsOf(item))));
    for (const item of leftMs > 0 ? items : []) {
      if (!this.#held.has(item)) this.#count("held");
      this.#held.add(item);
    }
    return leftMs;
  }

  /** Longest time for which the rule holds a payment now. */
  longestHoldMs(): number {
    return this.#net.profit?.()?.whenUnprofitable === "wait" ? this.#maxHoldMs : 0;
  }

  /** A transaction of these is about to be signed, for whatever it costs: they are served already. */
  settling(items: readonly QueueItem[]): void {
    const rule = this.#net.profit?.();
    if (rule === undefined || items.length === 0) return;
    if (this.#isLoss(this.#costOfItems(items), items.map(saleOf), rule)) this.#count("settled", items.length);
  }

  /** Sets the gauges of gas and cost by kind of settlement. */
  measure(): void {
    const { costs, metrics } = this.#modules;
    const { network } = this.#net;
    const rule = this.#net.profit?.();
    for (const kind of COST_KINDS) {
      const cost = costs.each(kind);
      metrics.set(settlementGasPerPayment, Number(cost.gas), { network, kind });
      const usd = rule === undefined ? undefined : this.#usdOf(cost, rule);
      if (usd !== undefined) metrics.set(settlementCostPerPaymentUsd, approximateUsd(usd), { network, kind });
      else metrics.remove?.(settlementCostPerPaymentUsd, { network, kind });
    }
  }

  #count(action: "refused" | "held" | "settled", payments = 1): void {
    this.#modules.metrics.count(settlementUnprofitableTotal, { network: this.#net.network, action }, payments);
  }

  /** What a sale is measured by: its share of a full transaction if it can wait for one, else one by itself. */
  #isRefused(sale: Sale, rule: ProfitRule): boolean {
    const { costs } = this.#modules;
    const canWait =
      rule.whenUnprofitable === "wait" && sale.kind === "eoa" && sale.spareMs >= this.#maxHoldMs + this.#reserveMs;
    const maxBatch = this.#maxBatch();
    return canWait
      ? this.#isLoss(costs.shared(maxBatch), [sale], rule, maxBatch)
      : this.#isLoss(costs.alone({ ...sale, payer: sale.from.toLowerCase() }), [sale], rule);
  }

  /** Whether a transaction of this gas costs more than its share of these sales. False while that is not known. */
  #isLoss(cost: SettlementCost, sales: readonly Sold[], rule: ProfitRule, shares = 1): boolean {
    const spent = this.#usdOf(cost, rule);
    const brought = revenueOf(sales, rule);
    if (spent === undefined || brought === undefined) return false;
    return isOverShare(spent, brought * BigInt(shares), rule.maxCostPercent);
  }

  /** What a transaction of this gas costs with the next block; undefined while it is not known. */
  #usdOf({ gas, dataFeeWei }: SettlementCost, rule: ProfitRule): bigint | undefined {
    const seen = this.#modules.head();
    if (seen === undefined || rule.coinPriceUsd === undefined) return undefined;
    const { maxFeePerGasWei, priorityFeeWei } = this.#fees;
    const asked = seen.head.baseFee + priorityFeeWei;
    const price = asked < maxFeePerGasWei ? asked : maxFeePerGasWei;
    return usdOfWei(gas * price + dataFeeWei, rule.coinPriceUsd);
  }

  #costOfItems(items: readonly QueueItem[]): SettlementCost {
    const { costs } = this.#modules;
    const [only, ...others] = items;
    if (only === undefined) return { gas: 0n, dataFeeWei: 0n };
    if (others.length > 0) return costs.shared(items.length);
    const { kind, key, signature } = only.payment;
    return costs.alone({ kind, payer: key.from, signatureBytes: signature.length });
  }

  /** Time for which a payment may still be held. */
  #leftMsOf({ payment, queuedAtMs }: QueueItem): number {
    const { clock } = this.#modules;
    const seen = this.#modules.head();
    if (seen === undefined) return 0;
    // Time of a block that is made now. A chain that makes none while idle is behind; the later time holds no longer.
    const chainNowMs = Math.max(clock.nowMs(), seen.head.timeSeconds * 1_000 + (clock.monotonicMs() - seen.atMs));
    const windowMs = Number(payment.validBefore) * 1_000 - chainNowMs - this.#reserveMs;
    return Math.min(queuedAtMs + this.#maxHoldMs - clock.monotonicMs(), windowMs);
  }
}

/** What a sale brings. */
type Sold = Pick<Sale, "asset" | "value" | "payTo" | "serviceId">;

function saleOf({ payment: { key, value, payTo, serviceId } }: QueueItem): Sold {
  return { asset: key.asset, value, payTo, serviceId };
}

/** What these sales bring together; undefined when the price of one's token is not known. */
function revenueOf(sales: readonly Sold[], rule: ProfitRule): bigint | undefined {
  let sum = 0n;
  for (const sale of sales) {
    const feeUsd = rule.feeUsd?.(sale);
    const price = rule.assets.get(sale.asset.toLowerCase());
    if (feeUsd === undefined && price === undefined) return undefined;
    if (feeUsd !== undefined) sum += usdOfPrice(feeUsd);
    else if (price !== undefined) sum += usdOfUnits(sale.value, price);
  }
  return sum;
}
