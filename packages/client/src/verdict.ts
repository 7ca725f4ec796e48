import { type Answer, faultText, isOpen, isServed, isUnreadable, refusalOf, UNCHARGED } from "./answers.ts";
import { untakeableFromMs } from "./payment-header.ts";
import { readReceipt } from "./receipt.ts";
import type { ClaimedReceipt, Price, PurchaseReceipt, PurchaseResult, SpendOutcome } from "./types.ts";

/** Outcome that an answer shows. */
type JudgedOutcome = Exclude<SpendOutcome, "unacknowledged">;

/** A signed payment, and what is known of it before an answer. */
export interface Presented {
  readonly payment: string;
  /** Undefined where it was signed earlier. */
  readonly price: Price | undefined;
  /** In US dollars; undefined where it is not known. */
  readonly usd: string | undefined;
  /** True for a payment of an earlier try. */
  readonly isResumed: boolean;
  /** True while only this process can have seen it: what refuses it then never took it before. */
  readonly fresh: boolean;
  /** True where the chain showed that it was used. */
  readonly isUsed: boolean;
  /** True where an earlier call ended as charged, and its caller did not acknowledge that. */
  readonly isCharged: boolean;
  /** True where an earlier call ended as charged, and its caller acknowledged that: no answer changes it any more. */
  readonly isAcknowledged?: boolean;
  /** True where nodes are named, which decide when something new may be signed for its request. */
  readonly hasNodes: boolean;
  /** Receipt of success that an answer which ended nothing was shown with, in this call or an earlier one. */
  readonly receipt?: PurchaseReceipt | undefined;
}

/** Time for which a gateway keeps the answer to a payment that has an answer key (docs/money.md). */
const ANSWER_KEPT_MS = 3_600_000;

/** Outcome of a payment that the gateway says it took, for no answer. Where no node is named, time alone ends it. */
function claimedOutcome({ hasNodes, payment }: Presented, nowMs: number): JudgedOutcome {
  return hasNodes || untakeableFromMs(payment) > nowMs ? "claimed" : "charged";
}

/**
 * Outcome of a payment that has a receipt and no answer: while it can be taken it stays open, so that the same one is presented again;
 * nothing that the seller says later gives it back.
 */
function outcomeOfUnreadable(presented: Presented, nowMs: number): JudgedOutcome {
  return untakeableFromMs(presented.payment) <= nowMs ? claimedOutcome(presented, nowMs) : "open";
}

/** Outcome of a payment that was charged, and whose caller has no answer: a refusal ends it when it can no longer be taken. */
function outcomeOfCharged(outcome: JudgedOutcome, { payment }: Presented, nowMs: number): JudgedOutcome {
  return outcome === "open" || untakeableFromMs(payment) > nowMs ? "open" : "charged";
}

/** True when no gateway hands out a stored answer to this payment any more. */
function isAnswerGone({ payment }: Presented, nowMs: number): boolean {
  return untakeableFromMs(payment) + ANSWER_KEPT_MS <= nowMs;
}

/** Outcome of a payment for the budget. Where an answer proves nothing, the payment stays spent. */
function outcomeOf(answer: Answer | undefined, presented: Presented, nowMs: number): JudgedOutcome {
  const { isUsed, isCharged, isAcknowledged, receipt } = presented;
  if (isAcknowledged === true) return "charged";
  let outcome = outcomeOfAnswer(answer, presented, nowMs);
  const isReturned = outcome === "uncharged" || outcome === "unserved";
  if (isReturned && receipt !== undefined) outcome = outcomeOfUnreadable(presented, nowMs);
  if (isCharged && outcome !== "charged") outcome = outcomeOfCharged(outcome, presented, nowMs);
  // An open payment must end: nothing can result from it any more, and the caller is informed of what it may have cost.
  if (outcome !== "open" || !isAnswerGone(presented, nowMs)) return outcome;
  return isUsed || isCharged ? "charged" : claimedOutcome(presented, nowMs);
}

