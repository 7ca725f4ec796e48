import { type ErrorCode, isAppError } from "@turnpike/base";
import type { Outcome, PaymentRecord, Receipt, StoredAnswer } from "../types.ts";
import type { SettlementStatus } from "./types.ts";

interface OutcomeOptions {
  /** `Retry-After` of a pending settlement. */
  readonly retryAfterSeconds: number;
}

const receipt = (record: PaymentRecord, success: boolean, error?: { reason: string; message: string }): Receipt => ({
  success,
  transaction: record.evidence?.transaction ?? record.transaction ?? "",
  network: record.key.network,
  payer: record.key.from,
  ...(error === undefined ? {} : { errorReason: error.reason, errorMessage: error.message }),
  ...(success ? { amount: record.value.toString() } : {}),
  extensions: { settlement: { id: record.id, status: record.state } },
});

/** The outcome of a payment whose settlement is not known yet: never 402, since the payer would pay twice. */
export function pendingOutcome(
  record: PaymentRecord,
  opts: OutcomeOptions,
): Extract<Outcome, { readonly kind: "pending" }> {
  const error = { reason: "settlement_pending", message: "Send the identical request with the same signature again." };
  return {
    kind: "pending",
    receipt: receipt(record, false, error),
    retryAfterSeconds: opts.retryAfterSeconds,
    settlementId: record.id,
  };
}

/** The outcome that a ledger record stands for; `answer` is its stored answer, when it is settled and still kept. */
export function outcomeOf(record: PaymentRecord, answer: StoredAnswer | undefined, opts: OutcomeOptions): Outcome {
  switch (record.state) {
    case "claimed":
    case "signed":
    case "submitted":
      return pendingOutcome(record, opts);
    case "released":
      return { kind: "released", code: record.reason ?? "SERVICE_UNAVAILABLE" };
    case "settled":
      return answer === undefined
        ? { kind: "expired", code: "PAYMENT_CONFLICT", receipt: receipt(record, true), settlementId: record.id }
        : { kind: "settled", receipt: receipt(record, true), answer, settlementId: record.id };
    case "owed":
      return { kind: "expired", code: "PAYMENT_OWED", receipt: receipt(record, true), settlementId: record.id };
    case "failed":
    case "disputed": {
      const code = record.reason ?? "PAYMENT_SETTLEMENT_FAILED";
      const error = { reason: "settlement_failed", message: "Nothing was charged. Sign a new payment." };
      return { kind: "failed", code, receipt: receipt(record, false, error), settlementId: record.id };
    }
  }
}

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
export function settlementStatus(
  record: PaymentRecord,
  answer: { readonly isStored: boolean; readonly isHandedOut: boolean },
): SettlementStatus {
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
    answerAvailable: answer.isHandedOut,
    answerStored: answer.isStored,
  };
}

/** The code that a payment is refused by when this was thrown. */
export function refusalCode(error: unknown): ErrorCode {
  return isAppError(error) ? error.code : "INTERNAL";
}
