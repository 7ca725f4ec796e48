import { type ErrorCode, errorRow, type RequestId } from "@turnpike/base";
import { encodeReceipt, type Outcome, type Receipt } from "@turnpike/payment";
import { type Answer, errorAnswer, SANDBOX } from "../http/answer.ts";
import type { Sale } from "./pipeline.ts";

/** The 402 of a payment that is refused or has failed, with further headers. */
export type RefusedPayment = (code: ErrorCode, message?: string, headers?: readonly string[]) => Answer;

/** The response that a sale becomes; undefined when its client has left. */
export function saleAnswer(refusedPayment: RefusedPayment, requestId: RequestId, sale: Sale): Answer | undefined {
  switch (sale.kind) {
    case "gone":
      return undefined;
    case "invalid":
      return {
        status: 422,
        result: "VALIDATION_FAILED",
        contentType: "application/json",
        body: JSON.stringify({ detail: sale.detail }),
        headers: ["Cache-Control", "no-store"],
      };
    case "unread":
      return errorAnswer(sale.code, requestId, { close: true, ...retrySoon(sale.code) });
    case "refused":
      return refusedAnswer(refusedPayment, requestId, sale);
    case "outcome":
      return { ...outcomeAnswer(refusedPayment, requestId, sale.outcome), isStored: !sale.isOwn };
  }
}

function refusedAnswer(
  refusedPayment: RefusedPayment,
  requestId: RequestId,
  { code, message, retryAfterSeconds, receipt }: Extract<Sale, { readonly kind: "refused" }>,
): Answer {
  if (errorRow(code).http === 402) {
    return refusedPayment(
      code,
      message,
      retryAfterSeconds === undefined ? [] : ["Retry-After", String(retryAfterSeconds)],
    );
  }
  // The family refuses only a GET where a body is due.
  const allow = code === "VERB_NOT_ALLOWED" ? ["Allow", "POST, OPTIONS"] : [];
  const headers = [...allow, ...(receipt === undefined ? [] : receiptHeader(receipt))];
  return errorAnswer(code, requestId, { message, retryAfterSeconds, headers });
}

function receiptHeader(receipt: Receipt): readonly string[] {
  return ["PAYMENT-RESPONSE", encodeReceipt(receipt)];
}

function outcomeAnswer(refusedPayment: RefusedPayment, requestId: RequestId, outcome: Outcome): Answer {
  if (outcome.kind === "released") {
    // The payment failed before it was settled, and nothing was charged: the cause shows whether the same one can be valid.
    if (errorRow(outcome.code).http === 402) return refusedPayment(outcome.code);
    return errorAnswer(unavailable(outcome.code), requestId, retrySoon(outcome.code));
  }
  const receipt = receiptHeader(outcome.receipt);
  switch (outcome.kind) {
    case "settled":
      return {
        status: 200,
        result: "ok",
        contentType: outcome.answer.contentType,
        body: outcome.answer.body,
        headers: ["Cache-Control", "private", ...SANDBOX, ...receipt],
      };
    case "expired":
      return errorAnswer(outcome.code, requestId, { headers: receipt });
    case "pending": {
      const answer = errorAnswer("SETTLEMENT_PENDING", requestId);
      const headers = ["Cache-Control", "no-store", "Retry-After", String(outcome.retryAfterSeconds), ...receipt];
      return { ...answer, headers };
    }
    case "failed":
      return refusedPayment(failure(outcome.code), undefined, receipt);
  }
}

/** A client that has as much under way as it may have can come back when some of that has ended. */
function retrySoon(code: ErrorCode): { readonly retryAfterSeconds?: number } {
  return code === "PAYMENT_RATE_LIMITED" ? { retryAfterSeconds: 1 } : {};
}

/** A failed call is 503 on a paid route, whatever failed, unless its code says more than the common one. */
function unavailable(code: ErrorCode): ErrorCode {
  const kept: readonly ErrorCode[] = [
    "ANSWER_TOO_LARGE",
    "PAYMENT_RATE_LIMITED",
    "SETTLEMENT_UNAVAILABLE",
    "SHUTTING_DOWN",
  ];
  return kept.includes(code) ? code : "SERVICE_UNAVAILABLE";
}

/** The cause of a settlement that failed, where it is more specific than that. */
function failure(code: ErrorCode): ErrorCode {
  return errorRow(code).http === 402 ? code : "PAYMENT_SETTLEMENT_FAILED";
}
