import {
  cutText,
  ERRORS,
  type ForeignJsonFault,
  ForeignJsonReader,
  hasOneCoding,
  isRecord,
  SUPPLIER_JSON,
  visibleLine,
  visibleText,
} from "@turnpike/base";
import { type GatewayCode, isGatewayCode } from "./gateway-codes.ts";

/** One HTTP answer, with its body where that can be read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; undefined where it cannot be read, or has more values than are parsed. */
  readonly json: unknown;
  /** The JSON as it was sent; undefined where it cannot be read. */
  readonly text: string | undefined;
  /** Reason that the body cannot be read; undefined where it was. `lost`: the connection ended, or its coding is broken. */
  readonly fault: ForeignJsonFault | "lost" | undefined;
}

/** Bounds of an answer: what a gateway may sell at most (`gateway.maxAnswerBytes`), in its envelope. */
const ANSWER_LIMITS = {
  maxBytes: 64 * 1_048_576 + 65_536,
  maxDepth: SUPPLIER_JSON.maxDepth + 4,
  maxValues: SUPPLIER_JSON.maxValues + 100,
} as const;
/** Maximum size of terms and refusals, in bytes after decompression. */
const MAX_REFUSAL_BYTES = 1_048_576;

/** Bounds of answers that are no refusals. */
export interface AnswerLimits {
  /** Maximum size after decompression. */
  readonly maxBytes?: number | undefined;
  /** Maximum number of values of an answer that is parsed. */
  readonly maxParsedValues?: number | undefined;
}

/**
 * Reads an answer. Its head is kept whatever becomes of its body: a receipt counts also when the answer cannot be read.
 * Never rejects.
 */
export async function readAnswer(response: Response, limits: AnswerLimits = {}): Promise<Answer> {
  const { status, headers } = response;
  const { maxBytes = ANSWER_LIMITS.maxBytes, maxParsedValues } = limits;
  const head = { status, headers, json: undefined, text: undefined };
  if (!hasOneCoding(headers)) {
    await response.body?.cancel().catch(() => undefined);
    return { ...head, fault: "lost" };
  }
  const reader = new ForeignJsonReader(
    status < 300
      ? { ...ANSWER_LIMITS, maxBytes, ...(maxParsedValues === undefined ? {} : { maxParsedValues }) }
      : { ...ANSWER_LIMITS, maxBytes: Math.min(maxBytes, MAX_REFUSAL_BYTES) },
  );
  try {
    for await (const part of response.body ?? []) if (!reader.write(part)) break;
  } catch {
    return { ...head, fault: "lost" };
  }
  const read = reader.end();
  return read.ok ? { ...head, json: read.value, text: read.text, fault: undefined } : { ...head, fault: read.fault };
}

const FAULT_TEXTS: Readonly<Record<NonNullable<Answer["fault"]>, string>> = {
  size: "it is larger than what this client reads",
  depth: `it is nested deeper than ${ANSWER_LIMITS.maxDepth} levels`,
  values: `it has more than ${ANSWER_LIMITS.maxValues} values`,
  syntax: "it is not JSON",
  utf8: "it is not UTF-8",
  cut: "it is cut",
  empty: "it is empty",
  lost: "the connection ended before it was whole, or its compression is broken or not accepted",
};

/** The reason that an answer cannot be read, as the end of a sentence. */
export function faultText(fault: NonNullable<Answer["fault"]>): string {
  return FAULT_TEXTS[fault];
}

/** Maximum UTF-16 units of one text of a gateway that are kept. */
const MAX_TEXT_LENGTH = 4_000;
/** A code of ours, or of another maker's gateway. */
const CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

/** A text of a gateway, on one line and bounded; undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  const text = typeof value === "string" ? visibleLine(value, MAX_TEXT_LENGTH) : "";
  return text === "" ? undefined : text;
}

/** The fields of a 422. Nesting that the reader takes can be too deep for the writer. */
function detailText(detail: unknown): string {
  try {
    return cutText(visibleText(JSON.stringify(detail ?? null)), MAX_TEXT_LENGTH);
  } catch {
    return "The details are nested too deeply to be shown.";
  }
}

/**
 * Code and sentence of a refusal. A code that is not a gateway's to say is a part of its sentence: one of the buyer's own would
 * have the buyer's programs speak for the seller.
 */
export function refusalOf(
  answer: Answer,
  hasPayment = true,
): {
  readonly code: GatewayCode | `HTTP_${number}`;
  readonly message: string;
  readonly retryable: boolean;
} {
  const body = isRecord(answer.json) ? answer.json : {};
  if (answer.status === 402) {
    const said = textOf(body.error) ?? ERRORS.PAYMENT_REQUIRED.message;
    // `CODE: sentence` says more than that payment is required
    const [, code = "", message = ""] = /^([A-Z][A-Z0-9_]+): (.+)$/s.exec(said) ?? [];
    if (isGatewayCode(code, hasPayment)) return { code, message, retryable: false };
    return { code: "PAYMENT_REQUIRED", message: said, retryable: false };
  }
  if (answer.status === 422) {
    return { code: "VALIDATION_FAILED", message: detailText(body.detail), retryable: false };
  }
  const said = typeof body.code === "string" && CODE.test(body.code) ? body.code : undefined;
  const message = textOf(body.message) ?? `The gateway answered ${answer.status}.`;
  // Without a code it is a proxy in between that speaks: the gateway may have the payment nevertheless.
  const retryable = said === undefined ? answer.status >= 500 : body.retryable === true;
  if (said !== undefined && isGatewayCode(said, hasPayment)) return { code: said, message, retryable };
  return {
    code: `HTTP_${answer.status}`,
    message: said === undefined ? message : `${said}: ${message}`,
    retryable,
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

/** True for a status of success. */
export function isServed(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Statuses of success without a body (RFC 9110, 15.3.5 and 15.3.6). */
const BODILESS: ReadonlySet<number> = new Set([204, 205]);

/** True for an answer of success whose body cannot be read: the stored one may be whole. */
export function isUnreadable({ status, fault }: Answer): boolean {
  if (!isServed(status) || fault === undefined) return false;
  return !(fault === "empty" && BODILESS.has(status));
}

/** Faults that are of the stored answer itself: it is the same each time. */
const STORED_FAULTS: ReadonlySet<Answer["fault"]> = new Set(["size", "depth", "values"]);

/** True where the same payment may get a body that can be read: what broke this one may be in between. */
export function mayBecomeReadable(answer: Answer): boolean {
  return isUnreadable(answer) && !STORED_FAULTS.has(answer.fault);
}

/** True when the outcome of a signed request is still open. */
export function isOpen(answer: Answer): boolean {
  if (answer.status < 429) return false;
  const { code, retryable } = refusalOf(answer);
  return retryable && !UNCHARGED.has(code);
}

/** Minimum time between two presentations of a payment, whatever a gateway says. */
const MIN_WAIT_MS = 500;

/** Time to wait before sending again: `Retry-After`, else growing from half a second to five. */
export function waitMs(answer: Answer | undefined, attempt: number): number {
  const seconds = Number(answer?.headers.get("retry-after") ?? Number.NaN);
  if (Number.isFinite(seconds) && seconds >= 0) return Math.max(MIN_WAIT_MS, Math.min(seconds, 30) * 1_000);
  return Math.min(5_000, 500 * 2 ** attempt);
}
