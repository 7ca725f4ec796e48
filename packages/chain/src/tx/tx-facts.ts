import { readCoins, upoktIn } from "../modules/bank/coins.ts";
import { addressText, parseAddress } from "../state/addresses.ts";
import { ALL_COINS, type NamedGrant } from "../state/spending.ts";
import type { DecodedTx, RoutedMessage } from "./decode.ts";
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
  readonly feePayer: string;
  readonly feeUpokt: bigint;
  /** Maximum upokt that its messages take of those who sign them, by account. */
  readonly spends: ReadonlyMap<string, bigint>;
  /** Maximum upokt that its messages take of others, if these granted it. */
  readonly grantedSpends: readonly GrantedSpending[];
}

/** Coins that a message may take from an account by grants. */
export interface GrantedSpending {
  readonly account: string;
  readonly upokt: bigint;
  readonly grants: readonly NamedGrant[];
}

function spendsOf(messages: readonly RoutedMessage[]): Pick<TxFacts, "spends" | "grantedSpends"> {
  const spends = new Map<string, bigint>();
  const granted = new Map<string, GrantedSpending>();
  for (const { handler, message } of messages) {
    for (const { address, upokt, grants } of handler.spending(message)) {
      const parsed = parseAddress(address);
      if (!parsed.ok) continue;
      const account = addressText(parsed.value);
      if (grants === undefined) {
        spends.set(account, (spends.get(account) ?? 0n) + upokt);
        continue;
      }
      const key = JSON.stringify([account, ...grants]);
      granted.set(key, { account, upokt: (granted.get(key)?.upokt ?? 0n) + upokt, grants });
    }
  }
  return { spends, grantedSpends: [...granted.values()] };
}

/** Reads the facts of a transaction whose form is right. */
export function factsOf({ fee, body, authInfo, signers, feePayer, messages }: DecodedTx): TxFacts {
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
    feePayer: addressText(feePayer),
    // Another coin is not looked up where a fee is only estimated.
    feeUpokt: fee.amount.some(({ denom }) => denom !== "upokt") ? ALL_COINS : upoktIn(fee.amount),
    ...spendsOf(messages),
  };
}
