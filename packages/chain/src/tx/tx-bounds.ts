import type { Bytes } from "@turnpike/chain-store";
import { fail, SDK, type TxFault } from "../state/outcome.ts";

/** Maximum bytes of a transaction, in a block as in a mempool: a rule of the state, whatever a proposer's engine accepts. */
export const MAX_TX_BYTES = 1_048_576;

/** Maximum events of a transaction's messages. A claim has four, and a transaction some hundreds of claims at most. */
export const MAX_TX_EVENTS = 50_000;

/** Maximum bytes of the events of a transaction's messages: those of 16,000 payments in 1 MiB have 8 MiB. */
export const MAX_TX_EVENT_BYTES = 12 * 1024 * 1024;

/** The fault of a transaction with more bytes than a block accepts; undefined for others. The text is CometBFT's. */
export function txSizeFault({ length }: Bytes): TxFault | undefined {
  if (length <= MAX_TX_BYTES) return undefined;
  return fail(SDK.txTooLarge, `Tx too large. Max size is ${MAX_TX_BYTES}, but got ${length}`).fault;
}
