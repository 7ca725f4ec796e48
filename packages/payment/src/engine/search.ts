import type { Clock } from "@turnpike/base";
import {
  addressToTopic,
  findEvidence,
  isSpentIn,
  TOPIC_AUTHORIZATION_CANCELED,
  TOPIC_AUTHORIZATION_USED,
} from "../evm/logs.ts";
import type { BlockName } from "../ledger-types.ts";
import type { Evidence, PaymentRecord } from "../types.ts";
import type { Head, MinedTransaction, SettlementChain } from "./chain.ts";
import type { ChainRules } from "./options.ts";

/** How far the machine's clock and the chain's may be apart. */
const CLOCK_SLACK_SECONDS = 900;

/** What the chain's logs say of a used authorization. */
export type UseFound =
  /** A transaction used it and moved the money to where it was signed for. */
  | { readonly kind: "paid"; readonly evidence: Evidence }
  /** It was cancelled, or used without moving the money, in this block of this chain. */
  | { readonly kind: "unpaid"; readonly block: BlockName }
  /** No log says how: a node that lags, or a token without these events. */
  | { readonly kind: "unseen" };

/** The evidence for a payment in a mined transaction; undefined when it is not there. */
export function evidenceIn(mined: MinedTransaction, payment: PaymentRecord): Evidence | undefined {
  const logIndex = mined.succeeded ? findEvidence(mined.logs, wantedOf(payment)) : undefined;
  return logIndex === undefined ? undefined : evidenceAt(mined, logIndex);
}

/** The evidence that a log of a mined transaction is. */
export function evidenceAt({ transaction, blockNumber, blockHash }: MinedTransaction, logIndex: number): Evidence {
  return { transaction, blockNumber, blockHash, logIndex };
}

/** What {@link findEvidence} looks for on behalf of a payment. */
export function wantedOf({ key, payTo, value }: PaymentRecord): Parameters<typeof findEvidence>[1] {
  return { asset: key.asset, from: key.from, to: payTo, value, nonce: key.nonce };
}

/**
 * Looks for the transaction that used an authorization: from shortly before its claim, or the start of its window, to
 * the block `last`. At most `maxLogBlocks` blocks at once.
 */
export async function findUse(
  chain: SettlementChain,
  payment: PaymentRecord,
  last: Head,
  maxLogBlocks: number,
  signal?: AbortSignal,
): Promise<UseFound> {
  const { key, validAfter, createdAtMs } = payment;
  const claimed = Math.floor(createdAtMs / 1_000) - CLOCK_SLACK_SECONDS;
  const start = Math.max(Number(validAfter), claimed);
  const first = await firstBlockAt(chain, start, last, signal);
  const topics = [[TOPIC_AUTHORIZATION_USED, TOPIC_AUTHORIZATION_CANCELED], addressToTopic(key.from), key.nonce];
  // Newest first: an authorization is used about when it is looked for.
  for (let to = last.number; to >= first; to -= BigInt(maxLogBlocks)) {
    const from = to - BigInt(maxLogBlocks) + 1n;
    for (const hash of await chain.logs(key.asset, topics, from > first ? from : first, to, signal)) {
      const mined = await chain.mined(hash, signal);
      // Logs and receipts may come from different nodes, of which one is behind or on a fork.
      if (mined === undefined || mined.blockNumber > last.number) return { kind: "unseen" };
      if (!mined.succeeded || !isSpentIn(mined.logs, wantedOf(payment))) return { kind: "unseen" };
      const [canonical] = await chain.blockHashes([mined.blockNumber], signal);
      if (canonical !== mined.blockHash) return { kind: "unseen" };
      const evidence = evidenceIn(mined, payment);
      if (evidence !== undefined) return { kind: "paid", evidence };
      return { kind: "unpaid", block: { blockNumber: mined.blockNumber, blockHash: mined.blockHash } };
    }
  }
  return { kind: "unseen" };
}

/** Number of the first block not older than a time, by halving; block times never go down. */
async function firstBlockAt(
  chain: SettlementChain,
  timeSeconds: number,
  head: Head,
  signal?: AbortSignal,
): Promise<bigint> {
  let low = 0n;
  let high = head.number;
  while (low < high) {
    const middle = (low + high) / 2n;
    const block = await chain.block(middle, signal);
    // A pruned block is older than what is looked for.
    if (block === undefined || block.timeSeconds < timeSeconds) low = middle + 1n;
    else high = middle;
  }
  return low;
}

/** True for a block whose time may not end a payment: a node that is wrong, or of another chain, shows such blocks. */
export function isAheadOf(clock: Clock, { timeSeconds }: Head, { maxLeadSeconds }: ChainRules): boolean {
  return maxLeadSeconds !== undefined && timeSeconds > clock.nowMs() / 1_000 + maxLeadSeconds;
}

/** The block so many below another one; undefined when there is none, or the node does not have it. */
export async function blockBelow(
  chain: SettlementChain,
  head: Head,
  depth: number,
  signal?: AbortSignal,
): Promise<Head | undefined> {
  if (depth === 0) return head;
  const number = head.number - BigInt(depth);
  return number < 0n ? undefined : chain.block(number, signal);
}
