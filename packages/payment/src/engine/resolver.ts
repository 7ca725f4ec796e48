import {
  type ErrorCode,
  type FaultPoints,
  isAppError,
  type Log,
  type Metrics,
  type SettlementId,
} from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import type { BlockName, Ledger } from "../ledger-types.ts";
import type { Evidence, PaymentRecord } from "../types.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { settlementsTotal } from "./metrics.ts";
import type { ChainRules } from "./options.ts";
import { blockBelow, findUse, type UseFound } from "./search.ts";
import type { Waiters } from "./waiters.ts";

/** How a payment without evidence in our own transaction stands on the chain. */
export type Verdict =
  | { readonly kind: "settled"; readonly evidence: Evidence }
  /** It can no longer be settled. */
  | { readonly kind: "failed"; readonly reason: ErrorCode }
  /** It is cancelled, or used without paying, in a block that a re-organisation may still take. */
  | { readonly kind: "spent" }
  /** It is unused and within its window; `funded` says whether the payer could pay. */
  | { readonly kind: "open"; readonly funded: boolean }
  /** The chain does not say clearly yet: look again. */
  | { readonly kind: "unclear" };

/** A payment, and what shows that it was paid. */
export interface Settlement {
  readonly payment: PaymentRecord;
  readonly evidence: Evidence;
}

/** Judges payments by the chain and writes the ledger; the only writer of ends. */
export interface Resolver {
  /**
   * What the chain says as of the block that `confirmations` make deep enough. Whatever is for good is read at that very
   * block: a node that lags, or answers from another fork, gives no verdict. A payment fails at `finalityBlocks` only: its
   * payer signs anew then, and a re-organisation must not settle it after all.
   */
  judge(payment: PaymentRecord, head: Head, signal?: AbortSignal): Promise<Verdict>;
  settle(payment: PaymentRecord, evidence: Evidence): Promise<void>;
  /** The same for many, in one transaction of the ledger if it can. Throws when some could not be brought to an end. */
  settleAll(items: readonly Settlement[]): Promise<void>;
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

/** Most uses that are remembered, and for how long in chain time: longer than blocks take to be final. */
const UNPAID_USES = { maxEntries: 10_000, ttlMs: 86_400_000 };

/** Creates the resolver of one network. */
export function createResolver(rules: ChainRules, modules: ResolverModules): Resolver {
  const { chain, ledger, waiters, log, metrics, faults } = modules;
  const { network } = rules;
  /** Chain time that a re-organisation may take back. */
  const reachSeconds = BigInt(Math.ceil(rules.finalityBlocks * rules.blockTimeSeconds));
  const maxLogBlocks = rules.maxLogBlocks ?? 1_000;
  const onceSettled = new Set<SettlementId>();
  /** Where authorizations were used without paying: each is looked at until that block is final, and searched for once. */
  const unpaidUses = new BoundedMap<SettlementId, BlockName>(UNPAID_USES);

  const remembered = async (
    payment: PaymentRecord,
    head: Head,
    signal: AbortSignal | undefined,
  ): Promise<UseFound | undefined> => {
    const block = unpaidUses.get(payment.id, head.timeSeconds * 1_000);
    if (block === undefined) return undefined;
    const [canonical] = await chain.blockHashes([block.blockNumber], signal);
    return canonical === block.blockHash ? { kind: "unpaid", block } : undefined;
  };

  /** A payment that another process has brought to its end meanwhile has one: the ledger refuses a second. */
  const conclude = async (payment: PaymentRecord, write: () => Promise<void>, evidence?: Evidence): Promise<void> => {
    try {
      await write();
      ended(payment, evidence);
    } catch (error) {
      if (!isAppError(error, "INTERNAL")) throw error;
      const now = await ledger.get(payment.id);
      if (now === undefined || now.state === "signed" || now.state === "submitted") throw error;
      log.warn({ settlementId: payment.id, state: now.state }, "a payment had come to another end");
      ended(payment, undefined);
    }
  };

  const ended = (payment: PaymentRecord, evidence: Evidence | undefined): void => {
    onceSettled.delete(payment.id);
    unpaidUses.delete(payment.id);
    waiters.resolved(payment.id, evidence);
  };

  const settleEach = async (items: readonly Settlement[]): Promise<void> => {
    const results = await Promise.allSettled(
      items.map(({ payment, evidence }) => conclude(payment, () => ledger.settled(payment.id, evidence), evidence)),
    );
    for (const result of results) if (result.status === "rejected") throw result.reason;
  };

  const settleAll = async (items: readonly Settlement[]): Promise<void> => {
    for (const _ of items) await faults.reach("engine.settled.before");
    try {
      await ledger.settledAll(items.map(({ payment, evidence }) => ({ id: payment.id, evidence })));
      for (const { payment, evidence } of items) ended(payment, evidence);
    } catch (error) {
      // One of them stands in the way of all; or it is not known whether the ledger has them, which it says if asked
      // again. When the ledger does not answer at all, the next look does.
      if (!isAppError(error, "INTERNAL") && !isAppError(error, "LEDGER_FENCED")) throw error;
      await settleEach(items);
    }
    metrics.count(settlementsTotal, { network, outcome: "settled" }, items.length);
    for (const _ of items) await faults.reach("engine.settled.after");
  };

  return {
    async judge(payment, head, signal) {
      const deep = await blockBelow(chain, head, rules.confirmations - 1, signal);
      if (deep === undefined) return { kind: "unclear" };
      const { used, balance } = await chain.authorization(payment.key, deep, signal);
      if (!used) {
        // EIP-3009: the block's time must be below `validBefore`, and block times never go down. Until then anybody may
        // put the authorization through, whatever became of our own transaction.
        const pastSeconds = BigInt(deep.timeSeconds) - payment.validBefore;
        if (pastSeconds < 0n) return { kind: "open", funded: balance >= payment.value };
        return pastSeconds >= reachSeconds ? { kind: "failed", reason: "PAYMENT_EXPIRED" } : { kind: "unclear" };
      }
      const final = await blockBelow(chain, head, rules.finalityBlocks, signal);
      const isOver = final !== undefined && BigInt(final.timeSeconds) >= payment.validBefore;
      const use =
        (await remembered(payment, head, signal)) ?? (await findUse(chain, payment, deep, maxLogBlocks, signal));
      if (use.kind === "paid") return { kind: "settled", evidence: use.evidence };
      if (use.kind === "unpaid") {
        unpaidUses.set(payment.id, use.block, head.timeSeconds * 1_000);
        const isFinal = final !== undefined && use.block.blockNumber <= final.number;
        return isFinal || isOver ? { kind: "failed", reason: "PAYMENT_NONCE_USED" } : { kind: "spent" };
      }
      // Nodes that lag have caught up by the time that the window's end is final.
      return isOver ? { kind: "failed", reason: "PAYMENT_NONCE_USED" } : { kind: "unclear" };
    },

    settle: (payment, evidence) => settleAll([{ payment, evidence }]),

    settleAll,

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
