import { AppError, type ErrorCode, type SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { Evidence, PaymentState } from "../types.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

const ANSWER_PAGE = 500;

/** What becomes of payments on the chain, and the lists that are worked through until nothing can change any more. */
export function createOutcomes(
  parts: LedgerParts,
): Pick<
  Ledger,
  | "settled"
  | "failed"
  | "reorganised"
  | "disputed"
  | "owed"
  | "submitted"
  | "unfinal"
  | "unswept"
  | "swept"
  | "expireAnswers"
> {
  const { database, statements, faults, answerRetentionMs } = parts;

  const known = (method: string, id: SettlementId, rows: readonly { readonly outcome: string }[]): void => {
    if (onlyRow(rows, method).outcome === "unknown")
      throw new AppError("LEDGER_FENCED", { detail: { method, lost: [id] } });
  };

  const conclude = (
    method: string,
    state: PaymentState,
    id: SettlementId,
    reason: ErrorCode | undefined,
    evidence: Evidence | undefined,
  ): Promise<void> =>
    committing(faults, method, async () => {
      const rows = await database.run<{ outcome: string }>(statements.conclude, [
        id,
        state,
        reason ?? null,
        evidence?.transaction ?? null,
        evidence?.blockNumber.toString() ?? null,
        evidence?.blockHash ?? null,
        answerRetentionMs,
      ]);
      known(method, id, rows);
    });

  return {
    settled: (id, evidence) => conclude("settled", "settled", id, undefined, evidence),
    failed: (id, reason) => conclude("failed", "failed", id, reason, undefined),
    disputed: (id, reason) => conclude("disputed", "disputed", id, reason, undefined),
    owed: (id, evidence) => conclude("owed", "owed", id, undefined, evidence),

    reorganised: (id) =>
      committing(faults, "reorganised", async () => {
        known("reorganised", id, await database.run<{ outcome: string }>(statements.reorganise, [id]));
      }),

    async submitted(network, limit) {
      return (await database.run<PaymentRow>(statements.submitted, [network, limit])).map(rowToRecord);
    },

    async unfinal(network, finalBlock, limit) {
      const values = [network, finalBlock.toString(), limit];
      return (await database.run<PaymentRow>(statements.unfinal, values)).map(rowToRecord);
    },

    async unswept(network, chainTimeSeconds, limit) {
      const values = [network, Math.floor(chainTimeSeconds), limit];
      return (await database.run<PaymentRow>(statements.unswept, values)).map(rowToRecord);
    },

    swept: (ids) =>
      committing(faults, "swept", async () => {
        await database.run(statements.swept, [ids]);
      }),

    expireAnswers: () =>
      committing(faults, "expireAnswers", async () => {
        let total = 0;
        for (;;) {
          const rows = await database.run<{ deleted: string; looked: string }>(statements.expireAnswers, [ANSWER_PAGE]);
          const { deleted, looked } = onlyRow(rows, "expireAnswers");
          total += Number(deleted);
          if (Number(looked) < ANSWER_PAGE) return total;
        }
      }),
  };
}
