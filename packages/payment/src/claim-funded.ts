import { pause } from "./engine/waiters.ts";
import type { ClaimResult } from "./ledger-types.ts";
import type { PaymentRefusal, Verification, VerifiedPayment } from "./types.ts";

/** What {@link claimFunded} does. */
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

/**
 * Claims a payment. A settlement that the chain has made and that the ledger has not seen yet is missing in the balance
 * and is reserved as well: where that alone makes a balance too small, the payer is not refused but waited for, until
 * such settlements have ended.
 */
export async function claimFunded(first: VerifiedPayment, work: FundedClaim): Promise<FundedResult> {
  let verified = first;
  let limit: AbortSignal | undefined;
  for (;;) {
    const claim = await work.claim(verified);
    if (claim.kind !== "insufficient" || !claim.unsettled || limit?.aborted === true) {
      return { ok: true, claim, verified };
    }
    limit ??= work.limit();
    await pause(work.pollMs, limit);
    const again = await work.verify();
    if (!again.ok) return again;
    verified = again;
  }
}
