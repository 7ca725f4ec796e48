import { sameAddress } from "@turnpike/base";
import { readPayment } from "./payment-header.ts";
import type { PurchaseReceipt } from "./types.ts";

/** Hash of an EVM transaction, which is the `transaction` of `eip155` networks (x402 v2, SettleResponse). */
const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;
/** Maximum UTF-16 units of a receipt's value that are repeated. */
const MAX_SHOWN_LENGTH = 80;

const shown = (text: string): string => JSON.stringify(text.slice(0, MAX_SHOWN_LENGTH));

/**
 * Difference between a receipt and the payment that it came for, as a clause; undefined where it fits. Fields that x402
 * leaves optional are compared where they are present.
 */
export function receiptFault(receipt: PurchaseReceipt, payment: string): string | undefined {
  const facts = readPayment(payment);
  if (facts === undefined) return "the payment cannot be read";
  const { network, transaction, payer, payTo, amount, asset } = receipt;
  if (network !== facts.network) return `its network is ${shown(network)}, and ${facts.network} was signed`;
  if (!TRANSACTION.test(transaction)) return `its transaction ${shown(transaction)} is not a transaction hash`;
  if (payer !== undefined && !sameAddress(payer, facts.from)) return `its payer is ${shown(payer)}, not ${facts.from}`;
  if (payTo !== undefined && !sameAddress(payTo, facts.to)) return `its receiver is ${shown(payTo)}, not ${facts.to}`;
  if (asset !== undefined && !sameAddress(asset, facts.asset))
    return `its token is ${shown(asset)}, not ${facts.asset}`;
  if (amount !== undefined && amount !== facts.value.toString()) {
    return `its amount is ${shown(amount)}, and ${facts.value} was signed`;
  }
  return undefined;
}
