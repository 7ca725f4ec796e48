import { AppError } from "@turnpike/base";

/** An amount of one denomination, in its smallest units. */
export interface Amount {
  readonly denom: string;
  readonly amount: bigint;
}

/** A price of a unit of gas: `units / 10^places` of a denomination. */
export interface GasPriceAmount {
  readonly denom: string;
  readonly units: bigint;
  readonly places: number;
}

const DENOM = "[a-zA-Z][a-zA-Z0-9/:._-]{2,127}";
const AMOUNT = new RegExp(`^(\\d{1,78})(${DENOM})$`);
const PRICE = new RegExp(`^(\\d{1,60})(?:\\.(\\d{1,18}))?(${DENOM})$`);
/** Price of gas where none is given: 0.000001upokt, which is what nodes ask for. */
const USUAL_PRICE: GasPriceAmount = { denom: "upokt", units: 1n, places: 6 };

/** `1000upokt` as an amount; undefined when it is none. */
export function parseAmount(text: string): Amount | undefined {
  const [, amount, denom] = AMOUNT.exec(text.trim()) ?? [];
  return amount === undefined || denom === undefined ? undefined : { denom, amount: BigInt(amount) };
}

/** An amount on the chain has 256 bits. */
const COIN_AMOUNT = /^\d{1,78}$/;

/**
 * The amount of a coin in a node's answer, 0 of one that is absent or empty; undefined when it is no whole number from 0 on: a
 * node may say anything.
 */
export function coinAmount(coin: { readonly amount: string } | undefined): bigint | undefined {
  if (coin === undefined || coin.amount === "") return 0n;
  return COIN_AMOUNT.test(coin.amount) ? BigInt(coin.amount) : undefined;
}

function parseList<T extends { readonly denom: string }>(
  text: string,
  one: (part: string) => T | undefined,
  example: string,
): readonly T[] {
  const found = text.split(",").map((part) => {
    const value = one(part.trim());
    if (value !== undefined) return value;
    throw new AppError("USAGE", { message: `${JSON.stringify(part)} is no amount; expected such as ${example}.` });
  });
  const sorted = found.toSorted((a, b) => (a.denom < b.denom ? -1 : a.denom > b.denom ? 1 : 0));
  if (sorted.some(({ denom }, at) => denom === sorted[at + 1]?.denom)) {
    throw new AppError("USAGE", { message: `${JSON.stringify(text)} names a denomination twice.` });
  }
  return sorted;
}

/** Amounts with commas between them, sorted by denomination, as the chain wants them. @throws AppError USAGE */
export function parseAmounts(text: string): readonly Amount[] {
  return parseList(text, parseAmount, "1000upokt");
}

/** Prices of gas: `0.000001upokt`. @throws AppError USAGE */
export function parseGasPrices(text: string): readonly GasPriceAmount[] {
  const one = (part: string): GasPriceAmount | undefined => {
    const [, whole, fraction = "", denom] = PRICE.exec(part) ?? [];
    if (whole === undefined || denom === undefined) return undefined;
    return { denom, units: BigInt(whole + fraction), places: fraction.length };
  };
  return parseList(text, one, "0.000001upokt");
}

/** Fee of so much gas at these prices, rounded up. */
export function feeAtPrices(prices: readonly GasPriceAmount[], gasLimit: bigint): readonly Amount[] {
  return prices.map(({ denom, units, places }) => {
    const one = 10n ** BigInt(places);
    return { denom, amount: (units * gasLimit + one - 1n) / one };
  });
}

/** Fee of so much gas at the price that nodes ask for, at least 1 upokt. */
export function usualFee(gasLimit: bigint): readonly Amount[] {
  return feeAtPrices([USUAL_PRICE], gasLimit > 0n ? gasLimit : 1n);
}
