import { base, createMessage } from "@turnpike/proto";
import { integerOf } from "../../state/numbers.ts";

/** An amount of one denomination, in its smallest units. */
export interface Coin {
  readonly denom: string;
  readonly amount: bigint;
}

const DENOM = /^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$/;
const MOST_BITS = 256n;

/** True for a name that a denomination may have. */
export function isDenom(denom: string): boolean {
  return DENOM.test(denom);
}

/** True for an amount of at most 256 bits, which may be below zero. */
export function isAmount(amount: bigint): boolean {
  return (amount < 0n ? -amount : amount) >> MOST_BITS === 0n;
}

/** Coins as they stand in a message; undefined when an amount is no whole number of at most 256 bits. */
export function readCoins(coins: readonly base.Coin[]): Coin[] | undefined {
  const read: Coin[] = [];
  for (const { denom, amount } of coins) {
    const value = integerOf(amount);
    if (value === undefined) return undefined;
    read.push({ denom, amount: value });
  }
  return read;
}

/** Coins for a message. */
export function writeCoins(coins: readonly Coin[]): base.Coin[] {
  return coins.map(writeCoin);
}

/** A coin for a message. */
export function writeCoin({ denom, amount }: Coin): base.Coin {
  return createMessage(base.CoinSchema, { denom, amount: amount.toString() });
}

/** Coins as events and errors show them: `5mact,10upokt`. */
export function coinsText(coins: readonly Coin[]): string {
  return coins.map(({ denom, amount }) => `${amount}${denom}`).join(",");
}

/** Coins of a message as an error shows them, valid or not. */
export function rawCoinsText(coins: readonly base.Coin[]): string {
  return coins.map(({ denom, amount }) => `${amount}${denom}`).join(",");
}

/** True when denominations are right, in order and unique, and every amount is over zero. No coins are valid. */
export function areValidCoins(coins: readonly Coin[]): boolean {
  return coins.every(
    ({ denom, amount }, i) => isDenom(denom) && amount > 0n && (i === 0 || (coins[i - 1]?.denom ?? "") < denom),
  );
}

/** Sum of coins, in order of denomination, without zeros. */
export function addCoins(lists: Iterable<readonly Coin[]>): Coin[] {
  const sums = new Map<string, bigint>();
  for (const list of lists) for (const { denom, amount } of list) sums.set(denom, (sums.get(denom) ?? 0n) + amount);
  return [...sums]
    .filter(([, amount]) => amount !== 0n)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([denom, amount]) => ({ denom, amount }));
}

/** Amount of upokt in the coins of a message; without those that cannot be read or are below zero, which move nothing. */
export function upoktIn(coins: readonly base.Coin[]): bigint {
  let sum = 0n;
  for (const { denom, amount } of readCoins(coins) ?? []) if (denom === "upokt" && amount > 0n) sum += amount;
  return sum;
}
