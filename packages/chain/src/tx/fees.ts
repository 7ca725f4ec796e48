import { AppError } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { ensureModuleAccount, getAccount } from "../modules/auth/accounts.ts";
import { areValidCoins, type Coin, coinsText, isDenom, readCoins } from "../modules/bank/coins.ts";
import { sendCoins } from "../modules/bank/transfers.ts";
import { addressText } from "../state/addresses.ts";
import { type Context, chainEvent } from "../state/context.ts";
import { done, fail, type Outcome, SDK } from "../state/outcome.ts";
import type { DecodedTx } from "./decode.ts";

/** Account that fees go to. */
const FEE_COLLECTOR = "fee_collector";

/** The least that a node takes into its mempool: units of a denomination for one unit of gas, as a fraction. */
export interface GasPrice {
  readonly denom: string;
  readonly numerator: bigint;
  readonly denominator: bigint;
}

const PRICE = /^(\d+)(?:\.(\d{1,18}))?([a-zA-Z].*)$/;

/** Reads prices as nodes have them in their configuration: `0.000001upokt`, with commas between them. @throws AppError CONFIG_INVALID */
export function gasPricesOf(text: string): GasPrice[] {
  return text
    .split(",")
    .filter((part) => part.trim() !== "")
    .map((part) => {
      const [, whole = "", fraction = "", denom = ""] = PRICE.exec(part.trim()) ?? [];
      if (!isDenom(denom)) {
        throw new AppError("CONFIG_INVALID", { message: `${part} is no gas price; write one such as 0.000001upokt.` });
      }
      return { denom, numerator: BigInt(`${whole}${fraction}`), denominator: 10n ** BigInt(fraction.length) };
    })
    .sort((a, b) => (a.denom < b.denom ? -1 : 1));
}

function leastFees(prices: readonly GasPrice[], gas: bigint): Coin[] {
  return prices
    .filter((price) => price.numerator > 0n)
    .map(({ denom, numerator, denominator }) => ({
      denom,
      amount: (numerator * gas + denominator - 1n) / denominator,
    }));
}

/** Takes the fee of a transaction into the fee collector's account. Its price is asked for by the mempool alone. */
export function deductFee(ctx: Context, tx: DecodedTx, prices: readonly GasPrice[]): Outcome<undefined> {
  const { fee, feePayer } = tx;
  const checks = ctx.mode === "check" || ctx.mode === "recheck";
  if (ctx.mode !== "simulate" && ctx.block.heightBlocks > 0n && fee.gasLimit === 0n) {
    return fail(SDK.invalidGasLimit, "must provide positive gas");
  }
  const coins = readCoins(fee.amount);
  if (coins === undefined) return fail(SDK.insufficientFee, "invalid fee provided: null");
  const least = checks ? leastFees(prices, fee.gasLimit) : [];
  const pays = least.some(({ denom, amount }) => coins.some((coin) => coin.denom === denom && coin.amount >= amount));
  if (least.length > 0 && !pays) {
    return fail(SDK.insufficientFee, `insufficient fees; got: ${coinsText(coins)} required: ${coinsText(least)}`);
  }
  const payer = addressText(feePayer);
  if (fee.granter !== "" && fee.granter !== payer) return fail(SDK.invalidRequest, "fee grants are not enabled");
  if (getAccount(ctx, feePayer) === undefined) {
    return fail(SDK.unknownAddress, `fee payer address: ${payer} does not exist`);
  }
  if (coins.some((coin) => coin.amount !== 0n)) {
    if (!areValidCoins(coins)) return fail(SDK.insufficientFee, `invalid fee amount: ${coinsText(coins)}`);
    const collector = moduleAddressBytes(FEE_COLLECTOR);
    ensureModuleAccount(ctx, FEE_COLLECTOR, []);
    const paid = sendCoins(ctx, feePayer, collector, coins);
    if (!paid.ok) return fail(SDK.insufficientFunds, paid.fault.text);
  }
  ctx.events.push(chainEvent("tx", { fee: coinsText(coins), fee_payer: payer }));
  return done(undefined);
}
