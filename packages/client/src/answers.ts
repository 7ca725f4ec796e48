import { ERRORS, type ErrorCode, isRecord } from "@turnpike/base";
import { decodePaymentResponseHeader } from "@x402/fetch";
import type { PurchaseReceipt } from "./types.ts";

/** One HTTP answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; undefined when it is none. */
  readonly json: unknown;
}

/** Largest answer that is read, in bytes. */
const MAX_ANSWER_BYTES = 64 * 1_048_576;

/** Reads an answer, bounded. */
export async function readAnswer(response: Response): Promise<Answer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > MAX_ANSWER_BYTES) break;
    parts.push(part);
  }
  let json: unknown;
  try {
    json = JSON.parse(Buffer.concat(parts).toString("utf8")) as unknown;
  } catch {
    json = undefined;
  }
  return { status: response.status, headers: response.headers, json };
}

/** Most UTF-16 units of one text of a gateway that are kept. */
const MAX_TEXT_LENGTH = 4_000;

/** Characters that move a terminal's cursor, turn text around or are not seen: a gateway's words must not look like ours. */
const UNSEEN = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;

const bounded = (text: string): string => text.slice(0, MAX_TEXT_LENGTH).toWellFormed().replaceAll(UNSEEN, " ").trim();
function textOf(value: unknown): string | undefined {
  const text = typeof value === "string" ? bounded(value) : "";
  return text === "" ? undefined : text;
}

/** The fields of a 422. Nesting that the reader takes can be too deep for the writer. */
function detailText(detail: unknown): string {
  try {
    return bounded(JSON.stringify(detail ?? null));
  } catch {
    return "The details are nested too deeply to be shown.";
  }
}

/** The receipt of an answer; undefined when there is none that can be read. */
export function receiptOf(headers: Headers): PurchaseReceipt | undefined {
  const header = headers.get("payment-response");
  if (header === null) return undefined;
  let receipt: unknown;
  try {
    receipt = decodePaymentResponseHeader(header);
  } catch {
    return undefined;
  }
  if (!isRecord(receipt)) return undefined;
  const extensions = receipt.extensions;
  const settlement = isRecord(extensions) ? extensions.settlement : undefined;
  return {
    success: receipt.success === true,
    transaction: textOf(receipt.transaction) ?? "",
    network: textOf(receipt.network) ?? "",
    payer: textOf(receipt.payer),
    payTo: textOf(receipt.payTo),
    amount: textOf(receipt.amount),
    asset: textOf(receipt.asset),
    errorReason: textOf(receipt.errorReason),
    settlementId: isRecord(settlement) ? textOf(settlement.id) : undefined,
  };
}

/** True for a code of the product's registry. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

/** Code and sentence of a refusal. */
export function refusalOf(answer: Answer): {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
} {
  const body = isRecord(answer.json) ? answer.json : {};
  if (answer.status === 402) {
    const said = textOf(body.error) ?? ERRORS.PAYMENT_REQUIRED.message;
    // `CODE: sentence` says more than that payment is required
    const [, code = "", message = ""] = /^([A-Z][A-Z0-9_]+): (.+)$/s.exec(said) ?? [];
    if (isErrorCode(code)) return { code, message, retryable: false };
    return { code: "PAYMENT_REQUIRED", message: said, retryable: false };
  }
  if (answer.status === 422) {
    return { code: "VALIDATION_FAILED", message: detailText(body.detail), retryable: false };
  }
  const known = textOf(body.code);
  return {
    code: known ?? `HTTP_${answer.status}`,
    message: textOf(body.message) ?? `The gateway answered ${answer.status}.`,
    // Without a code it is a proxy in between that speaks: the gateway may have the payment all the same.
    retryable: known === undefined ? answer.status >= 500 : body.retryable === true,
  };
}

/** Refusals that say for sure that nothing was charged: sending them again is the buyer's choice. */
export const UNCHARGED: ReadonlySet<string> = new Set([
  "SERVICE_UNAVAILABLE",
  "NO_SUPPLIERS",
  "ANSWER_TOO_LARGE",
  "SETTLEMENT_UNAVAILABLE",
  "SETTLEMENT_UNPROFITABLE",
]);

/** True when the outcome of a signed request is still open. */
export function isOpen(answer: Answer): boolean {
  if (answer.status < 429) return false;
  const { code, retryable } = refusalOf(answer);
  return retryable && !UNCHARGED.has(code);
}

/** Time to wait before sending again: `Retry-After`, else growing from half a second to five. */
export function waitMs(answer: Answer | undefined, attempt: number): number {
  const asked = Number(answer?.headers.get("retry-after") ?? Number.NaN);
  if (Number.isFinite(asked) && asked >= 0) return Math.min(asked, 30) * 1_000;
  return Math.min(5_000, 500 * 2 ** attempt);
}
