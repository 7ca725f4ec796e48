import { type Clock, isAppError, type Log, type Metrics, type SettlementId } from "@turnpike/base";
import type { BlockName, Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { settlementsTotal, settlementUnresolved } from "./metrics.ts";
import type { ChainRules } from "./options.ts";
import type { Resolver } from "./resolver.ts";
import { blockBelow, evidenceIn, findUse, isAheadOf } from "./search.ts";

/** Most payments in one pass of each kind, and most blocks that are asked for together. */
const LIMIT = 2_000;
/** Most payments that are looked at together. */
const AT_ONCE = 16;
/** Most batches of abandoned keys in one pass: more than a node keeps of one account. */
const ORPHAN_LIMIT = 64;
/** Chain time after its window for which a used authorization is looked for, when no node shows a log of it. */
const UNSEEN_SECONDS = 3_600;
/** A payment is sent again only when its window is open for longer than this. */
const RESEND_SECONDS = 10;

/** Modules of a {@link Reconciler}, which owns none of them. */
export interface ReconcilerModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Puts a payment into another batch, unless it is in one already. Without it nothing is sent again. */
  readonly resend?: (payment: PaymentRecord) => void;
}

/** Compares the ledger of one network with its chain, and completes what a crash or a re-organisation left open. */
export class Reconciler {
  readonly #rules: ChainRules;
  readonly #modules: ReconcilerModules;

  constructor(rules: ChainRules, modules: ReconcilerModules) {
    this.#rules = rules;
    this.#modules = modules;
  }

