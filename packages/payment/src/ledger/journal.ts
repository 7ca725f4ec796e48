import { type Address, AppError, type NetworkId, type SettlementId } from "@turnpike/base";
import type { BatchRecord, JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { StoredAnswer } from "../types.ts";
import type { SqlValue } from "./database.ts";
import { leaseValues } from "./leases.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type BatchPaymentRow, type BatchRow, rowToRecord } from "./rows.ts";

interface JournalRow {
  readonly outcome: "journaled" | "lease" | "nonce" | "lost";
  readonly batch_id: string;
  readonly lost: readonly string[] | null;
  readonly next_nonce: string | null;
}

// More open nonces than any node's mempool takes from one account; the rest come when these are mined.
const OPEN_BATCH_LIMIT = 256;

function fenced(method: string, detail: Readonly<Record<string, unknown>>): AppError {
  return new AppError("LEDGER_FENCED", { detail: { method, ...detail } });
}

function transactionValues({ hash, raw, maxFeePerGas, maxPriorityFeePerGas }: JournaledTransaction): SqlValue[] {
  return [hash, raw, maxFeePerGas.toString(), maxPriorityFeePerGas.toString()];
}

/** What is written before a transaction or a submission is sent, and the batches that are not mined. */
export class Journal {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  journal(batch: Parameters<Ledger["journal"]>[0]): Promise<{ readonly batchId: bigint }> {
    const { database, statements, holder, faults, answerRetentionMs } = this.#parts;
    const { lease, nonce, gasLimit, transaction, items } = batch;
    return committing(faults, "journal", async () => {
      const ids = items.map((item) => item.id);
      if (new Set(ids).size !== ids.length) {
        throw new AppError("INTERNAL", { detail: { method: "journal", what: "a payment is in the batch twice" } });
      }
      const rows = await database.run<JournalRow>(statements.journal, [
        ...leaseValues(holder, lease),
        nonce,
        gasLimit.toString(),
        ...transactionValues(transaction),
        ids,
        items.map((item) => item.answer.contentType),
        items.map((item) => item.answer.body.length),
        Buffer.concat(items.map((item) => item.answer.body)),
        answerRetentionMs,
      ]);
      const row = onlyRow(rows, "journal");
      if (row.outcome === "journaled") return { batchId: BigInt(row.batch_id) };
      throw fenced("journal", {
        lost: (row.lost ?? []) as readonly SettlementId[],
        lease: row.outcome === "lease",
        ...(row.next_nonce === null ? {} : { nextNonce: Number(row.next_nonce) }),
      });
    });
  }

  journalReplacement(lease: RelayerLease, batchId: bigint, transaction: JournaledTransaction): Promise<void> {
    const { database, statements, holder, faults } = this.#parts;
    return committing(faults, "journalReplacement", async () => {
      const values = [
        ...leaseValues(holder, lease),
        batchId.toString(),
        ...transactionValues(transaction),
        transaction.cancels,
      ];
      const rows = await database.run<{ outcome: string }>(statements.journalReplacement, values);
      const { outcome } = onlyRow(rows, "journalReplacement");
      if (outcome !== "journaled") throw fenced("journalReplacement", { lease: outcome === "lease", lost: [] });
    });
  }

  journalSubmission(id: SettlementId, answer: StoredAnswer): Promise<void> {
    const { database, statements, holder, faults, answerRetentionMs } = this.#parts;
    return committing(faults, "journalSubmission", async () => {
      const values = [holder.current(), id, answer.contentType, answer.body, answerRetentionMs];
      const rows = await database.run<{ submitted: boolean }>(statements.journalSubmission, values);
      if (!onlyRow(rows, "journalSubmission").submitted) throw fenced("journalSubmission", { lost: [id] });
    });
  }

  closeBatch(batchId: bigint, hash: `0x${string}`): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "closeBatch", async () => {
      await database.run(statements.closeBatch, [batchId.toString(), hash]);
    });
  }

  async openBatches(network: NetworkId, relayer: Address): Promise<readonly BatchRecord[]> {
    const { database, statements, holder } = this.#parts;
    const values = [network, relayer.toLowerCase(), OPEN_BATCH_LIMIT, holder.current()];
    const rows = await database.run<BatchRow>(statements.openBatches, values);
    return rows.length === 0 ? [] : await this.#batchRecords(network, relayer, rows);
  }

  async orphanBatches(network: NetworkId, limit: number): Promise<readonly BatchRecord[]> {
    const { database, statements } = this.#parts;
    const rows = await database.run<BatchRow>(statements.orphanBatches, [network, limit]);
    return rows.length === 0 ? [] : await this.#batchRecords(network, undefined, rows);
  }

  async #batchRecords(
    network: NetworkId,
    relayer: Address | undefined,
    rows: readonly BatchRow[],
  ): Promise<readonly BatchRecord[]> {
    const { database, statements } = this.#parts;
    const byBatch = Map.groupBy(rows, (row) => row.id);
    const payments = Map.groupBy(
      await database.run<BatchPaymentRow>(statements.openBatchPayments, [[...byBatch.keys()]]),
      (row) => row.batch,
    );
    return [...byBatch].map(([id, transactions]): BatchRecord => {
      const first = onlyRow(transactions, "openBatches");
      return {
        id: BigInt(id),
        network,
        relayer: relayer ?? (first.relayer as Address),
        nonce: Number(first.nonce),
        gasLimit: BigInt(first.gas_limit),
        transactions: transactions.map((row) => ({
          hash: row.hash as `0x${string}`,
          raw: row.raw,
          maxFeePerGas: BigInt(row.max_fee_per_gas),
          maxPriorityFeePerGas: BigInt(row.max_priority_fee_per_gas),
          cancels: row.cancels,
        })),
        payments: (payments.get(id) ?? []).map(rowToRecord),
        createdAtMs: first.created_ms,
        state: "open",
        cancelRequested: first.cancel_requested,
        reopened: first.reopened,
      };
    });
  }
}