function outcomeOfServed(answer: Answer, presented: Presented, nowMs: number): JudgedOutcome {
  if (!isUnreadable(answer) && saleReceipt(answer, presented) !== undefined) return "charged";
  // The chain showed the use, and the gateway had its second chance to answer: the caller is informed, and it is over.
  if (presented.isUsed) return "charged";
  return isUnreadable(answer) && presented.receipt !== undefined ? outcomeOfUnreadable(presented, nowMs) : "open";
}

function outcomeOfAnswer(answer: Answer | undefined, presented: Presented, nowMs: number): JudgedOutcome {
  if (answer === undefined || isOpen(answer)) return "open";
  const { fresh, payment, isUsed } = presented;
  const { status } = answer;
  if (isServed(status)) return outcomeOfServed(answer, presented, nowMs);
  if (isUsed) return "charged";
  const { code } = refusalOf(answer);
  const isPaid = fittingReceipt(answer, payment) !== undefined;
  if (isPaid || status === 409 || status === 410 || code === "PAYMENT_NONCE_USED") {
    return claimedOutcome(presented, nowMs);
  }
  if (UNCHARGED.has(code)) return "unserved";
  // One that fails in a way of its own may have failed after it took the payment.
  if (fresh) return status >= 400 && status < 500 ? "uncharged" : "open";
  if (status !== 402) return "open";
  // A gateway that names the cause has looked the payment up. Terms alone may come from one that keeps no ledger.
  if (code !== "PAYMENT_REQUIRED") return "uncharged";
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

function chargeOf(outcome: JudgedOutcome, presented: Presented): string {
  const { payment, usd, isUsed, receipt } = presented;
  const sum = usd === undefined ? "The payment" : `${usd} USD`;
  if (presented.isAcknowledged === true) {
    return `${sum} was charged once, or may have been: an earlier result reported it, and it counts as spent.`;
  }
  if (isUsed) {
    const charged = `${sum} was charged, once: the chain shows it`;
    return outcome === "open"
      ? `${charged}. For its answer: ${NOW_OPEN.toLowerCase()}`
      : `${charged}, and the gateway gave no answer for it.`;
  }
  if (receipt !== undefined) {
    const charged = `${sum} was charged once, as the receipt states`;
    return outcome === "open"
      ? `${charged}. For its answer: ${NOW_OPEN.toLowerCase()}`
      : `${charged}, and counts as spent.`;
  }
  if (outcome === "open") return `${sum} may have been charged, once. ${NOW_OPEN}`;
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

/** Result of presenting a payment: for the caller, and for the budget. */
export interface Verdict {
  readonly result: PurchaseResult;
  readonly outcome: JudgedOutcome;
}

/** Receipt of success that fits the payment; undefined for any other. */
function fittingReceipt({ headers }: Answer, payment: string): PurchaseReceipt | undefined {
  const fitting = readReceipt(headers, payment)?.fitting;
  return fitting?.success === true ? fitting : undefined;
}

/** Receipt that an answer was sold with: that of an earlier try, or its own. Undefined where its own does not fit. */
function saleReceipt(answer: Answer, { payment, receipt }: Presented): PurchaseReceipt | undefined {
  if (readReceipt(answer.headers, payment) === undefined) return receipt;
  const own = fittingReceipt(answer, payment);
  return own && (receipt ?? own);
}

/** Receipts of a refusal: the one that was shown first stands, and nothing that is said later takes its place. */
function receiptsOf(
  { headers }: Answer,
  { payment, receipt }: Presented,
): { readonly receipt: PurchaseReceipt | undefined; readonly claimedReceipt: ClaimedReceipt | undefined } {
  const { fitting, claimed } = readReceipt(headers, payment) ?? {};
  const isRetracted = receipt !== undefined && fitting?.success === false;
  const misfit = "it says that the payment failed, and an earlier one that it was taken";
  return { receipt: receipt ?? fitting, claimedReceipt: isRetracted ? { ...fitting, misfit } : claimed };
}

/** Receipt of success of an answer that does not end the call: only there is it to be kept. */
export function receiptToKeep(answer: Answer, payment: string): PurchaseReceipt | undefined {
  return isServed(answer.status) && !isUnreadable(answer) ? undefined : fittingReceipt(answer, payment);
}

/** Reason that an answer of success is not a sale. */
function faultOfServed(answer: Answer, { payment, receipt: earlier }: Presented): { code: string; message: string } {
  const { status, fault } = answer;
  const { fitting, claimed } = readReceipt(answer.headers, payment) ?? {};
  if (claimed?.success === true) {
    const message = `The gateway's receipt is not for this payment: ${claimed.misfit}.`;
    return { code: "FACILITATOR_MISBEHAVED", message };
  }
  const hasReceipt = (fitting ?? claimed ?? earlier)?.success === true;
  const paid = hasReceipt ? "with a receipt" : "without a receipt of success";
  if (fault === undefined || !isUnreadable(answer)) {
    return { code: "FACILITATOR_MISBEHAVED", message: `The gateway answered ${status} ${paid}.` };
  }
  const message = `The gateway answered ${status} ${paid}, and the answer cannot be read: ${faultText(fault)}.`;
  return { code: "ANSWER_UNREADABLE", message };
}

const answerOf = ({ json, text }: Answer) => ({ envelope: json, answerText: text });

/** The sentence on a payment without any answer. */
function lostText(isStillOpen: boolean): string {
  return isStillOpen
    ? "The connection was lost and the outcome is unknown; present the same payment again."
    : "The gateway gave no answer, and the time for which it keeps one is over.";
}

/** Judges an answer to a payment; undefined stands for none. */
export function judge(answer: Answer | undefined, presented: Presented, nowMs: number): Verdict {
  const { payment, price, usd, isResumed } = presented;
  const outcome = outcomeOf(answer, presented, nowMs);
  const charge = chargeOf(outcome, presented);
  const isStillOpen = outcome === "open";
  const isOver = outcome === "charged" || outcome === "claimed";
  const facts = {
    state: isOver ? "charged" : outcome,
    usd,
    charge,
    price,
    payment,
    resultId: undefined,
    open: isStillOpen,
  } as const;
  if (answer === undefined) {
    const said = { code: "SETTLEMENT_PENDING", message: lostText(isStillOpen), retryable: isStillOpen };
    const receipts = { receipt: presented.receipt, claimedReceipt: undefined };
    const own = { ...said, messageOf: "client" } as const;
    return { outcome, result: { kind: "refused", status: 0, ...own, ...facts, ...receipts } };
  }
  if (isServed(answer.status)) {
    const sold = isUnreadable(answer) ? undefined : saleReceipt(answer, presented);
    if (sold !== undefined) {
      const bought = { state: "charged", usd, price, payment, isResumed, resultId: undefined } as const;
      return { outcome, result: { kind: "bought", ...answerOf(answer), receipt: sold, ...bought } };
    }
    const own = { ...faultOfServed(answer, presented), messageOf: "client", retryable: isStillOpen } as const;
    const receipts = receiptsOf(answer, presented);
    return { outcome, result: { kind: "refused", status: answer.status, ...own, ...facts, ...receipts } };
  }
  const receipts = receiptsOf(answer, presented);
  const { code, message, retryable } = refusalOf(answer);
  const said = { code, message, messageOf: "gateway", retryable: retryable && !isOver } as const;
  return { outcome, result: { kind: "refused", status: answer.status, ...said, ...facts, ...receipts } };
}

/** The result of a request that was refused without terms. */
export function refusedUnsigned(answer: Answer): PurchaseResult {
  return {
    kind: "refused",
    status: answer.status,
    ...refusalOf(answer, false),
    messageOf: "gateway",
    charge: "Nothing was signed.",
    open: false,
    state: "unsigned",
    usd: undefined,
    receipt: undefined,
    claimedReceipt: undefined,
    price: undefined,
    payment: undefined,
    resultId: undefined,
  };
}
