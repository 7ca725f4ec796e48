import { type Address, AppError, type NetworkId, type SettlementId } from "@turnpike/base";
import type { BatchRecord, JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { SqlValue } from "./database.ts";
import { leaseName } from "./holder.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type BatchPaymentRow, type BatchRow, rowToRecord } from "./rows.ts";

interface LeaseRow {
  readonly outcome: "leased" | "held" | "fenced";
  readonly epoch: string;
  readonly next_nonce: string;
}

interface JournalRow {
  readonly outcome: "journaled" | "lease" | "nonce" | "lost";
  readonly batch_id: string;
  readonly lost: readonly string[] | null;
  readonly next_nonce: string | null;
}

type Leased = Pick<RelayerLease, "network" | "relayer" | "epoch">;

// More open nonces than any node's mempool takes from one account; the rest come when these are mined.
const OPEN_BATCH_LIMIT = 256;

function fenced(method: string, detail: Readonly<Record<string, unknown>>): AppError {
  return new AppError("LEDGER_FENCED", { detail: { method, ...detail } });
}

function transactionValues({ hash, raw, maxFeePerGas, maxPriorityFeePerGas }: JournaledTransaction): SqlValue[] {
  return [hash, raw, maxFeePerGas.toString(), maxPriorityFeePerGas.toString()];
}

/** Leases of relayer keys, and what is written before a transaction or a submission is sent. */
export function createJournal(
  parts: LedgerParts,
): Pick<
  Ledger,
  | "leaseRelayer"
  | "returnRelayer"
  | "livingHolders"
  | "renewLeases"
  | "journal"
  | "journalReplacement"
  | "journalSubmission"
  | "closeBatch"
  | "openBatches"
  | "orphanBatches"
> {
  const { database, statements, holder, faults, answerRetentionMs } = parts;
  const leases = new Map<string, Leased>();

  const leaseAs = async (name: string, network: NetworkId, relayer: Address, chainNonce: number): Promise<LeaseRow> =>
    onlyRow(
      await database.run<LeaseRow>(statements.leaseRelayer, [name, network, relayer.toLowerCase(), chainNonce]),
      "leaseRelayer",
    );

  const leaseValues = (lease: RelayerLease): SqlValue[] => [
    holder.current(),
    lease.network,
    lease.relayer.toLowerCase(),
    lease.epoch.toString(),
  ];

  const batchRecords = async (
    network: NetworkId,
    relayer: Address | undefined,
    rows: readonly BatchRow[],
  ): Promise<readonly BatchRecord[]> => {
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
  };

  return {
    leaseRelayer: (network, relayer, chainNonce) =>
      committing(faults, "leaseRelayer", async () => {
        const name = holder.current();
        let row = await leaseAs(name, network, relayer, chainNonce);
        if (row.outcome === "fenced") row = await leaseAs(await holder.replace(name), network, relayer, chainNonce);
        if (row.outcome === "fenced") throw fenced("leaseRelayer", {});
        if (row.outcome === "held") return undefined;
        const lease = { network, relayer, epoch: BigInt(row.epoch), nextNonce: Number(row.next_nonce) };
        leases.set(leaseName(network, relayer), lease);
        return lease;
      }),

    returnRelayer: (lease) =>
      committing(faults, "returnRelayer", async () => {
        leases.delete(leaseName(lease.network, lease.relayer));
        await database.run(statements.returnRelayer, leaseValues(lease));
      }),

    async livingHolders() {
      const rows = await database.run<{ living: number }>(statements.livingHolders, []);
      return onlyRow(rows, "livingHolders").living;
    },

    renewLeases: () =>
      committing(faults, "renewLeases", async () => {
        const name = holder.current();
        const granted = await holder.renew();
        if (granted === undefined) await holder.replace(name);
        const lost: { network: NetworkId; relayer: Address }[] = [];
        for (const [key, { network, relayer, epoch }] of leases) {
          if (granted?.get(key) === epoch) continue;
          leases.delete(key);
          lost.push({ network, relayer });
        }
        return lost;
      }),

    journal: ({ lease, nonce, gasLimit, transaction, items }) =>
      committing(faults, "journal", async () => {
        const ids = items.map((item) => item.id);
        if (new Set(ids).size !== ids.length) {
          throw new AppError("INTERNAL", { detail: { method: "journal", what: "a payment is in the batch twice" } });
        }
        const rows = await database.run<JournalRow>(statements.journal, [
          ...leaseValues(lease),
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
      }),

    journalReplacement: (lease, batchId, transaction) =>
      committing(faults, "journalReplacement", async () => {
        const values = [
          ...leaseValues(lease),
          batchId.toString(),
          ...transactionValues(transaction),
          transaction.cancels,
        ];
        const rows = await database.run<{ outcome: string }>(statements.journalReplacement, values);
        const { outcome } = onlyRow(rows, "journalReplacement");
        if (outcome !== "journaled") throw fenced("journalReplacement", { lease: outcome === "lease", lost: [] });
      }),

    journalSubmission: (id, answer) =>
      committing(faults, "journalSubmission", async () => {
        const values = [holder.current(), id, answer.contentType, answer.body, answerRetentionMs];
        const rows = await database.run<{ submitted: boolean }>(statements.journalSubmission, values);
        if (!onlyRow(rows, "journalSubmission").submitted) throw fenced("journalSubmission", { lost: [id] });
      }),

    closeBatch: (batchId, hash) =>
      committing(faults, "closeBatch", async () => {
        await database.run(statements.closeBatch, [batchId.toString(), hash]);
      }),

    async openBatches(network, relayer) {
      const values = [network, relayer.toLowerCase(), OPEN_BATCH_LIMIT, holder.current()];
      const rows = await database.run<BatchRow>(statements.openBatches, values);
      return rows.length === 0 ? [] : await batchRecords(network, relayer, rows);
    },

    async orphanBatches(network, limit) {
      const rows = await database.run<BatchRow>(statements.orphanBatches, [network, limit]);
      return rows.length === 0 ? [] : await batchRecords(network, undefined, rows);
    },
  };
}
