import type { SettlementId } from "@turnpike/base";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { transactionTarget } from "../evm/transaction.ts";
import type { BatchRecord, JournaledTransaction } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Broadcast } from "./chain.ts";

/** A node may refuse once by mistake, or while it is overloaded. */
const STUCK_REFUSALS = 2;
/** Pause after the first refusal; what is behind the batch waits. Each further pause is twice as long. */
const REFUSED_PAUSE_MS = 500;
/** A cancellation that nodes accept is mined by then, and until then payments may wait for it. */
const CANCELLED_WITHIN_MS = 8_000;

/** What the ledger keeps of a batch that {@link OpenBatch} starts from. */
export type BatchStart = Pick<BatchRecord, "id" | "nonce" | "gasLimit" | "transactions" | "payments">;

/**
 * A journaled batch whose nonce is not used up yet. It ends in one of three ways: a transaction with payments is mined;
 * an empty one is, which cancels it; or a foreign transaction took the nonce. What it has not settled by then is judged by
 * the chain, and goes into further batches by itself while it can still be settled.
 */
export class OpenBatch {
  readonly id: bigint;
  readonly nonce: number;
  readonly gasLimit: bigint;
  /** Oldest first; the last one is what is sent again. */
  readonly transactions: JournaledTransaction[];
  /** All payments that its first transaction carries; replacements leave out those that are resolved by then. */
  readonly payments: readonly PaymentRecord[];
  /** True when it has one payment, that may not share a transaction. */
  readonly alone: boolean;
  /** Those of its payments that are not resolved. */
  readonly unresolved: Map<SettlementId, PaymentRecord>;
  /** Nodes refused an earlier transaction of its payment, so that it is cancelled as soon as they refuse this one. */
  readonly suspect: boolean;
  /** A re-organisation has taken its block: what was settled by it must settle again. */
  readonly reopened: boolean;
  /** Monotonic milliseconds of the last attempt to send. */
  sentAtMs: number;
  /** Monotonic milliseconds since when its fees could have got it mined. */
  waitingSinceMs: number;
  /** Monotonic milliseconds since when its nonce is used up and none of its transactions is seen as mined. */
  usedSinceMs: number | undefined;
  /** How often in a row nodes refused its newest transaction, and since when (monotonic milliseconds). */
  refusals = 0;
  refusedSinceMs = 0;
  /** It is cancelled since nodes refuse it. */
  rejected = false;
  /** A node has accepted a transaction of it. */
  accepted = false;
  /** An operator wants it cancelled. */
  cancelRequested = false;
  /** Monotonic milliseconds when payments of it were judged whose window is closed. */
  judgedAtMs = Number.NEGATIVE_INFINITY;

  constructor(
    start: BatchStart,
    nowMs: number,
    how: { readonly alone: boolean; readonly reopened?: boolean; readonly suspect?: boolean },
  ) {
    this.id = start.id;
    this.nonce = start.nonce;
    this.gasLimit = start.gasLimit;
    this.transactions = [...start.transactions];
    this.payments = start.payments;
    this.unresolved = new Map(start.payments.filter(isPending).map((payment) => [payment.id, payment]));
    this.alone = how.alone;
    this.suspect = how.suspect ?? false;
    this.reopened = how.reopened ?? false;
    this.sentAtMs = nowMs;
    this.waitingSinceMs = nowMs;
  }

  /** The transaction that is sent again; undefined only for a batch whose journal is empty. */
  get newest(): JournaledTransaction | undefined {
    return this.transactions.at(-1);
  }

  /** True when its payments go through the contract SettlementBatch, as its first transaction has them. */
  get isGuarded(): boolean {
    return this.transactions.some(isGuarded);
  }

  /** Most that its newest transaction may take from the relayer's balance, in wei. */
  get maxCost(): bigint {
    return this.gasLimit * (this.newest?.maxFeePerGas ?? 0n);
  }

  /** A re-organisation gave it back, and what was journaled last was to cancel it: its payments were settled, and are again. */
  get isRevivable(): boolean {
    return this.reopened && !this.cancelRequested && this.newest?.cancels === true;
  }

  /** True when no batch behind it should be signed: nodes refuse it, or may. */
  get isBlocking(): boolean {
    return this.refusals > 0 || (this.suspect && !this.accepted);
  }

  /** True when nodes have refused it often and long enough to cancel it. */
  isRejected(nowMs: number, cancelAfterMs: number): boolean {
    if (this.suspect) return this.refusals > 0;
    return this.refusals >= STUCK_REFUSALS && nowMs - this.refusedSinceMs >= cancelAfterMs;
  }

  /** True when nodes keep refusing it, longer than a cancellation of it takes. */
  isStuck(nowMs: number, cancelAfterMs: number): boolean {
    return this.refusals >= STUCK_REFUSALS && nowMs - this.refusedSinceMs >= cancelAfterMs + CANCELLED_WITHIN_MS;
  }

  /** True when its newest transaction should be sent again. */
  isDue(nowMs: number, rebroadcastAfterMs: number): boolean {
    const pauseMs = this.refusals === 0 ? rebroadcastAfterMs : REFUSED_PAUSE_MS * 2 ** (this.refusals - 1);
    return nowMs - this.sentAtMs >= Math.min(pauseMs, rebroadcastAfterMs);
  }

  /** Counts refusals by how a node took its newest transaction. */
  recordBroadcast(broadcast: Broadcast, nowMs: number): void {
    if (broadcast === "refused") {
      if (this.refusals === 0) this.refusedSinceMs = nowMs;
      this.refusals++;
    } else if (broadcast !== "no-gas" && broadcast !== "busy") this.refusals = 0;
    if (broadcast === "sent") this.accepted = true;
  }

  /** The batch before it is done: it could not be mined sooner, and what nodes refused they may take now. */
  becomeOldest(nowMs: number): void {
    this.waitingSinceMs = nowMs;
    if (this.refusals > 0) this.sentAtMs = Number.NEGATIVE_INFINITY;
    this.refusals = 0;
  }
}

/** True for a transaction of the contract SettlementBatch: no payer's code runs in it. */
export function isGuarded({ raw }: Pick<JournaledTransaction, "raw">): boolean {
  return transactionTarget(raw) === SETTLEMENT_BATCH_ADDRESS;
}

function isPending({ state }: PaymentRecord): boolean {
  return state === "signed" || state === "submitted" || state === "claimed";
}
