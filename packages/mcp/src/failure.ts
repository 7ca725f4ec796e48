import type { CallToolResult } from "@modelcontextprotocol/server";
import { ERRORS, type ErrorCode, errorRow, isAppError, type Log, QuotedError, visibleLine } from "@turnpike/base";
import type { PurchaseResult } from "@turnpike/client";
import { withoutPayment } from "./fence.ts";
import { type CallRecord, usdOf } from "./mcp-session.ts";
import { THIRD_PARTY_NOTICE, toolResult } from "./result.ts";

/** Maximum characters of others' words that are passed on with a failure. */
const MAX_QUOTED_CHARACTERS = 600;
const MAX_MESSAGE_CHARACTERS = 1_200;

/** Next step, where the registry's advice is for people at a command line. */
const NEXT: Partial<Record<ErrorCode, string>> = {
  SPEND_CAP:
    "Do not just try again: it is over what one call may cost, over max_price_usd, or over the price that was quoted or " +
    "listed. Get a quote, choose a cheaper call, or tell the user: only the user can raise the budget.",
  BUDGET_SPENT:
    "Stop buying in this session and tell the user: only the user can raise the budget, with --per-session or --total.",
  METHOD_NOT_ALLOWED: "Call describe_service for the operations; only those that it names are sold.",
  INVALID_PARAMS: "Fix the arguments that are named and call the tool again.",
  BAD_PATH: "Send a path of the service itself; describe_service names the operations.",
  UNKNOWN_SERVICE: "Call search_services for the ids.",
  NOT_FOUND: "Call search_services for what is offered, and get_spending for payments that are open.",
  SERVICE_UNAVAILABLE: "Try again later, or take another service: search_services says which answer now.",
  NO_SUPPLIERS: "Try again later, or take another service: search_services says which answer now.",
  GATEWAY_UNREACHABLE: "Try again in a while; if it lasts, tell the user that the gateway cannot be reached.",
  PAYMENT_OPTION_UNKNOWN:
    "This buyer cannot pay here: tell the user, who alone can allow another network, with --network.",
  PAYMENT_INSUFFICIENT_FUNDS: "The buyer's account holds too little: tell the user; get_spending names the account.",
  PAYMENT_IN_PROGRESS:
    "Another call has this purchase: wait for its result, or some seconds, then call again. Do not buy it anew by another request.",
  PAYMENT_OWED: "Do not pay again. Tell the user to ask the gateway's operator, with the payment's id.",
  PAYMENT_CONFLICT:
    "Do not pay again without asking the user: this payment was taken, for another request or with a response that is gone.",
  VALIDATION_FAILED: "Fix the fields that the gateway names and call again.",
};

function nextOf(code: string): string {
  if (!Object.hasOwn(ERRORS, code)) return "Try again later, or tell the user.";
  return NEXT[code as ErrorCode] ?? errorRow(code as ErrorCode).advice;
}

/** Errors after which it is not known whether a signature was made; none was sent. */
const MAY_HAVE_SIGNED: ReadonlySet<string> = new Set<ErrorCode>(["SPEND_JOURNAL", "INTERNAL"]);

/** True for an id of a settlement, and for nothing that could be read as words. */
export function isSettlementId(id: string | undefined): id is string {
  return id !== undefined && /^stl_[A-Za-z0-9_-]{1,40}$/.test(id);
}

/** Sum that may have been charged, in one sentence. */
function chargeText(record: CallRecord | undefined, code: string): string {
  const usd = record?.microUsd === undefined ? "the price" : `${usdOf(record.microUsd)} USD`;
  switch (record?.state) {
    case "charged":
      return `${usd} was charged, once, or may have been (also for another request), and counts as spent.`;
    case "uncharged":
      return "A payment was signed and the gateway refused it: nothing was charged, as it says. It counts as spent until a node of its chain shows, after its end, that it was not taken.";
    case "unserved":
      return "A payment was signed and nothing was charged so far, as the gateway says. The identical request presents the same payment again.";
    case "open":
      return `A payment was signed and its outcome is not known: ${usd} may have been charged, once. It counts as spent.`;
    default:
      return record !== undefined && MAY_HAVE_SIGNED.has(code)
        ? "No payment was sent and nothing was charged."
        : "Nothing was signed and nothing was charged.";
  }
}

/**
 * Next step after a signature. It follows from the payment's state alone: a gateway that could choose it would have
 * itself paid again.
 */
