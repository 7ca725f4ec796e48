import { AppError, type ErrorCode, type SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { Evidence, PaymentState } from "../types.ts";
import { ledgerPrunedTotal } from "./metrics.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

const ANSWER_PAGE = 500;
const PRUNE_PAGE = 500;
const MAX_BIGINT = 2n ** 63n - 1n;

interface BlockRow {
  readonly block_number: string;
  readonly block_hash: `0x${string}`;
}

/** What becomes of payments on the chain, and the lists that are worked through until nothing can change any more. */
export function createOutcomes(
  parts: LedgerParts,
): Pick<
  Ledger,
  | "settled"
  | "settledAll"
  | "failed"
  | "reorganised"
  | "disputed"
  | "owed"
  | "submitted"
  | "unresolved"
  | "unfinalBlocks"
  | "unfinalIn"
  | "finalise"
  | "unswept"
  | "swept"
  | "unknownTransfers"
  | "beginScan"
  | "moveCursor"
  | "expireAnswers"
  | "pruneReleased"
> {
  const { database, statements, faults, metrics, answerRetentionMs, releasedRetentionMs } = parts;

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
        evidence?.logIndex ?? null,
        answerRetentionMs,
      ]);
      known(method, id, rows);
    });

  return {
    settled: (id, evidence) => conclude("settled", "settled", id, undefined, evidence),
    settledAll: (items) =>
      committing(faults, "settled", async () => {
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
      }),
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

    async unresolved({ network, closedBySeconds, limit }) {
      const values = [network, Math.floor(closedBySeconds), limit];
      return (await database.run<PaymentRow>(statements.unresolved, values)).map(rowToRecord);
    },

    async unfinalBlocks(network, limit, before) {
      const values = [network, (before?.blockNumber ?? MAX_BIGINT).toString(), before?.blockHash ?? "", limit];
      const rows = await database.run<BlockRow>(statements.unfinalBlocks, values);
      return rows.map(({ block_number, block_hash }) => ({ blockNumber: BigInt(block_number), blockHash: block_hash }));
    },

    async unfinalIn(network, { blockNumber, blockHash }, limit) {
      const values = [network, blockNumber.toString(), blockHash, limit];
      return (await database.run<PaymentRow>(statements.unfinalIn, values)).map(rowToRecord);
    },

    finalise: (network, blocks) =>
      committing(faults, "finalise", async () => {
        await database.run(statements.finalise, [
          network,
          blocks.map(({ blockNumber }) => blockNumber.toString()),
          blocks.map(({ blockHash }) => blockHash),
        ]);
      }),

    async unswept(network, chainTimeSeconds, limit) {
      const values = [network, Math.floor(chainTimeSeconds), limit];
      return (await database.run<PaymentRow>(statements.unswept, values)).map(rowToRecord);
    },

    swept: (ids, isKept = false) =>
      committing(faults, "swept", async () => {
        await database.run(statements.swept, [ids, isKept]);
      }),

    async unknownTransfers(network, places) {
      const values = [network, places.map(({ blockHash }) => blockHash), places.map(({ logIndex }) => logIndex)];
      const rows = await database.run<{ place: number }>(statements.unknownTransfers, values);
      return rows.flatMap(({ place }) => places[place - 1] ?? []);
    },

    beginScan: ({ network, node, receivers }, pauseMs) =>
      committing(faults, "beginScan", async () => {
        const [row] = await database.run<CursorRow>(statements.beginScan, [network, node, receivers, pauseMs]);
        // None: another process makes the row at this moment.
        return {
          isDue: row?.is_due === true,
          scannedTo: readBlock(row?.scanned_to),
          finalBlock: readBlock(row?.final_block),
        };
      }),

    moveCursor: ({ network, node, receivers }, was, { scannedTo, finalBlock }) =>
      committing(faults, "moveCursor", async () => {
        const blocks = [was, scannedTo, finalBlock].map((block) => block?.toString() ?? null);
        const rows = await database.run<{ moved: boolean }>(statements.moveCursor, [
          network,
          node,
          receivers,
          ...blocks,
        ]);
        return onlyRow(rows, "moveCursor").moved;
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

    pruneReleased: () =>
      committing(faults, "pruneReleased", async () => {
        let total = 0;
        for (;;) {
          const values = [releasedRetentionMs, PRUNE_PAGE];
          const rows = await database.run<{ pruned: string }>(statements.pruneReleased, values);
          const pruned = Number(onlyRow(rows, "pruneReleased").pruned);
          total += pruned;
          if (pruned > 0) metrics.count(ledgerPrunedTotal, {}, pruned);
          if (pruned < PRUNE_PAGE) return total;
        }
      }),
  };
}

interface CursorRow {
  readonly is_due: boolean;
  readonly scanned_to: string | null;
  readonly final_block: string | null;
}

function readBlock(value: string | null | undefined): bigint | undefined {
  return value == null ? undefined : BigInt(value);
}
