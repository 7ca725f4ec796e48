import { type ErrorCode, errorRow, failureCode, type SettlementId } from "@turnpike/base";
import { pause } from "../engine/waiters.ts";
import { settledBy, standingOf } from "../record.ts";
import type { Settler } from "../settler.ts";
import type { Evidence, Outcome, PaymentRecord, StoredAnswer } from "../types.ts";
import type { PaymentStageOptions, StageParts } from "./options.ts";
import { outcomeOf, pendingOutcome, refusalCode } from "./outcome.ts";
import type { OutcomeResolver } from "./resolve.ts";

const FIRST_RELEASE_PAUSE_MS = 200;
const LONGEST_RELEASE_PAUSE_MS = 5_000;

/** The step that settles a claim by its answer, or releases it. What comes of either is a claim's outcome. */
export class SettleStep implements AsyncDisposable {
  readonly #opts: PaymentStageOptions;
  readonly #parts: StageParts & { readonly resolver: OutcomeResolver };
  readonly #releasing = new Set<Promise<void>>();

  constructor(opts: PaymentStageOptions, parts: StageParts & { readonly resolver: OutcomeResolver }) {
    this.#opts = opts;
    this.#parts = parts;
  }

  /** Commits the answer and settles. A claim whose answer was not committed is released. */
  async settle(record: PaymentRecord, settler: Settler, answer: StoredAnswer): Promise<Outcome> {
    const { faults, log, resolver } = this.#parts;
    await faults.reach("stage.settle.before");
    let evidence: Evidence | undefined;
    try {
      evidence = await settler.settle(record, answer, resolver.waitLimit());
    } catch (error) {
      const code = refusalCode(error);
      log.warn({ settlementId: record.id, code }, "a settlement was not committed");
      const isPayers = errorRow(code).http === 402;
      return this.release(record, isPayers ? code : "SETTLEMENT_UNAVAILABLE");
    }
    await faults.reach("stage.settle.after");
    return this.#conclude(record, evidence, answer);
  }

  /** The outcome of what was settled by this evidence, or of what the ledger says where there is none. */
  async #conclude(record: PaymentRecord, evidence: Evidence | undefined, answer: StoredAnswer): Promise<Outcome> {
    const { ledger, log, resolver } = this.#parts;
    try {
      const now = evidence === undefined ? await standingOf(ledger, record) : settledBy(record, evidence);
      // A newer claim has an answer of its own: ours was not committed, and is not what was sold.
      if (now.id !== record.id) return await resolver.resolve(now);
      // Not committed when its time was up. A commit that still comes is refused, or was first: then nothing is released.
      if (now.state === "claimed") return await this.release(record, "SETTLEMENT_UNAVAILABLE");
      return resolver.reporting(outcomeOf(now, now.state === "settled" ? answer : undefined, this.#opts));
    } catch (error) {
      log.warn({ settlementId: record.id, code: refusalCode(error) }, "the ledger could not say how a payment stands");
      // Where nothing was committed the claim must not stay; what was committed is not released by this.
      this.#releaseLater(record.id, "SETTLEMENT_UNAVAILABLE");
      return resolver.reporting(pendingOutcome(record, this.#opts));
    }
  }

  /** Gives a claim up: nothing is charged for it, unless the ledger has it as committed. */
  async release(record: PaymentRecord, reason: ErrorCode): Promise<Outcome> {
    const { ledger, log, resolver } = this.#parts;
    try {
      if (await ledger.release(record.id, reason)) return { kind: "released", code: reason };
      // Not ours any more: released as an orphan, or committed although its settler thought otherwise.
      const now = await standingOf(ledger, record);
      return now.state === "released" ? { kind: "released", code: now.reason ?? reason } : await resolver.resolve(now);
    } catch (error) {
      log.warn({ settlementId: record.id, code: refusalCode(error) }, "a claim could not be released yet");
      this.#releaseLater(record.id, reason);
      return pendingOutcome(record, this.#opts);
    }
  }

  /** Tries until the ledger has released it: a claim that stays would block its payer's retries. */
  #releaseLater(id: SettlementId, reason: ErrorCode): void {
    const releasing = this.#releaseAgain(id, reason);
    this.#releasing.add(releasing);
    void releasing.finally(() => this.#releasing.delete(releasing));
  }

  async #releaseAgain(id: SettlementId, reason: ErrorCode): Promise<void> {
    const { ledger, log, stopping } = this.#parts;
    let pauseMs = FIRST_RELEASE_PAUSE_MS;
    while (!stopping.aborted) {
      await pause(pauseMs, stopping);
      pauseMs = Math.min(pauseMs * 2, LONGEST_RELEASE_PAUSE_MS);
      try {
        await ledger.release(id, reason);
        return;
      } catch (error) {
        log.warn({ code: failureCode(error) }, "a release waits for the ledger");
      }
    }
  }

  /** Waits for releases that are under way; the stage's `stopping` ends them. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#releasing);
  }
}
