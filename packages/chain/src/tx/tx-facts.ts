import { readCoins } from "../modules/bank/coins.ts";
import { addressText } from "../state/addresses.ts";
import type { DecodedTx } from "./decode.ts";
import { timeoutNanosOf } from "./times.ts";

/** A transaction's fee for the gas that it asks for. */
export interface Offer {
  /** The lowest of the fee's coins, as the SDK counts it. */
  readonly fee: bigint;
  /** At least 1. */
  readonly gas: bigint;
}

/** Properties of a transaction that a mempool orders by. */
export interface TxFacts {
  readonly offer: Offer;
  /** Accounts whose signatures it needs. */
  readonly signers: readonly string[];
  /** False for an unordered transaction, which uses no sequence. */
  readonly isOrdered: boolean;
  /** Each signer's sequence, or timeout of an unordered transaction: one transaction of those with the same slot can succeed. */
  readonly slots: readonly string[];
}

/** Reads the facts of a transaction whose form is right. */
export function factsOf({ fee, body, authInfo, signers }: DecodedTx): TxFacts {
  let lowest: bigint | undefined;
  for (const { amount } of readCoins(fee.amount) ?? []) if (lowest === undefined || amount < lowest) lowest = amount;
  const names = signers.map(addressText);
  const slots = body.unordered
    ? names.map((name) => `${name}@${timeoutNanosOf(body) ?? 0n}`)
    : names.map((name, i) => `${name}/${authInfo.signerInfos[i]?.sequence ?? 0n}`);
  return {
    offer: { fee: lowest ?? 0n, gas: fee.gasLimit < 1n ? 1n : fee.gasLimit },
    signers: names,
    isOrdered: !body.unordered,
    slots,
  };
}