function nextAfterSignature(record: CallRecord): string | undefined {
  switch (record.state) {
    case "open":
      return resumeText(record);
    case "charged":
      return "Do not buy it again. Tell the user that this payment was charged, or may have been, without an answer.";
    case "uncharged":
    case "unserved":
      return (
        "The identical request presents the same payment again, and signs nothing new before that one can no longer be " +
        "taken. A changed request would be a second payment beside it: make one only if your request was wrong, " +
        "and tell the user that it costs the price again."
      );
    default:
      return undefined;
  }
}

function resumeText(record: CallRecord): string {
  return (
    `Do not buy it anew. Call resume_payment with payment_id "${record.paymentId ?? ""}": it presents the same ` +
    "signature again, gets the answer where it was paid, and never signs. Calling with the identical request does the same."
  );
}

/** One failure, for a model and for a program. */
export interface ToolFailure {
  readonly code: string;
  /** The server's own sentence. */
  readonly message: string;
  /** Words of others that explain it. */
  readonly thirdParty?: string | undefined;
  readonly retryable: boolean;
  readonly record?: CallRecord;
  readonly next?: string;
  /** Id of the settlement, where there is one. */
  readonly settlementId?: string;
}

/** The result of a tool that failed: a tool error, never a protocol error, without internals. */
function failureResult(failure: ToolFailure): CallToolResult {
  const { code, record, settlementId } = failure;
  const message = withoutPayment(failure.message, record?.payment);
  const signedNext = record === undefined ? undefined : nextAfterSignature(record);
  const next = signedNext ?? failure.next ?? nextOf(code);
  const isRetryable =
    signedNext === undefined ? failure.retryable : record?.state === "open" || record?.state === "unserved";
  const settled = isSettlementId(settlementId) ? ` The gateway's id of the payment is ${settlementId}.` : "";
  const lines = [`error ${code}: ${message}`, `payment: ${chargeText(record, code)}${settled}`, `next: ${next}`];
  const thirdParty =
    failure.thirdParty === undefined
      ? undefined
      : visibleLine(withoutPayment(failure.thirdParty, record?.payment), MAX_QUOTED_CHARACTERS);
  return toolResult({
    own: lines.join("\n"),
    thirdParty,
    error: {
      code,
      message,
      next,
      retryable: isRetryable,
      payment: {
        state: record?.state ?? "unsigned",
        ...(record?.microUsd === undefined || record.state === "unsigned" ? {} : { usd: usdOf(record.microUsd) }),
        ...(record?.state === "open" && record.paymentId !== undefined ? { payment_id: record.paymentId } : {}),
      },
      ...(thirdParty === undefined ? {} : { third_party: { notice: THIRD_PARTY_NOTICE, text: thirdParty } }),
    },
  });
}

type Refused = Extract<PurchaseResult, { kind: "refused" }>;

/** The result of a call that the gateway refused. Its message is third-party text, and has a code that is not a gateway's to say. */
export function refusalResult(result: Refused, record: CallRecord): CallToolResult {
  const { settlementId } = result.receipt ?? {};
  return failureResult({
    code: result.code,
    message: `The call was refused with status ${result.status}.`,
    thirdParty: result.message,
    retryable: result.retryable,
    record,
    ...(settlementId === undefined ? {} : { settlementId }),
  });
}

/** The result of an error. A fault of ours is reported as such and no more; the log has its kind. */
export function errorResult(error: unknown, record: CallRecord | undefined, log: Log): CallToolResult {
  const more = record === undefined ? {} : { record };
  if (isAppError(error)) {
    const message = visibleLine(error.message, MAX_MESSAGE_CHARACTERS);
    const thirdParty = error instanceof QuotedError ? error.thirdParty : undefined;
    return failureResult({ code: error.code, message, thirdParty, retryable: errorRow(error.code).retryable, ...more });
  }
  const name = error instanceof Error ? error.name : typeof error;
  if (name === "AbortError" || name === "TimeoutError") {
    return failureResult({
      code: "CANCELLED",
      message: "The call was cancelled or took too long.",
      retryable: true,
      next: "Call again.",
      ...more,
    });
  }
  log.error({ kind: name }, "a tool failed");
  return failureResult({ code: "INTERNAL", message: errorRow("INTERNAL").message, retryable: true, ...more });
}
