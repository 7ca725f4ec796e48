import type { ErrorCode } from "@turnpike/base";

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