  /**
   * Checks all settled payments whose block was not final when it was checked last. Returns how many lost their block and
   * can be settled again.
   */
  async checkFinality(head: Head, signal: AbortSignal): Promise<number> {
    const { ledger } = this.#modules;
    let open = 0;
    let page = await ledger.unfinalBlocks(this.#rules.network, LIMIT);
    while (page.length > 0) {
      open += await this.#checkBlocks(page, head, signal);
      page = page.length < LIMIT ? [] : await ledger.unfinalBlocks(this.#rules.network, LIMIT, page.at(-1));
    }
    return open;
  }

  /**
   * Resolves payments that no other part brings to an end: those whose batch was mined without settling them, and whatever
   * its mode or its key, each one whose window is closed for good. Batches of keys that no process holds are sent again as
   * they were journaled.
   */
  async resolve(head: Head, signal: AbortSignal): Promise<void> {
    const { chain, ledger, clock, log, metrics } = this.#modules;
    const { network, finalityBlocks } = this.#rules;
    await this.#rebroadcastOrphans(head, signal);
    const final = await blockBelow(chain, head, finalityBlocks, signal);
    const isAhead = final !== undefined && isAheadOf(clock, final, this.#rules);
    if (isAhead)
      log.warn(
        { block: final.number, timeSeconds: final.timeSeconds },
        "block ahead of this machine's clock: no payment ends by it",
      );
    const query = { network, closedBySeconds: isAhead ? 0 : (final?.timeSeconds ?? 0), limit: LIMIT };
    const payments = await ledger.unresolved(query);
    metrics.set(settlementUnresolved, payments.length, { network });
    await this.#each(payments, (payment) => this.#resolveOne(payment, head, signal));
  }

  /** Released, failed and disputed payments whose window is closed for good: were they paid after all? */
  async sweep(head: Head, signal: AbortSignal): Promise<void> {
    const { chain, ledger, clock } = this.#modules;
    const { network, finalityBlocks, confirmations } = this.#rules;
    const final = await blockBelow(chain, head, finalityBlocks, signal);
    const deep = await blockBelow(chain, head, confirmations - 1, signal);
    if (final === undefined || deep === undefined) return;
    if (isAheadOf(clock, final, this.#rules) || isAheadOf(clock, deep, this.#rules)) return;
    const payments = await ledger.unswept(network, final.timeSeconds, LIMIT);
    const results = await this.#each(payments, (payment) => this.#sweepOne(payment, { deep, final }, signal));
    const ids = [...results].filter(([, done]) => done).map(([id]) => id);
    if (ids.length > 0) await ledger.swept(ids);
  }

  /** Marks blocks that are final now, and checks the payments of those that are gone. Returns how many can be settled again. */
  async #checkBlocks(blocks: readonly BlockName[], head: Head, signal: AbortSignal): Promise<number> {
    const { chain, ledger } = this.#modules;
    const { network, finalityBlocks } = this.#rules;
    const numbers = [...new Set(blocks.map(({ blockNumber }) => blockNumber))];
    const hashes = await chain.blockHashes(numbers, signal);
    const now = new Map(numbers.map((number, at) => [number, hashes[at]]));
    const kept = (block: BlockName): boolean => now.get(block.blockNumber) === block.blockHash;
    const finalBlock = head.number - BigInt(finalityBlocks);
    const final = blocks.filter((block) => kept(block) && block.blockNumber <= finalBlock);
    if (final.length > 0) await ledger.finalise(network, final);
    let open = 0;
    for (const block of blocks) {
      if (kept(block)) continue;
      const payments = await ledger.unfinalIn(network, block, LIMIT);
      const results = await this.#each(payments, (payment) => this.#checkReorganised(payment, head, signal));
      open += [...results.values()].filter(Boolean).length;
    }
    return open;
  }

  /** Checks a settled payment whose block is gone. True when it is to be settled again. */
  async #checkReorganised(payment: PaymentRecord, head: Head, signal: AbortSignal): Promise<boolean> {
    const { chain, resolver } = this.#modules;
    const evidence = payment.evidence;
    if (evidence === undefined) return false;
    const mined = await chain.mined(evidence.transaction, signal);
    if (mined !== undefined) {
      if (mined.blockHash === evidence.blockHash) return false;
      const [canonical] = await chain.blockHashes([mined.blockNumber], signal);
      if (canonical !== mined.blockHash) return false;
      const moved = evidenceIn(mined, payment);
      if (moved !== undefined) {
        await resolver.reorganise(payment);
        await resolver.settle(payment, moved);
        return false;
      }
    }
    // A node that lags does not have the settlement's block yet.
    if (head.number - BigInt(this.#rules.confirmations) + 1n < evidence.blockNumber) return false;
    const verdict = await resolver.judge(payment, head, signal);
    if (verdict.kind === "unclear" || verdict.kind === "spent" || verdict.kind === "closed") return false;
    if (verdict.kind === "failed") {
      await resolver.fail(payment, verdict.reason);
      return false;
    }
    await resolver.reorganise(payment);
    if (verdict.kind === "open") return true;
    await resolver.settle(payment, verdict.evidence);
    return false;
  }

  async #resolveOne(payment: PaymentRecord, head: Head, signal: AbortSignal): Promise<void> {
    const { resolver, resend } = this.#modules;
    const verdict = await resolver.judge(payment, head, signal);
    if (verdict.kind === "settled") return resolver.settle(payment, verdict.evidence);
    if (verdict.kind === "failed") return resolver.fail(payment, verdict.reason);
    if (verdict.kind !== "open" || !verdict.funded || payment.state !== "signed") return;
    if (BigInt(head.timeSeconds + RESEND_SECONDS) < payment.validBefore) resend?.(payment);
  }

  /** True when the payment need not be looked at again. */
  async #sweepOne(
    payment: PaymentRecord,
    { deep, final }: { readonly deep: Head; readonly final: Head },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { chain, ledger, resolver, clock, log, metrics } = this.#modules;
    const { network, finalityBlocks, blockTimeSeconds, maxLogBlocks = 1_000 } = this.#rules;
    // A payment that one look ended wrongly must not be looked at by the same pass for the last time.
    const finalAtMs = payment.updatedAtMs + finalityBlocks * blockTimeSeconds * 1_000;
    if (payment.state !== "released" && clock.nowMs() < finalAtMs) return false;
    const { used } = await chain.authorization(payment.key, deep, signal);
    if (!used) return true;
    const found = await findUse(chain, payment, deep, maxLogBlocks, signal);
    if (found.kind === "unseen") {
      if (BigInt(final.timeSeconds - UNSEEN_SECONDS) < payment.validBefore) return false;
      await ledger.swept([payment.id], true);
      return true;
    }
    if (found.kind === "unpaid") return true;
    // The payer paid. Its answer was sent, or is kept and can be sent; else it is owed.
    const served =
      payment.state === "disputed" || (payment.state === "failed" && (await ledger.answer(payment.id)) !== undefined);
    if (served) await resolver.settle(payment, found.evidence);
    else {
      await ledger.owed(payment.id, found.evidence);
      metrics.count(settlementsTotal, { network, outcome: "owed" });
      log.error({ settlementId: payment.id }, "a payer paid on the chain without an answer: it is owed");
    }
    return true;
  }

  /** Closes batches of keys that no process holds when they are mined, and sends the others again. */
  async #rebroadcastOrphans(head: Head, signal: AbortSignal): Promise<void> {
    const { chain, ledger, log } = this.#modules;
    const batches = await ledger.orphanBatches(this.#rules.network, ORPHAN_LIMIT);
    if (batches.length === 0) return;
    const hashes = batches.flatMap(({ transactions }) => transactions.map(({ hash }) => hash));
    const view = await chain.poll(hashes, [], signal);
    for (const { id, relayer, nonce, transactions } of batches) {
      const mined = transactions.map(({ hash }) => view.mined.get(hash)).find((found) => found !== undefined);
      const last = transactions.at(-1);
      if (mined !== undefined) {
        if (head.number - mined.blockNumber + 1n >= BigInt(this.#rules.confirmations)) {
          await ledger.closeBatch(id, mined.transaction);
        }
      } else if (last !== undefined) {
        const { kind } = await chain.send(last.raw, signal);
        log.warn({ relayer, nonce, answer: kind }, "sent a settlement of a key that no process holds");
      }
    }
  }

  /** Some at once; one that fails is logged, left out of the results, and looked at again by the next pass. */
  async #each<T>(
    payments: readonly PaymentRecord[],
    work: (payment: PaymentRecord) => Promise<T>,
  ): Promise<ReadonlyMap<SettlementId, T>> {
    const done = new Map<SettlementId, T>();
    const one = async (payment: PaymentRecord): Promise<void> => {
      try {
        done.set(payment.id, await work(payment));
      } catch (error) {
        const code = isAppError(error) ? error.code : "unknown";
        this.#modules.log.warn({ settlementId: payment.id, code }, "look again later");
      }
    };
    for (let at = 0; at < payments.length; at += AT_ONCE) await Promise.all(payments.slice(at, at + AT_ONCE).map(one));
    return done;
  }
}
