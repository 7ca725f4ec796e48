import { pause } from "./engine/waiters.ts";
import type { ClaimResult } from "./ledger-types.ts";
import type { PaymentRefusal, Verification, VerifiedPayment } from "./types.ts";

/** What {@link createFundedClaims} does for one payment. */
export interface FundedClaim {
  claim(verified: VerifiedPayment): Promise<ClaimResult>;
  /** Looks at the chain again. */
  verify(): Promise<Verification>;
  /** Time between two looks. */
  readonly pollMs: number;
  /** Makes the signal that ends the waiting; what is not clear by then is `insufficient`. Called when there is a wait. */
  limit(): AbortSignal;
}

/** A claim with the verification that it was made by, or why a later look at the chain refuses the payment. */
export type FundedResult =
  | { readonly ok: true; readonly claim: ClaimResult; readonly verified: VerifiedPayment }
  | PaymentRefusal;

/** Payments of one payer that may wait at once. Each wait asks the chain and the ledger again and again. */
const MAX_WAITING = 32;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Claims payments. A settlement that the chain has made and that the ledger has not seen yet is missing in the balance
 * and is reserved as well: where that alone makes a balance too small, the payer is not refused but waited for, until
 * such settlements have ended. Of one payer only so many wait, ever more slowly; the others are refused at once.
 */
export function createFundedClaims(): (first: VerifiedPayment, work: FundedClaim) => Promise<FundedResult> {
  const waiting = new Map<string, number>();
  return async (first, work) => {
    const claim = await work.claim(first);
    if (claim.kind !== "insufficient" || !claim.unsettled) return { ok: true, claim, verified: first };
    const { option, authorization } = first.payment;
    const payer = `${option.network} ${option.asset} ${authorization.from.toLowerCase()}`;
    const before = waiting.get(payer) ?? 0;
    if (before >= MAX_WAITING) return { ok: true, claim, verified: first };
    waiting.set(payer, before + 1);
    try {
      return await claimAgain(claim, first, work);
    } finally {
      const left = (waiting.get(payer) ?? 1) - 1;
      if (left > 0) waiting.set(payer, left);
      else waiting.delete(payer);
    }
  };
}

async function claimAgain(refused: ClaimResult, first: VerifiedPayment, work: FundedClaim): Promise<FundedResult> {
  const limit = work.limit();
  let claim = refused;
  let verified = first;
  for (let pauseMs = work.pollMs; !limit.aborted; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    await pause(pauseMs, limit);
    const again = await work.verify();
    if (!again.ok) return again;
    verified = again;
    claim = await work.claim(verified);
    if (claim.kind !== "insufficient" || !claim.unsettled) break;
  }
  return { ok: true, claim, verified };
}
