import { isAppError, type Log, type Metrics, type SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { settlementsTotal } from "./metrics.ts";
import type { ChainRules } from "./options.ts";
import type { Resolver } from "./resolver.ts";
import { evidenceIn, findUse } from "./search.ts";

/** Most payments in one pass of each kind. */
const LIMIT = 2_000;
/** Most payments that are looked at together. */
const AT_ONCE = 16;
/** Passes that must miss a settlement's transaction before its block counts as gone: nodes lag behind each other. */
const MISSED_PASSES = 2;
/** Passes after which an authorization that is used, by no log that a node shows, is given up. */
const UNSEEN_PASSES = 5;

/** What {@link createReconciler} works with. */
export interface ReconcilerModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly resolver: Resolver;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Compares the ledger with the chain, over and over. */
export interface Reconciler {
  /** Settled payments whose block is not final. Returns how many lost their block and can be settled again. */
  checkFinality(head: Head, signal: AbortSignal): Promise<number>;
  /** Released and failed payments whose window is closed for good: were they paid after all? */
  sweep(head: Head, signal: AbortSignal): Promise<void>;
}

/** Creates the reconciler of one network. */
export function createReconciler(rules: ChainRules, modules: ReconcilerModules): Reconciler {
  const { chain, ledger, resolver, log, metrics } = modules;
  const { network } = rules;
  let missed = new Map<SettlementId, number>();
  const unseen = new Map<SettlementId, number>();

  /** True when the payment is to be settled again. */
  const recheck = async (payment: PaymentRecord, head: Head, signal: AbortSignal): Promise<boolean> => {
    const evidence = payment.evidence;
    if (evidence === undefined) return false;
    const mined = await chain.mined(evidence.transaction, signal);
    if (mined !== undefined) {
      if (mined.blockHash === evidence.blockHash) return false;
      const moved = evidenceIn(mined, payment);
      if (moved !== undefined) {
        await resolver.reorganise(payment);
        await resolver.settle(payment, moved);
        return false;
      }
    }
    const passes = (missed.get(payment.id) ?? 0) + 1;
    missed.set(payment.id, passes);
    if (passes < MISSED_PASSES) return false;
    const verdict = await resolver.judge(payment, head, signal);
    if (verdict.kind === "unclear") return false;
    missed.delete(payment.id);
    if (verdict.kind === "failed") {
      await resolver.fail(payment, verdict.reason);
      return false;
    }
    await resolver.reorganise(payment);
    if (verdict.kind === "open") return true;
    await resolver.settle(payment, verdict.evidence);
    return false;
  };

  const sweepOne = async (payment: PaymentRecord, head: Head, signal: AbortSignal): Promise<boolean> => {
    const { used } = await chain.authorization(payment.key, signal);
    if (!used) return true;
    const found = await findUse(chain, payment, head, rules.maxLogBlocks ?? 1_000, signal);
    if (found.kind === "unseen") {
      const passes = (unseen.get(payment.id) ?? 0) + 1;
      if (passes < UNSEEN_PASSES) unseen.set(payment.id, passes);
      else unseen.delete(payment.id);
      return passes >= UNSEEN_PASSES;
    }
    unseen.delete(payment.id);
    if (found.kind === "unpaid") return true;
    // The payer paid. Give the answer that was kept, or say that it is owed.
    const answer = payment.state === "failed" ? await ledger.answer(payment.id) : undefined;
    if (answer !== undefined) await resolver.settle(payment, found.evidence);
    else {
      await ledger.owed(payment.id, found.evidence);
      metrics.count(settlementsTotal, { network, outcome: "owed" });
      log.error({ settlementId: payment.id }, "a payer paid on the chain without an answer: it is owed");
    }
    return true;
  };

  const each = async <T>(
    payments: readonly PaymentRecord[],
    work: (payment: PaymentRecord) => Promise<T>,
  ): Promise<ReadonlyMap<SettlementId, T>> => {
    const done = new Map<SettlementId, T>();
    const one = async (payment: PaymentRecord): Promise<void> => {
      try {
        done.set(payment.id, await work(payment));
      } catch (error) {
        log.warn({ settlementId: payment.id, code: isAppError(error) ? error.code : "unknown" }, "look again later");
      }
    };
    for (let at = 0; at < payments.length; at += AT_ONCE) await Promise.all(payments.slice(at, at + AT_ONCE).map(one));
    return done;
  };

  return {
    async checkFinality(head, signal) {
      const finalBlock = head.number - BigInt(rules.finalityBlocks);
      const payments = await ledger.unfinal(network, finalBlock > 0n ? finalBlock : 0n, LIMIT);
      const numbers = [...new Set(payments.flatMap(({ evidence }) => evidence?.blockNumber ?? []))];
      const hashes = await chain.blockHashes(numbers, signal);
      const now = new Map(numbers.map((number, at) => [number, hashes[at]]));
      const doubtful = payments.filter(
        ({ evidence }) => evidence && now.get(evidence.blockNumber) !== evidence.blockHash,
      );
      const doubted = new Set(doubtful.map(({ id }) => id));
      missed = new Map([...missed].filter(([id]) => doubted.has(id)));
      const results = await each(doubtful, (payment) => recheck(payment, head, signal));
      return [...results.values()].filter(Boolean).length;
    },

    async sweep(head, signal) {
      const finalBlock = head.number - BigInt(rules.finalityBlocks);
      const final = finalBlock <= 0n ? undefined : await chain.block(finalBlock, signal);
      if (final === undefined) return;
      const payments = await ledger.unswept(network, final.timeSeconds, LIMIT);
      const results = await each(payments, (payment) => sweepOne(payment, head, signal));
      const ids = [...results].filter(([, done]) => done).map(([id]) => id);
      if (ids.length > 0) await ledger.swept(ids);
    },
  };
}
