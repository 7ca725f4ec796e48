import type { SettlementStatus } from "./stage-types.ts";
import type { PaymentRecord } from "./types.ts";

const STATUS: Readonly<Record<PaymentRecord["state"], SettlementStatus["status"]>> = {
  claimed: "in_progress",
  signed: "pending",
  submitted: "pending",
  settled: "settled",
  failed: "failed",
  released: "released",
  owed: "owed",
  disputed: "disputed",
};

/** What `GET /settlements/{id}` shows of a record. */
export function settlementStatus(record: PaymentRecord, nowMs: number): SettlementStatus {
  return {
    id: record.id,
    status: STATUS[record.state],
    network: record.key.network,
    asset: record.key.asset,
    payer: record.key.from,
    payTo: record.payTo,
    amount: record.value.toString(),
    transaction: record.evidence?.transaction ?? record.transaction,
    reason: record.reason,
    answerAvailable: record.state === "settled" && (record.answerExpiresAtMs ?? 0) > nowMs,
  };
}
