import { AppError, type ErrorCode, type SettlementId } from "@turnpike/base";
import type { Evidence, PaymentState } from "../types.ts";
import { ledgerPrunedTotal } from "./metrics.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

const ANSWER_PAGE = 500;
const PRUNE_PAGE = 500;

/** What becomes of payments on the chain, and the deletion of what is past its retention. */
export class Outcomes {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  settled(id: SettlementId, evidence: Evidence): Promise<void> {
    return this.#conclude("settled", id, undefined, evidence);
  }

  settledAll(items: readonly { readonly id: SettlementId; readonly evidence: Evidence }[]): Promise<void> {
    const { database, statements, faults, answerRetentionMs } = this.#parts;
    return committing(faults, "settled", async () => {
      if (items.length === 0) return;
      const rows = await database.run<{ id: SettlementId }>(statements.settleAll, [
        items.map(({ id }) => id),
        items.map(({ evidence }) => evidence.transaction),
        items.map(({ evidence }) => evidence.blockNumber.toString()),
        items.map(({ evidence }) => evidence.blockHash),
        items.map(({ evidence }) => evidence.logIndex),
        answerRetentionMs,
      ]);
      const lost = rows.map(({ id }) => id);
      if (lost.length > 0) throw new AppError("LEDGER_FENCED", { detail: { method: "settled", lost } });
    });
  }

  failed(id: SettlementId, reason: ErrorCode): Promise<void> {
    return this.#conclude("failed", id, reason, undefined);
  }

  disputed(id: SettlementId, reason: ErrorCode): Promise<void> {
    return this.#conclude("disputed", id, reason, undefined);
  }

  owed(id: SettlementId, evidence: Evidence): Promise<void> {
    return this.#conclude("owed", id, undefined, evidence);
  }

  reorganised(id: SettlementId): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "reorganised", async () => {
      assertKnown("reorganised", id, await database.run<{ outcome: string }>(statements.reorganise, [id]));
    });
  }

  expireAnswers(): Promise<number> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "expireAnswers", async () => {
      let total = 0;
      for (;;) {
        const rows = await database.run<{ deleted: string; looked: string }>(statements.expireAnswers, [ANSWER_PAGE]);
        const { deleted, looked } = onlyRow(rows, "expireAnswers");
        total += Number(deleted);
        if (Number(looked) < ANSWER_PAGE) return total;
      }
    });
  }

  pruneReleased(): Promise<number> {
    const { database, statements, faults, metrics, releasedRetentionMs } = this.#parts;
    return committing(faults, "pruneReleased", async () => {
      let total = 0;
      for (;;) {
        const values = [releasedRetentionMs, PRUNE_PAGE];
        const rows = await database.run<{ pruned: string }>(statements.pruneReleased, values);
        const pruned = Number(onlyRow(rows, "pruneReleased").pruned);
        total += pruned;
        if (pruned > 0) metrics.count(ledgerPrunedTotal, {}, pruned);
        if (pruned < PRUNE_PAGE) return total;
      }
    });
  }

  #conclude(
    state: "settled" | "failed" | "disputed" | "owed",
    id: SettlementId,
    reason: ErrorCode | undefined,
    evidence: Evidence | undefined,
  ): Promise<void> {
    const { database, statements, faults, answerRetentionMs } = this.#parts;
    return committing(faults, state, async () => {
      const rows = await database.run<{ outcome: string }>(statements.conclude, [
        id,
        state satisfies PaymentState,
        reason ?? null,
        evidence?.transaction ?? null,
        evidence?.blockNumber.toString() ?? null,
        evidence?.blockHash ?? null,
        evidence?.logIndex ?? null,
        answerRetentionMs,
      ]);
      assertKnown(state, id, rows);
    });
  }
}

/** @throws AppError LEDGER_FENCED when the ledger does not know the payment. */
function assertKnown(method: string, id: SettlementId, rows: readonly { readonly outcome: string }[]): void {
  if (onlyRow(rows, method).outcome === "unknown") {
    throw new AppError("LEDGER_FENCED", { detail: { method, lost: [id] } });
  }
}
