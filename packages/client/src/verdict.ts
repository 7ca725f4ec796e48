import { type Answer, isErrorCode, isOpen, receiptOf, refusalOf, UNCHARGED } from "./answers.ts";
import { untakeableFromMs } from "./payment-header.ts";
import { receiptFault } from "./receipt-fault.ts";
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
  /** True where the chain showed that it was used. */
  readonly isUsed: boolean;
  /** True where nodes are named, which decide when something new may be signed for its request. */
  readonly hasNodes: boolean;
}

/** Receipt of success that fits the payment; undefined for any other. */
function fittingReceipt({ headers }: Answer, payment: string): PurchaseReceipt | undefined {
  const receipt = receiptOf(headers);
  return receipt?.success === true && receiptFault(receipt, payment) === undefined ? receipt : undefined;
}

/** Outcome of a payment that the gateway says it took, for no answer. Where no node is named, time alone ends it. */
function claimedOutcome({ hasNodes, payment }: Presented, nowMs: number): SpendOutcome {
  return hasNodes || untakeableFromMs(payment) > nowMs ? "claimed" : "charged";
}

/** What an answer to a payment means for the budget. Where it proves nothing, the payment stays spent. */
function outcomeOf(answer: Answer | undefined, presented: Presented, nowMs: number): SpendOutcome {
  if (answer === undefined || isOpen(answer)) return "open";
  const { fresh, payment, isUsed } = presented;
  const { status } = answer;
  const { code } = refusalOf(answer);
  const isPaid = fittingReceipt(answer, payment) !== undefined;
  if (status < 300 && isPaid) return "charged";
  // The chain showed the use, and the gateway had its second chance to answer: the caller is informed, and it is over.
  if (isUsed) return "charged";
  if (status < 300) return "open";
  if (isPaid || status === 409 || status === 410 || code === "PAYMENT_NONCE_USED") {
    return claimedOutcome(presented, nowMs);
  }
  if (UNCHARGED.has(code)) return "unserved";
  // One that fails in a way of its own may have failed after it took the payment.
  if (fresh) return status >= 400 && status < 500 ? "uncharged" : "open";
  if (status !== 402) return "open";
  // A gateway that names the cause has looked the payment up. Terms alone may come from one that keeps no ledger.
  if (code !== "PAYMENT_REQUIRED" && isErrorCode(code)) return "uncharged";
  return untakeableFromMs(payment) <= nowMs ? claimedOutcome(presented, nowMs) : "open";
}

const NOW_OPEN = "Present the same payment again, never a new one.";

/** Condition under which the same call signs anew: all nodes agree, or, where none is named, time alone. */
function untilText({ hasNodes }: Presented, at: string): string {
  const same = "the same call presents this payment again and signs nothing new";
  if (hasNodes) return `Until every node that is named shows that, ${same}.`;
  return at === ""
    ? `No node of the chain is named: ${same}.`
    : `No node of the chain is named, so that time alone decides: before ${at} ${same}.`;
}

function chargeOf(outcome: SpendOutcome, presented: Presented): string {
  const { payment, usd, isUsed } = presented;
  const sum = usd === undefined ? "The payment" : `${usd} USD`;
  if (outcome === "open") return `${sum} may have been charged, once. ${NOW_OPEN}`;
  if (isUsed) return `${sum} was charged, once: the chain shows it, and the gateway gave no answer for it.`;
  if (outcome === "charged" || outcome === "claimed") {
    return `${sum} was charged, or may have been, and counts as spent.`;
  }
  const endMs = untakeableFromMs(payment);
  const at = Number.isFinite(endMs) && endMs < 8.64e15 ? new Date(endMs).toISOString() : "";
  const after = at === "" ? "" : `, after ${at},`;
  return (
    "Nothing was charged, as the gateway says. A budget counts the payment as spent until a node of its chain " +
    `shows${after} that it was not taken. ${untilText(presented, at)}`
  );
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
  if (answer.status < 300) {
    const fault = receipt?.success === true ? receiptFault(receipt, payment) : undefined;
    if (receipt?.success === true && fault === undefined) {
      return { outcome, result: { kind: "bought", envelope: answer.json, receipt, price, payment } };
    }
    const message =
      fault === undefined
        ? `The gateway answered ${answer.status} without a receipt of success.`
        : `The gateway's receipt is not for this payment: ${fault}.`;
    const isOpenStill = outcome === "open";
    const said = { code: "FACILITATOR_MISBEHAVED", message, charge, retryable: isOpenStill, open: isOpenStill };
    return { outcome, result: { kind: "refused", status: answer.status, ...said, receipt, price, payment } };
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
