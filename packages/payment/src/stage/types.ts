import type { ErrorCode, SettlementId } from "@turnpike/base";
import type { PaidRequest, ParsedRequest, Relayed } from "@turnpike/protocol";
import type { Outcome, PaymentOption, PaymentRefusal, PresentedPayment, StoredAnswer } from "../types.ts";

/** What a presented payment leads to. */
export type Admission =
  /** Claimed: go to the upstream, then call `settle` or `release`, exactly once. */
  | { readonly kind: "paid"; readonly paid: PaidRequest }
  /** A copy of an earlier payment for the same request: its outcome, without another run. */
  | { readonly kind: "outcome"; readonly outcome: Outcome }
  | ({ readonly kind: "refused" } & PaymentRefusal);

/** What is known of a payment that was presented before: never a claim. */
export type EarlierAdmission = Exclude<Admission, { readonly kind: "paid" }>;

/** What `GET /settlements/{id}` shows: never the answer's body. */
export interface SettlementStatus {
  readonly id: SettlementId;
  readonly status: "in_progress" | "pending" | "settled" | "failed" | "released" | "owed" | "disputed";
  readonly network: string;
  readonly asset: string;
  readonly payer: string;
  readonly payTo: string;
  readonly amount: string;
  readonly transaction: string | undefined;
  readonly reason: ErrorCode | undefined;
  /** True while the answer is handed out for the payment's bytes, also to a payment without an answer key. */
  readonly answerAvailable: boolean;
  /** True while the answer is stored: a payment with an answer key, or with a payment identifier, gets it. */
  readonly answerStored: boolean;
}

/** What a payment is presented for. */
export interface Offer {
  /** The options that this route offers. */
  readonly options: readonly PaymentOption[];
  /** Why no supplier could answer the call: then nothing is claimed for it. Undefined when one could. */
  readonly refusal: () => PaymentRefusal | undefined;
  /** Client that it is offered to, as limits count clients. */
  readonly client?: string;
}

/** The payment stage: header to claim, checked answer to settlement. */
export interface PaymentStage extends AsyncDisposable {
  /** Strict base64, JSON and schema of a PAYMENT-SIGNATURE header; refusal is PAYMENT_MALFORMED (400). */
  decode(header: string): { readonly ok: true; readonly payment: PresentedPayment } | PaymentRefusal;
  /** Matches an offered option, verifies, claims. */
  admit(request: ParsedRequest, payment: PresentedPayment, offer: Offer, signal: AbortSignal): Promise<Admission>;
  /**
   * How a payment stands that was claimed for this very request before, by a byte-equal payload, or by another payment of the
   * same payer with the same payment identifier; undefined when it was not, whatever else is known of it. For a request that is
   * not, or no longer, sold: nothing is claimed or settled, and only a payment that has an identifier and was not claimed itself
   * is verified. A refusal says that this cannot be looked up now (LEDGER_UNAVAILABLE, PAYMENT_IN_PROGRESS). Rejects with codes
   * of status 503 as `admit` does.
   */
  earlierOutcome(
    requestHash: Uint8Array,
    payment: PresentedPayment,
    signal: AbortSignal,
  ): Promise<EarlierAdmission | undefined>;
  /** Commits and settles; `answer` is the whole HTTP body that is sold. */
  settle(paid: PaidRequest, relayed: Relayed, answer: StoredAnswer): Promise<Outcome>;
  /** Gives the claim up: the upstream failed, nothing is charged. */
  release(paid: PaidRequest, reason: ErrorCode): Promise<Outcome>;
  status(id: SettlementId): Promise<SettlementStatus | undefined>;
  /** What is missing before payments can be taken; empty when ready. */
  missing(): readonly string[];
}
