import { type Answer, isErrorCode, isOpen, receiptOf, refusalOf, UNCHARGED } from "./answers.ts";
import { untakeableFromMs } from "./payment-header.ts";
import type { Price, PurchaseResult, SpendOutcome } from "./types.ts";

/** A signed payment, and what is known of it before an answer. */
export interface Presented {
  readonly payment: string;
  /** Undefined where it was signed earlier. */
  readonly price: Price | undefined;
  /** In US dollars; undefined where it is not known. */
  readonly usd: string | undefined;
  /** True while only this process can have seen it: what refuses it then never took it before. */
  readonly fresh: boolean;
}

/** What an answer to a payment means for the budget. Where it proves nothing, the payment stays spent. */
function outcomeOf(answer: Answer | undefined, { fresh, payment }: Presented, nowMs: number): SpendOutcome {
  if (answer === undefined || isOpen(answer)) return "open";
  const { status } = answer;
  const { code } = refusalOf(answer);
  if (status === 200) return receiptOf(answer.headers)?.success === true ? "charged" : "open";
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

function chargeOf(outcome: SpendOutcome, { payment, usd }: Presented): string {
  const sum = usd === undefined ? "The payment" : `${usd} USD`;
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

/** Judges an answer to a payment; undefined stands for none. */
export function judge(answer: Answer | undefined, presented: Presented, nowMs: number): Verdict {
  const { payment, price } = presented;
  const outcome = outcomeOf(answer, presented, nowMs);
  const charge = chargeOf(outcome, presented);
  if (answer === undefined) {
    const message = "The connection was lost and the outcome is unknown; present the same payment again.";
    const said = { code: "SETTLEMENT_PENDING", message, charge, retryable: true, open: true };
    return { outcome, result: { kind: "refused", status: 0, ...said, receipt: undefined, price, payment } };
  }
  const receipt = receiptOf(answer.headers);
  if (answer.status === 200 && receipt?.success === true) {
    return { outcome, result: { kind: "bought", envelope: answer.json, receipt, price, payment } };
  }
  if (answer.status === 200) {
    const message = "The gateway answered 200 without a receipt of success.";
    const said = { code: "FACILITATOR_MISBEHAVED", message, charge, retryable: true, open: true };
    return { outcome, result: { kind: "refused", status: 200, ...said, receipt, price, payment } };
  }
  const said = { ...refusalOf(answer), charge, open: outcome === "open" };
  return { outcome, result: { kind: "refused", status: answer.status, ...said, receipt, price, payment } };
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
    receipt: undefined,
    price: undefined,
    payment: undefined,
  };
}
