import {
  type ErrorCode,
  type FaultPoints,
  isAppError,
  type Log,
  type Metrics,
  type SettlementId,
} from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { Evidence, PaymentRecord } from "../types.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { settlementsTotal } from "./metrics.ts";
import type { ChainRules } from "./options.ts";
import { findUse } from "./search.ts";
import type { Waiters } from "./waiters.ts";

/** How a payment without evidence in our own transaction stands on the chain. */
export type Verdict =
  | { readonly kind: "settled"; readonly evidence: Evidence }
  /** It can no longer be settled. */
  | { readonly kind: "failed"; readonly reason: ErrorCode }
  /** It is unused and within its window; `funded` says whether the payer could pay now. */
  | { readonly kind: "open"; readonly funded: boolean }
  /** The chain does not say clearly yet: look again. */
  | { readonly kind: "unclear" };

/** Judges payments by the chain and writes the ledger; the only writer of ends. */
export interface Resolver {
  judge(payment: PaymentRecord, head: Head, signal?: AbortSignal): Promise<Verdict>;
  settle(payment: PaymentRecord, evidence: Evidence): Promise<void>;
  /** Failed; or disputed, when its answer was already handed out as settled. */
  fail(payment: PaymentRecord, reason: ErrorCode): Promise<void>;
  /** Notes that a payment was settled once, and that its block is gone. */
  reorganise(payment: PaymentRecord): Promise<void>;
}

/** What {@link createResolver} works with. */
export interface ResolverModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly waiters: Waiters;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

/** Looks that find no log of a used authorization before it counts as not paid to us. */
const UNSEEN_LOOKS = 5;
/** Most payments whose earlier looks are remembered. */
const MAX_REMEMBERED = 10_000;

/** Creates the resolver of one network. */
export function createResolver(rules: ChainRules, modules: ResolverModules): Resolver {
  const { chain, ledger, waiters, log, metrics, faults } = modules;
  const { network } = rules;
  const looks = new Map<SettlementId, number>();
  const onceSettled = new Set<SettlementId>();

  const unseen = (id: SettlementId): Verdict => {
    const count = (looks.get(id) ?? 0) + 1;
    if (looks.size >= MAX_REMEMBERED) looks.clear();
    looks.set(id, count);
    if (count < UNSEEN_LOOKS) return { kind: "unclear" };
    looks.delete(id);
    return { kind: "failed", reason: "PAYMENT_NONCE_USED" };
  };

  /** A payment that another process has brought to its end meanwhile has one: the ledger refuses a second. */
  const conclude = async (payment: PaymentRecord, write: () => Promise<void>): Promise<void> => {
    try {
      await write();
    } catch (error) {
      if (!isAppError(error, "INTERNAL")) throw error;
      const now = await ledger.get(payment.id);
      if (now === undefined || now.state === "signed" || now.state === "submitted") throw error;
      log.warn({ settlementId: payment.id, state: now.state }, "a payment had come to another end");
    }
    onceSettled.delete(payment.id);
    waiters.resolved(payment.id);
  };

  return {
    async judge(payment, head, signal) {
      const { used, balance } = await chain.authorization(payment.key, signal);
      if (used) {
        // The authorization may have been used in a block after `head`.
        const newest = await chain.head(signal);
        const found = await findUse(chain, payment, newest, rules.maxLogBlocks ?? 1_000, signal);
        if (found.kind === "unseen") return unseen(payment.id);
        if (found.kind === "unpaid") return { kind: "failed", reason: "PAYMENT_NONCE_USED" };
        const depth = newest.number - found.evidence.blockNumber + 1n;
        return depth < BigInt(rules.confirmations)
          ? { kind: "unclear" }
          : { kind: "settled", evidence: found.evidence };
      }
      // EIP-3009: the block's time must be below `validBefore`, and block times never go down.
      if (BigInt(head.timeSeconds) >= payment.validBefore) return { kind: "failed", reason: "PAYMENT_EXPIRED" };
      return { kind: "open", funded: balance >= payment.value };
    },

    async settle(payment, evidence) {
      await faults.reach("engine.settled.before");
      await conclude(payment, () => ledger.settled(payment.id, evidence));
      metrics.count(settlementsTotal, { network, outcome: "settled" });
      await faults.reach("engine.settled.after");
    },

    async fail(payment, reason) {
      const disputed = payment.evidence !== undefined || onceSettled.has(payment.id);
      await conclude(payment, () =>
        disputed ? ledger.disputed(payment.id, reason) : ledger.failed(payment.id, reason),
      );
      metrics.count(settlementsTotal, { network, outcome: disputed ? "disputed" : reason });
      log.warn({ settlementId: payment.id, reason, disputed }, "a payment was not settled");
    },

    async reorganise(payment) {
      await ledger.reorganised(payment.id);
      onceSettled.add(payment.id);
      metrics.count(settlementsTotal, { network, outcome: "reorganised" });
      log.warn({ settlementId: payment.id }, "the block of a settlement is gone");
    },
  };
}
