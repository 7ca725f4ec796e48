import type { AddressBytes } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { staking } from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { DECIMAL_ONE } from "../../state/numbers.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { createParsed } from "../../state/parsed.ts";
import { getBalance, receiveCoins, setBalance } from "../bank/balances.ts";
import { type Coin, coinsText } from "../bank/coins.ts";
import { STAKING } from "./errors.ts";
import {
  BONDED_POOL,
  getDelegation,
  NOT_BONDED_POOL,
  operatorBytes,
  POWER_REDUCTION,
  setDelegation,
  setValidator,
  sharesOf,
  validatorNumbers,
} from "./state.ts";

/** Moves coins into a pool as the bank does for delegations: two events, no transfer. */
function intoPool(ctx: Context, delegator: AddressBytes, pool: string, coin: Coin): Outcome<undefined> {
  const balance = getBalance(ctx, delegator, coin.denom);
  const text = coinsText([coin]);
  if (balance < coin.amount) {
    return fail(SDK.insufficientFunds, `failed to delegate; ${balance}${coin.denom} is smaller than ${text}`);
  }
  setBalance(ctx, delegator, { denom: coin.denom, amount: balance - coin.amount });
  ctx.events.push(chainEvent("coin_spent", { spender: addressText(delegator), amount: text }));
  return receiveCoins(ctx, moduleAddressBytes(pool), [coin]);
}

/** Most tokens of a validator: the consensus engine's sum of all powers must stay under 2^60. */
export const MOST_TOKENS: bigint = POWER_REDUCTION << 50n;

/**
 * Delegates coins of an account to a validator, and gives the new shares as a kept decimal. On a fault the caller's
 * writes must be undone.
 */
export function delegate(
  ctx: Context,
  delegator: AddressBytes,
  validator: staking.Validator,
  coin: Coin,
): Outcome<{ readonly newShares: bigint }> {
  const { tokens, shares: allShares } = validatorNumbers(validator);
  if (tokens === 0n && allShares > 0n) return fail(STAKING.exchangeRate);
  if (tokens + coin.amount > MOST_TOKENS) return fail(SDK.invalidRequest, "the validator would have too much power");
  const pool = validator.status === staking.BondStatus.BONDED ? BONDED_POOL : NOT_BONDED_POOL;
  const moved = intoPool(ctx, delegator, pool, coin);
  if (!moved.ok) return moved;
  const newShares = allShares === 0n ? coin.amount * DECIMAL_ONE : (allShares * coin.amount) / tokens;
  setValidator(ctx, {
    ...validator,
    tokens: (tokens + coin.amount).toString(),
    delegatorShares: (allShares + newShares).toString(),
  });
  const operator = operatorBytes(validator);
  const delegation = getDelegation(ctx, operator, delegator);
  const oldShares = delegation === undefined ? 0n : sharesOf(delegation);
  setDelegation(
    ctx,
    operator,
    delegator,
    createParsed(staking.DelegationSchema, {
      delegatorAddress: addressText(delegator),
      validatorAddress: validator.operatorAddress,
      shares: (oldShares + newShares).toString(),
    }),
  );
  return done({ newShares });
}
