import type { Address, ServiceId } from "@turnpike/base";

/** What is done with a payment whose settlement costs more than the operator's share of its sale. */
export type WhenUnprofitable = "settle" | "wait" | "refuse";

/** Decimal places of the prices in {@link ProfitRule}: they count 10^-12 US dollars. */
export const PRICE_DECIMALS = 12;

/** What a token is worth. */
export interface AssetPrice {
  readonly decimals: number;
  /** Of one whole token, in 10^-12 US dollars. */
  readonly priceUsd: bigint;
}

/** The operator's rule for one network. Its prices are static: they are those of the configuration in effect. */
export interface ProfitRule {
  readonly whenUnprofitable: WhenUnprofitable;
  /** Largest share of a sale that its settlement may cost, in percent. */
  readonly maxCostPercent: number;
  /** Of one whole coin (10^18 wei) in 10^-12 US dollars. Undefined: nothing is known of the costs. */
  readonly coinPriceUsd: bigint | undefined;
  /**
   * Fee of a third party for the settlement of its sale, in 10^-12 US dollars; undefined where the sale is the operator's own,
   * which brings its amount. Without it, all are.
   */
  readonly feeUsd?: (sale: { readonly payTo: Address; readonly serviceId?: ServiceId }) => bigint | undefined;
  /** By token address in lower case. */
  readonly assets: ReadonlyMap<string, AssetPrice>;
}

/** Places of the common unit that costs and sales are compared in: those of a price and of the finest token. */
const COIN_DECIMALS = 18;
const MAX_DECIMALS = 36;

/** An amount of a token in 10^-48 US dollars: exact, whatever its decimal places are. */
export function usdOfUnits(units: bigint, { decimals, priceUsd }: AssetPrice): bigint {
  return units * priceUsd * 10n ** BigInt(MAX_DECIMALS - decimals);
}

/** An amount of the chain's coin in 10^-48 US dollars. */
export function usdOfWei(wei: bigint, coinPriceUsd: bigint): bigint {
  return usdOfUnits(wei, { decimals: COIN_DECIMALS, priceUsd: coinPriceUsd });
}

/** An amount in 10^-12 US dollars in 10^-48. */
export function usdOfPrice(priceUsd: bigint): bigint {
  return priceUsd * 10n ** BigInt(MAX_DECIMALS);
}

/** Whether a cost is over its share of a sale; both in the same unit. Exactly the share is not over it. */
export function isOverShare(cost: bigint, sale: bigint, maxCostPercent: number): boolean {
  return cost * 100n > sale * BigInt(maxCostPercent);
}

/** 10^-48 US dollars as a number of dollars, for metrics and logs alone. */
export function approximateUsd(amount: bigint): number {
  return Number(amount / 10n ** 36n) / 1e12;
}
