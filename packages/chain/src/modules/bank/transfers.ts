import type { AddressBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { moduleAddressBytes } from "@turnpike/crypto";
import { addressText } from "../../state/addresses.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { done, type FaultKind, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { ensureAccount, ensureModuleAccount } from "../auth/accounts.ts";
import { getBankParams, getSupply, receiveCoins, sendEnabled, setSupply, spendCoins } from "./balances.ts";
import { type Coin, coinsText, isAmount } from "./coins.ts";

const bankFault = (code: number, text: string): FaultKind => ({ codespace: "bank", code, text });

/** The errors of codespace `bank`. */
export const BANK = {
  noInputs: bankFault(2, "no inputs to send transaction"),
  noOutputs: bankFault(3, "no outputs to send transaction"),
  sumsDiffer: bankFault(4, "sum inputs != sum outputs"),
  sendDisabled: bankFault(5, "send transactions are disabled"),
  multipleSenders: bankFault(9, "multiple senders not allowed"),
} as const;

/** Moves coins between two addresses, with the SDK's four events. On a fault the caller's writes must be undone. */
export function sendCoins(
  ctx: Context,
  from: AddressBytes,
  to: AddressBytes,
  coins: readonly Coin[],
): Outcome<undefined> {
  const spent = spendCoins(ctx, from, coins);
  if (!spent.ok) return spent;
  const received = receiveCoins(ctx, to, coins);
  if (!received.ok) return received;
  ensureAccount(ctx, to);
  const sender = addressText(from);
  ctx.events.push(
    chainEvent("transfer", { recipient: addressText(to), sender, amount: coinsText(coins) }),
    chainEvent("message", { sender }),
  );
  return done(undefined);
}

/** Permissions of the accounts that stakes and fees are sent to. */
const ACTOR_PERMISSIONS = ["minter", "burner", "staking"];

/** Moves coins from an address to a module's account, which is looked up first, as the SDK does, and made when it is missing. */
export function sendCoinsToModule(
  ctx: Context,
  from: AddressBytes,
  moduleName: string,
  coins: readonly Coin[],
): Outcome<undefined> {
  ensureModuleAccount(ctx, moduleName, ACTOR_PERMISSIONS);
  return sendCoins(ctx, from, moduleAddressBytes(moduleName), coins);
}

/** Makes coins into a module's account. */
export function mintCoins(ctx: Context, moduleName: string, coins: readonly Coin[]): Outcome<undefined> {
  const address = moduleAddressBytes(moduleName);
  const received = receiveCoins(ctx, address, coins);
  if (!received.ok) return received;
  for (const { denom, amount } of coins) {
    const supply = getSupply(ctx, denom) + amount;
    // While a supply is in bounds no balance can leave them: sending never fails for what the receiver has.
    if (!isAmount(supply)) return fail(SDK.invalidCoins, coinsText(coins));
    setSupply(ctx, { denom, amount: supply });
  }
  ctx.events.push(chainEvent("coinbase", { minter: addressText(address), amount: coinsText(coins) }));
  return done(undefined);
}

/** Destroys coins of a module's account. */
export function burnCoins(ctx: Context, moduleName: string, coins: readonly Coin[]): Outcome<undefined> {
  const address = moduleAddressBytes(moduleName);
  const spent = spendCoins(ctx, address, coins);
  if (!spent.ok) return spent;
  for (const { denom, amount } of coins) setSupply(ctx, { denom, amount: getSupply(ctx, denom) - amount });
  ctx.events.push(chainEvent("burn", { burner: addressText(address), amount: coinsText(coins) }));
  return done(undefined);
}

/** A fault when one of the denominations may not be sent now. */
export function checkSendEnabled(ctx: Context, coins: readonly Coin[]): Outcome<undefined> {
  let byDefault: boolean | undefined;
  for (const { denom } of coins) {
    const own = sendEnabled.get(ctx, denom);
    byDefault ??= own === undefined ? getBankParams(ctx).defaultSendEnabled : undefined;
    if ((own ?? byDefault) !== true) return fail(BANK.sendDisabled, `${denom} transfers are currently disabled`);
  }
  return done(undefined);
}

/** A fault when an address may not be sent coins by a message. */
export function checkReceiver(blocked: ReadonlySet<string>, address: Bytes): Outcome<undefined> {
  const text = addressText(address);
  return blocked.has(text) ? fail(SDK.unauthorized, `${text} is not allowed to receive funds`) : done(undefined);
}
