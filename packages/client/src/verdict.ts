import {
  type Answer,
  faultText,
  isErrorCode,
  isOpen,
  isUnreadable,
  receiptOf,
  refusalOf,
  UNCHARGED,
} from "./answers.ts";
import { untakeableFromMs } from "./payment-header.ts";
import type { Price, PurchaseReceipt, PurchaseResult, SpendOutcome } from "./types.ts";

/** A signed payment, and what is known of it before an answer. */
export interface Presented {
  readonly payment: string;
  /** Undefined where it was signed earlier. */
  readonly price: Price | undefined;
  /** In US dollars; undefined where it is not known. */
  readonly usd: string | undefined;
  /** True while only this process can have seen it: what refuses it then never took it before. */
  readonly fresh: boolean;
  /** Receipt of success of an earlier try whose answer could not be read. */
  readonly receipt?: PurchaseReceipt | undefined;
}

/**
 * Outcome of a payment that has a receipt and no answer: while it can be taken it stays open, so that the same one is presented again;
 * nothing that the seller says later gives it back.
 */
function outcomeOfUnreadable({ payment }: Presented, nowMs: number): SpendOutcome {
  return untakeableFromMs(payment) <= nowMs ? "charged" : "open";
}

/** What an answer to a payment means for the budget. Where it proves nothing, the payment stays spent. */
function outcomeOf(answer: Answer | undefined, presented: Presented, nowMs: number): SpendOutcome {
  const outcome = outcomeOfAnswer(answer, presented, nowMs);
  const isReturned = outcome === "uncharged" || outcome === "unserved";
  return isReturned && presented.receipt !== undefined ? outcomeOfUnreadable(presented, nowMs) : outcome;
}

function outcomeOfAnswer(answer: Answer | undefined, presented: Presented, nowMs: number): SpendOutcome {
  if (answer === undefined || isOpen(answer)) return "open";
  const { status } = answer;
  const { fresh, payment } = presented;
  if (isUnreadable(answer)) return presented.receipt === undefined ? "open" : outcomeOfUnreadable(presented, nowMs);
  const { code } = refusalOf(answer);
  if (status === 200) return (receiptOf(answer.headers) ?? presented.receipt)?.success === true ? "charged" : "open";
  if (status === 409 || status === 410 || code === "PAYMENT_NONCE_USED") return "charged";
  if (UNCHARGED.has(code)) return "unserved";
  // One that fails in a way of its own may have failed after it took the payment.
  if (fresh) return status >= 400 && status < 500 ? "uncharged" : "open";
  if (status !== 402) return "open";
  // A gateway that names the cause has looked the payment up. Terms alone may come from one that keeps no ledger.
  if (code !== "PAYMENT_REQUIRED" && isErrorCode(code)) return "uncharged";
  return untakeableFromMs(payment) <= nowMs ? "charged" : "open";
}

const NOW_OPEN = "Present the same payment again, never a new one.";

function chargeOf(outcome: SpendOutcome, { payment, usd, receipt }: Presented): string {
  const sum = usd === undefined ? "The payment" : `${usd} USD`;
  if (receipt !== undefined) {
    const charged = `${sum} was charged once, as the receipt states`;
    return outcome === "open"
      ? `${charged}. For its answer: ${NOW_OPEN.toLowerCase()}`
      : `${charged}, and counts as spent.`;
  }
  if (outcome === "open") return `${sum} may have been charged, once. ${NOW_OPEN}`;
  if (outcome === "charged") return `${sum} was charged, or may have been, and counts as spent.`;
  const endMs = untakeableFromMs(payment);
  const after = Number.isFinite(endMs) && endMs < 8.64e15 ? `, after ${new Date(endMs).toISOString()},` : "";
  return `Nothing was charged, as the gateway says. A budget counts the payment as spent until a node of its chain shows${after} that it was not taken.`;
}

/** What came of presenting a payment: for the caller, and for the budget. */
export interface Verdict {
  readonly result: PurchaseResult;
  readonly outcome: SpendOutcome;
}

/** Receipt of success of an answer; undefined where it has none. */
export function successOf(answer: Answer | undefined): PurchaseReceipt | undefined {
  const receipt = answer?.status === 200 ? receiptOf(answer.headers) : undefined;
  return receipt?.success === true ? receipt : undefined;
}

/** Judges an answer to a payment; undefined stands for none. */
export function judge(answer: Answer | undefined, earlier: Presented, nowMs: number): Verdict {
  const presented =
    answer !== undefined && isUnreadable(answer)
      ? { ...earlier, receipt: successOf(answer) ?? earlier.receipt }
      : earlier;
  const { payment, price, usd } = presented;
  const outcome = outcomeOf(answer, presented, nowMs);
  const charge = chargeOf(outcome, presented);
  const facts = { state: outcome, usd, charge, price, payment } as const;
  if (answer === undefined) {
    const message = "The connection was lost and the outcome is unknown; present the same payment again.";
    const said = { code: "SETTLEMENT_PENDING", message, retryable: true, open: true };
    return { outcome, result: { kind: "refused", status: 0, ...said, ...facts, receipt: presented.receipt } };
  }
  const receipt = receiptOf(answer.headers) ?? presented.receipt;
  if (answer.fault !== undefined && isUnreadable(answer)) {
    const paid = presented.receipt === undefined ? "without a receipt of success" : "with a receipt";
    const message = `The gateway answered 200 ${paid}, and the answer cannot be read: ${faultText(answer.fault)}.`;
    const said = { code: "ANSWER_UNREADABLE", message, retryable: outcome === "open", open: outcome === "open" };
    return { outcome, result: { kind: "refused", status: 200, ...said, ...facts, receipt } };
  }
  if (answer.status === 200 && receipt?.success === true) {
    const bought = { state: "charged", usd, price, payment } as const;
    return { outcome, result: { kind: "bought", envelope: answer.json, receipt, ...bought } };
  }
  if (answer.status === 200) {
    const message = "The gateway answered 200 without a receipt of success.";
    const said = { code: "FACILITATOR_MISBEHAVED", message, retryable: true, open: true };
    return { outcome, result: { kind: "refused", status: 200, ...said, ...facts, receipt } };
  }
  const said = { ...refusalOf(answer), open: outcome === "open" };
  return { outcome, result: { kind: "refused", status: answer.status, ...said, ...facts, receipt } };
}

/** The result of a request that was refused without terms. */
export function refusedUnsigned(answer: Answer): PurchaseResult {
  const { message, ...said } = refusalOf(answer);
  return {
    kind: "refused",
    status: answer.status,
    ...said,
    message: `${message.replace(/\.$/, "")}; nothing was signed.`,
    charge: "Nothing was signed.",
    open: false,
    state: "unsigned",
    usd: undefined,
    receipt: undefined,
    price: undefined,
    payment: undefined,
  };
}
