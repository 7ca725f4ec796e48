import type { AddressBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { bank, createMessage } from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import {
  bigintTextCodec,
  booleanCodec,
  endedTextCodec,
  lengthPrefixedCodec,
  messageCodec,
  noKey,
  pairCodec,
  rawCodec,
  textCodec,
} from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { getAccount } from "../auth/accounts.ts";
import { areValidCoins, type Coin, coinsText, isAmount } from "./coins.ts";

/** Name of the module, and of its part of the state. */
export const BANK_MODULE = "bank";

const module = BANK_MODULE;
const prefix = (first: number): Bytes => Uint8Array.of(first);

/** Sum of all balances, by denomination. */
export const supplies = new Collection({ module, prefix: prefix(0), key: textCodec, value: bigintTextCodec });
/** Descriptions of denominations. */
export const denomMetadata = new Collection({
  module,
  prefix: prefix(1),
  key: textCodec,
  value: messageCodec(bank.MetadataSchema),
});
/** Balances over zero, by address and denomination. */
export const balances = new Collection({
  module,
  prefix: prefix(2),
  key: pairCodec(lengthPrefixedCodec, textCodec),
  value: bigintTextCodec,
});
/** Who has some of a denomination. */
export const denomOwners = new Collection({
  module,
  prefix: prefix(3),
  key: pairCodec(endedTextCodec, rawCodec),
  value: rawCodec,
});
/** Denominations that may be sent or not, against the default. */
export const sendEnabled = new Collection({ module, prefix: prefix(4), key: textCodec, value: booleanCodec });
/** Parameters. */
export const bankParams = new Collection({
  module,
  prefix: prefix(5),
  key: noKey,
  value: messageCodec(bank.ParamsSchema),
});

/** The parameters. */
export function getBankParams(ctx: Context): bank.Params {
  return bankParams.get(ctx, undefined) ?? createMessage(bank.ParamsSchema, { defaultSendEnabled: true });
}

/** What an address has of a denomination. */
export function getBalance(ctx: Context, address: Bytes, denom: string): bigint {
  return balances.get(ctx, [address, denom]) ?? 0n;
}

/** All that an address has, in order of denomination. */
function getBalances(ctx: Context, address: Bytes): Coin[] {
  const within = lengthPrefixedCodec.encode(address);
  return [...balances.entries(ctx, { within })].map(([[, denom], amount]) => ({ denom, amount }));
}

/**
 * What an address may spend of upokt, as the SDK finds it out: by a walk over its balances and a look at its account. Undefined
 * when it has no coins at all.
 */
export function spendableUpokt(ctx: Context, address: Bytes): bigint | undefined {
  const coins = getBalances(ctx, address);
  getAccount(ctx, address);
  return coins.length === 0 ? undefined : (coins.find(({ denom }) => denom === "upokt")?.amount ?? 0n);
}

/** Sum of all balances of a denomination. */
export function getSupply(ctx: Context, denom: string): bigint {
  return supplies.get(ctx, denom) ?? 0n;
}

/** Writes a supply; zero is not kept. */
export function setSupply(ctx: Context, { denom, amount }: Coin): void {
  if (amount === 0n) supplies.remove(ctx, denom);
  else supplies.set(ctx, denom, amount);
}

/** Writes a balance; zero is not kept. */
export function setBalance(ctx: Context, address: AddressBytes, { denom, amount }: Coin): void {
  const owner = [denom, address] as const;
  if (amount === 0n) {
    balances.remove(ctx, [address, denom]);
    denomOwners.remove(ctx, owner);
    return;
  }
  balances.set(ctx, [address, denom], amount);
  denomOwners.set(ctx, owner, new Uint8Array(0));
}

/** Takes coins from an address, and says so in an event. On a fault the caller's writes must be undone. */
export function spendCoins(ctx: Context, address: AddressBytes, coins: readonly Coin[]): Outcome<undefined> {
  if (!areValidCoins(coins)) return fail(SDK.invalidCoins, coinsText(coins));
  // Where the SDK asks the account for coins that are locked; no account here locks any, but the reading costs gas.
  getAccount(ctx, address);
  for (const { denom, amount } of coins) {
    const balance = getBalance(ctx, address, denom);
    if (balance < amount) {
      const text = `spendable balance ${balance}${denom} is smaller than ${amount}${denom}`;
      return fail(SDK.insufficientFunds, text);
    }
    setBalance(ctx, address, { denom, amount: balance - amount });
  }
  ctx.events.push(chainEvent("coin_spent", { spender: addressText(address), amount: coinsText(coins) }));
  return done(undefined);
}

/** Gives coins to an address, and says so in an event. */
export function receiveCoins(ctx: Context, address: AddressBytes, coins: readonly Coin[]): Outcome<undefined> {
  if (!areValidCoins(coins)) return fail(SDK.invalidCoins, coinsText(coins));
  for (const { denom, amount } of coins) {
    const sum = getBalance(ctx, address, denom) + amount;
    if (!isAmount(sum)) return fail(SDK.invalidCoins, coinsText(coins));
    setBalance(ctx, address, { denom, amount: sum });
  }
  ctx.events.push(chainEvent("coin_received", { receiver: addressText(address), amount: coinsText(coins) }));
  return done(undefined);
}
