import type { ErrorCode } from "@turnpike/base";

/** Codes of the registry with which a gateway may refuse any request. */
const REQUEST_CODES = [
  "MALFORMED_REQUEST",
  "INVALID_JSON",
  "BODY_REQUIRED",
  "BATCH_NOT_SOLD",
  "DUPLICATE_KEY",
  "METHOD_NOT_ALLOWED",
  "INVALID_PARAMS",
  "BAD_PATH",
  "VALIDATION_FAILED",
  "NOT_FOUND",
  "UNKNOWN_SERVICE",
  "HOST_NOT_ALLOWED",
  "ORIGIN_NOT_ALLOWED",
  "VERB_NOT_ALLOWED",
  "BODY_TOO_LARGE",
  "HEADERS_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "REQUEST_TIMEOUT",
  "RATE_LIMITED",
  "SETTLEMENT_UNAVAILABLE",
  "SERVICE_UNAVAILABLE",
  "NO_SUPPLIERS",
  "SUPPLIERS_UNREACHABLE",
  "SUPPLIERS_FAILED",
  "SUPPLIERS_DISAGREE",
  "DEADLINE_EXCEEDED",
  "ANSWER_TOO_LARGE",
  "OVERLOADED",
  "NOT_READY",
  "SHUTTING_DOWN",
  "INTERNAL",
] as const satisfies readonly ErrorCode[];

/** Codes of the registry with which a gateway refuses a payment: where none was sent, it cannot mean them. */
const PAYMENT_CODES = [
  "PAYMENT_REQUIRED",
  "PAYMENT_MALFORMED",
  "PAYMENT_OPTION_UNKNOWN",
  "PAYMENT_RECEIVER_MISMATCH",
  "PAYMENT_VALUE_MISMATCH",
  "PAYMENT_NOT_YET_VALID",
  "PAYMENT_EXPIRED",
  "PAYMENT_SIGNATURE_INVALID",
  "PAYMENT_NONCE_USED",
  "PAYMENT_INSUFFICIENT_FUNDS",
  "PAYMENT_SIMULATION_FAILED",
  "PAYMENT_FACTORY_NOT_ALLOWED",
  "PAYMENT_SETTLEMENT_FAILED",
  "PAYMENT_PAYER_BLOCKED",
  "PAYMENT_RATE_LIMITED",
  "PAYMENT_CONFLICT",
  "PAYMENT_IDENTIFIER_CONFLICT",
  "PAYMENT_IN_PROGRESS",
  "PAYMENT_OWED",
  "PAYMENT_WINDOW_TOO_LONG",
  "SETTLEMENT_PENDING",
  "SETTLEMENT_UNPROFITABLE",
] as const satisfies readonly ErrorCode[];

/** A code of the registry that is a gateway's to say. All others are the buyer's own, or of other programs. */
export type GatewayCode = (typeof REQUEST_CODES)[number] | (typeof PAYMENT_CODES)[number];

const ON_REQUESTS: ReadonlySet<string> = new Set(REQUEST_CODES);
const ON_PAYMENTS: ReadonlySet<string> = new Set(PAYMENT_CODES);

/** True for a code that a gateway may say of a request with a payment, or without one. */
export function isGatewayCode(code: string, hasPayment: boolean): code is GatewayCode {
  return ON_REQUESTS.has(code) || (hasPayment && ON_PAYMENTS.has(code));
}
