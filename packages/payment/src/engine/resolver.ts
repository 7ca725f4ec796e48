import {
  type Clock,
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
import { blockBelow, findUse, isAheadOf, type UseFound } from "./search.ts";
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
  /** It is unused, and its window is closed; a re-organisation may open it again. */
  | { readonly kind: "closed" }
  /** The chain does not say clearly yet: look again. */
  | { readonly kind: "unclear" };

/** A payment, and what shows that it was paid. */
export interface Settlement {
  readonly payment: PaymentRecord;
  readonly evidence: Evidence;
}

/** Modules of a {@link Resolver}, which owns none of them. */
export interface ResolverModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly waiters: Waiters;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

/** Most uses that are remembered, and for how long in chain time: longer than blocks take to be final. */
const UNPAID_USES = { maxEntries: 10_000, ttlMs: 86_400_000 };

/** Judges the payments of one network by its chain, and writes in the ledger how they ended; the only writer of ends. */
export class Resolver {
  readonly #rules: ChainRules;
  readonly #modules: ResolverModules;
  /** Chain time that a re-organisation may take back. */
  readonly #reachSeconds: bigint;
  readonly #onceSettled = new Set<SettlementId>();
  /** Where authorizations were used without paying: each is looked at until that block is final, and searched for once. */
  readonly #unpaidUses = new BoundedMap<SettlementId, BlockName>(UNPAID_USES);

  constructor(rules: ChainRules, modules: ResolverModules) {
    this.#rules = rules;
    this.#modules = modules;
    this.#reachSeconds = BigInt(Math.ceil(rules.finalityBlocks * rules.blockTimeSeconds));
  }

  /**
   * What the chain says as of the block that `confirmations` make deep enough. Whatever is for good is read at that very
   * block: a node that lags, or answers from another fork, gives no verdict. A payment fails at `finalityBlocks` only: its
   * payer signs anew then, and a re-organisation must not settle it after all. Nor does one end by the time of a block that is
   * ahead of the machine's clock.
   */
  async judge(payment: PaymentRecord, head: Head, signal?: AbortSignal): Promise<Verdict> {
    const { chain, clock } = this.#modules;
    const { confirmations, finalityBlocks, maxLogBlocks = 1_000 } = this.#rules;
    const deep = await blockBelow(chain, head, confirmations - 1, signal);
    if (deep === undefined) return { kind: "unclear" };
    const { used, balance } = await chain.authorization(payment.key, deep, signal);
    if (!used) {
      // EIP-3009: the block's time must be below `validBefore`, and block times never go down. Until then anyone may
      // submit the authorization, whatever became of our own transaction.
      const pastSeconds = BigInt(deep.timeSeconds) - payment.validBefore;
      if (pastSeconds < 0n) return { kind: "open", funded: balance >= payment.value };
      if (isAheadOf(clock, deep, this.#rules)) return { kind: "unclear" };
      return pastSeconds >= this.#reachSeconds ? { kind: "failed", reason: "PAYMENT_EXPIRED" } : { kind: "closed" };
    }
    const final = await blockBelow(chain, head, finalityBlocks, signal);
    const isOver =
      final !== undefined && BigInt(final.timeSeconds) >= payment.validBefore && !isAheadOf(clock, final, this.#rules);
    const use =
      (await this.#remembered(payment, head, signal)) ?? (await findUse(chain, payment, deep, maxLogBlocks, signal));
    if (use.kind === "paid") return { kind: "settled", evidence: use.evidence };
    if (use.kind === "unpaid") {
      this.#unpaidUses.set(payment.id, use.block, head.timeSeconds * 1_000);
      const isFinal = final !== undefined && use.block.blockNumber <= final.number;
      return isFinal || isOver ? { kind: "failed", reason: "PAYMENT_NONCE_USED" } : { kind: "spent" };
    }
    // Nodes that lag have caught up by the time that the window's end is final.
    return isOver ? { kind: "failed", reason: "PAYMENT_NONCE_USED" } : { kind: "unclear" };
  }

  settle(payment: PaymentRecord, evidence: Evidence): Promise<void> {
    return this.settleAll([{ payment, evidence }]);
  }

  /** Settles many in one transaction of the ledger if it can. Throws when some could not be brought to an end. */
  async settleAll(items: readonly Settlement[]): Promise<void> {
    const { ledger, metrics, faults } = this.#modules;
    for (const _ of items) await faults.reach("engine.settled.before");
    try {
      await ledger.settledAll(items.map(({ payment, evidence }) => ({ id: payment.id, evidence })));
      for (const { payment, evidence } of items) this.#ended(payment, evidence);
    } catch (error) {
      // One of them stands in the way of all; or it is not known whether the ledger has them, which it says if asked
      // again. When the ledger does not answer at all, the next look does.
      if (!isAppError(error, "INTERNAL") && !isAppError(error, "LEDGER_FENCED")) throw error;
      await this.#settleEach(items);
    }
    metrics.count(settlementsTotal, { network: this.#rules.network, outcome: "settled" }, items.length);
    for (const _ of items) await faults.reach("engine.settled.after");
  }

  /** Failed; or disputed, when its answer was already sent as settled. */
  async fail(payment: PaymentRecord, reason: ErrorCode): Promise<void> {
    const { ledger, log, metrics } = this.#modules;
    const disputed = payment.evidence !== undefined || this.#onceSettled.has(payment.id);
    await this.#conclude(payment, () =>
      disputed ? ledger.disputed(payment.id, reason) : ledger.failed(payment.id, reason),
    );
    metrics.count(settlementsTotal, { network: this.#rules.network, outcome: disputed ? "disputed" : reason });
    log.warn({ settlementId: payment.id, reason, disputed }, "a payment was not settled");
  }

  /** Records that a payment was settled once, and that its block is gone. */
  async reorganise(payment: PaymentRecord): Promise<void> {
    const { ledger, log, metrics } = this.#modules;
    await ledger.reorganised(payment.id);
    this.#onceSettled.add(payment.id);
    metrics.count(settlementsTotal, { network: this.#rules.network, outcome: "reorganised" });
    log.warn({ settlementId: payment.id }, "the block of a settlement is gone");
  }

  async #remembered(
    payment: PaymentRecord,
    head: Head,
    signal: AbortSignal | undefined,
  ): Promise<UseFound | undefined> {
    const block = this.#unpaidUses.get(payment.id, head.timeSeconds * 1_000);
    if (block === undefined) return undefined;
    const [canonical] = await this.#modules.chain.blockHashes([block.blockNumber], signal);
    return canonical === block.blockHash ? { kind: "unpaid", block } : undefined;
  }

  async #settleEach(items: readonly Settlement[]): Promise<void> {
    const { ledger } = this.#modules;
    const results = await Promise.allSettled(
      items.map(({ payment, evidence }) =>
        this.#conclude(payment, () => ledger.settled(payment.id, evidence), evidence),
      ),
    );
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  /** A payment that another process has brought to its end meanwhile has one: the ledger refuses a second. */
  async #conclude(payment: PaymentRecord, write: () => Promise<void>, evidence?: Evidence): Promise<void> {
    const { ledger, log } = this.#modules;
    try {
      await write();
      this.#ended(payment, evidence);
    } catch (error) {
      if (!isAppError(error, "INTERNAL")) throw error;
      const now = await ledger.get(payment.id);
      if (now === undefined || now.state === "signed" || now.state === "submitted") throw error;
      log.warn({ settlementId: payment.id, state: now.state }, "a payment had come to another end");
      this.#ended(payment, undefined);
    }
  }

  #ended(payment: PaymentRecord, evidence: Evidence | undefined): void {
    this.#onceSettled.delete(payment.id);
    this.#unpaidUses.delete(payment.id);
    this.#modules.waiters.resolved(payment.id, evidence);
  }
}
