import { decimalToUnits, isRecord, USD_AMOUNT, unitsToDecimal } from "@turnpike/base";

/** Places of a micro-unit of the dollar, in which budgets are added up. */
const MICRO = 6;
/** Maximum number of places of an amount in US dollars. */
const PLACES = 18;

/**
 * A price of a gateway's list (`{ amount, currency }`) in US dollars, rounded up to a micro-unit; undefined when it is no
 * amount of US dollars. The one reader of such prices: a price that is shown is the price that caps.
 */
export function listedPriceUsd(price: unknown): string | undefined {
  if (!isRecord(price) || price.currency !== "USD") return undefined;
  const { amount } = price;
  if (typeof amount !== "string" || !USD_AMOUNT.test(amount)) return undefined;
  return microUsdText(unitsToMicroUsd(decimalToUnits(amount, PLACES), PLACES));
}

/** The lower of two amounts of US dollars that are a {@link USD_AMOUNT}. */
export function lowerUsd(one: string, other: string): string {
  return decimalToUnits(other, PLACES) < decimalToUnits(one, PLACES) ? other : one;
}

/** An amount of a token in micro-dollars, rounded up: what a budget gives for it. */
export function unitsToMicroUsd(units: bigint, decimals: number): bigint {
  if (decimals <= MICRO) return units * 10n ** BigInt(MICRO - decimals);
  const scale = 10n ** BigInt(decimals - MICRO);
  return (units + scale - 1n) / scale;
}

/** A limit in micro-dollars, rounded down. */
export function limitToMicroUsd(usd: string): bigint {
  return decimalToUnits(usd, PLACES) / 10n ** BigInt(PLACES - MICRO);
}

/** Micro-dollars as a decimal text: `"0.005000"`. */
export function microUsdText(microUsd: bigint): string {
  return unitsToDecimal(microUsd, MICRO);
}
