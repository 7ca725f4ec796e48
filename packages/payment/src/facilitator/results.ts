import { type Address, type ErrorCode, errorRow, type NetworkId } from "@turnpike/base";
import type { DecodedPayment, PaymentRecord, PaymentRefusal } from "../types.ts";

/** Answer of `POST /verify` (x402 v2 `VerifyResponse`). */
export interface VerifyResponse {
  readonly isValid: boolean;
  readonly invalidReason?: string;
  readonly invalidMessage?: string;
  readonly payer?: Address;
}

/** Answer of `POST /settle` (x402 v2 `SettleResponse`). */
export interface SettleResponse {
  readonly success: boolean;
  /** Empty while there is none. */
  readonly transaction: string;
  readonly network: NetworkId;
  readonly payer?: Address;
  readonly amount?: string;
  readonly errorReason?: string;
  readonly errorMessage?: string;
}

/** Answer of `GET /supported` (x402 v2 `SupportedResponse`). */
export interface SupportedResponse {
  readonly kinds: readonly { readonly x402Version: 2; readonly scheme: "exact"; readonly network: NetworkId }[];
  readonly extensions: readonly string[];
  /** Addresses that send settlements, by CAIP-2 pattern. */
  readonly signers: Readonly<Record<string, readonly Address[]>>;
}

/** An answer with its HTTP status; `error` stands for the error body of that code. */
export type FacilitatorResult<T> =
  | { readonly kind: "answer"; readonly body: T }
  | {
      readonly kind: "error";
      readonly code: ErrorCode;
      readonly message?: string;
      /** When it may be asked again, where that is known. */
      readonly retryAfterSeconds?: number | undefined;
    };

/** `invalidReason` and `errorReason` by our code: the reference facilitator's words, where it has one. */
const REASONS: Partial<Readonly<Record<ErrorCode, string>>> = {
  PAYMENT_MALFORMED: "invalid_payload",
  PAYMENT_OPTION_UNKNOWN: "invalid_payment_requirements",
  PAYMENT_RECEIVER_MISMATCH: "invalid_exact_evm_recipient_mismatch",
  PAYMENT_VALUE_MISMATCH: "invalid_exact_evm_payload_authorization_value_mismatch",
  PAYMENT_NOT_YET_VALID: "invalid_exact_evm_payload_authorization_valid_after",
  PAYMENT_EXPIRED: "invalid_exact_evm_payload_authorization_valid_before",
  PAYMENT_WINDOW_TOO_LONG: "invalid_exact_evm_payload_authorization_valid_before",
  PAYMENT_SIGNATURE_INVALID: "invalid_exact_evm_signature",
  PAYMENT_NONCE_USED: "invalid_exact_evm_nonce_already_used",
  PAYMENT_CONFLICT: "invalid_exact_evm_nonce_already_used",
  PAYMENT_INSUFFICIENT_FUNDS: "invalid_exact_evm_insufficient_balance",
  PAYMENT_SIMULATION_FAILED: "invalid_exact_evm_transaction_simulation_failed",
  PAYMENT_FACTORY_NOT_ALLOWED: "invalid_exact_evm_factory_not_allowed",
  PAYMENT_SETTLEMENT_FAILED: "invalid_exact_evm_transaction_failed",
};

/** The x402 reason for a code. */
export function reasonOf(code: ErrorCode): string {
  return REASONS[code] ?? "unexpected_error";
}

/** A settlement that failed for good. */
export function failedWith(
  { network, payer }: { readonly network: NetworkId; readonly payer: Address },
  code: ErrorCode,
  message?: string,
): FacilitatorResult<SettleResponse> {
  const errorMessage = message ?? errorRow(code).message;
  return {
    kind: "answer",
    body: { success: false, errorReason: reasonOf(code), errorMessage, payer, transaction: "", network },
  };
}

/** True for refusals that are about us. They are errors: as invalid payments, they would make a payer sign again. */
export function isOurFault({ code }: PaymentRefusal): boolean {
  return errorRow(code).http >= 500 || code === "PAYMENT_RATE_LIMITED";
}

/** A refusal as an error, with the time after which to ask again. */
export function refusalError<T>({ code, message, retryAfterSeconds }: PaymentRefusal): FacilitatorResult<T> {
  return { kind: "error", code, retryAfterSeconds, ...(message === undefined ? {} : { message }) };
}

/** The settle result of a payment that is refused. */
export function refusedWith(payment: DecodedPayment, refusal: PaymentRefusal): FacilitatorResult<SettleResponse> {
  return isOurFault(refusal) ? refusalError(refusal) : failedWith(partiesOf(payment), refusal.code, refusal.message);
}

/** The refusal of a payer or client that has no token of the limit of what does not pay. */
export function rateLimited(retryAfterSeconds: number): PaymentRefusal {
  return { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds };
}

/** The settle result that a record of the ledger stands for. */
export function settleResultOf(record: PaymentRecord, payment: DecodedPayment): FacilitatorResult<SettleResponse> {
  const { network } = payment.option;
  const payer = payment.authorization.from;
  const transaction = record.evidence?.transaction ?? record.transaction ?? "";
  switch (record.state) {
    case "settled":
    case "owed":
      return { kind: "answer", body: { success: true, transaction, network, payer, amount: record.value.toString() } };
    case "claimed":
    case "signed":
    case "submitted":
      return {
        kind: "answer",
        body: {
          success: false,
          errorReason: "settlement_pending",
          errorMessage: "The settlement is on its way. Ask again with the same payload.",
          transaction,
          network,
          payer,
        },
      };
    case "released":
      return { kind: "error", code: record.reason ?? "SETTLEMENT_UNAVAILABLE" };
    case "failed":
    case "disputed":
      return failedWith(partiesOf(payment), record.reason ?? "PAYMENT_SETTLEMENT_FAILED");
  }
}

/** Reason with which copies of a payment that is another request's are refused; as the reference's facilitators for other chains say it. */
export const DUPLICATE_REASON = "duplicate_settlement";

/** The settle result of a copy: the payment is, or was, settled for another request. */
export function duplicateOf(record: PaymentRecord, payment: DecodedPayment): FacilitatorResult<SettleResponse> {
  return {
    kind: "answer",
    body: {
      success: false,
      errorReason: DUPLICATE_REASON,
      errorMessage: "This payment is settled for the request that brought it first.",
      transaction: record.evidence?.transaction ?? record.transaction ?? "",
      ...partiesOf(payment),
    },
  };
}

/** True for the result that {@link duplicateOf} makes. */
export function isDuplicate(result: FacilitatorResult<SettleResponse>): boolean {
  return result.kind === "answer" && result.body.errorReason === DUPLICATE_REASON;
}

/** True when the settlement has no result yet: the same payload is to be sent again. */
export function isPending(result: FacilitatorResult<SettleResponse>): boolean {
  return result.kind === "answer" && result.body.errorReason === "settlement_pending";
}

/** The network and the payer that a settle result names. */
export function partiesOf({ option, authorization }: DecodedPayment): { network: NetworkId; payer: Address } {
  return { network: option.network, payer: authorization.from };
}
