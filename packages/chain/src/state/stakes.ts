import { type base, createMessage, base as schemas } from "@turnpike/proto";
import { integerOf } from "./numbers.ts";
import { type FaultKind, fail, type TxFault } from "./outcome.ts";

/** The denomination that stakes are in. */
export const STAKE_DENOM = "upokt";

const AMOUNT = /^\+?\d{1,78}$/;
const DENOM = /^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$/;

/** How a module words what is wrong with a stake. */
export interface StakeWords {
  readonly kind: FaultKind;
  /** Who stakes: `application`, `gateway`. */
  readonly who: string;
  /** What stands behind `who` where the denomination is wrong. */
  readonly beforeDenom: string;
}

/** A coin as errors show it. */
export function coinText(coin: base.Coin): string {
  return `${coin.amount === "" ? "<nil>" : coin.amount}${coin.denom}`;
}

/** Why a coin is no stake, in the real chain's words; undefined when it is one: over zero, and in upokt. */
export function stakeFault(coin: base.Coin | undefined, { kind, who, beforeDenom }: StakeWords): TxFault | undefined {
  if (coin === undefined) return fail(kind, `nil ${who} stake; (<nil>)`).fault;
  const text = coinText(coin);
  if (!AMOUNT.test(coin.amount) || !hasAmount(coin) || !DENOM.test(coin.denom)) {
    return fail(kind, `invalid ${who} stake ${text}; (invalid denom: )`).fault;
  }
  if (BigInt(coin.amount) === 0n) return fail(kind, `invalid stake amount for ${who}: ${text} <= 0`).fault;
  if (coin.denom !== STAKE_DENOM) {
    return fail(kind, `invalid stake amount denom for ${who}${beforeDenom} ${text}`).fault;
  }
  return undefined;
}

/** True for a coin whose amount is a whole number of at most 256 bits, which may be below zero. */
export function hasAmount({ amount }: Pick<base.Coin, "amount">): boolean {
  return integerOf(amount) !== undefined;
}

/** Amount of a coin that {@link stakeFault} found nothing wrong with; 0 for what is no amount. */
export function coinAmount(coin: base.Coin | undefined): bigint {
  return coin === undefined ? 0n : (integerOf(coin.amount) ?? 0n);
}

/** A coin of upokt. */
export function upokt(amount: bigint): base.Coin {
  return createMessage(schemas.CoinSchema, { denom: STAKE_DENOM, amount: amount.toString() });
}
