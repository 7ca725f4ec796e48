import { pause } from "./engine/waiters.ts";
import type { ClaimResult } from "./ledger-types.ts";
import type { PaymentRefusal, Verification, VerifiedPayment } from "./types.ts";

/** What {@link FundedClaims} needs to do for one payment. */
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

/** Payments of one payer that ask the chain and the ledger again at one time. */
const MAX_ASKING = 32;
/** Payments of one payer that wait behind those. A wait holds a request and asks nothing. */
const MAX_WAITING = 512;
const LONGEST_PAUSE_MS = 2_000;

interface PayerQueue {
  asking: number;
  readonly waiting: Set<() => void>;
}

/**
 * Claims payments. A settlement that the chain has made and that the ledger has not seen yet is missing in the balance
 * and is reserved as well: where that alone makes a balance too small, the payer is not refused but waited for, until
 * such settlements have ended. Of one payer only so many ask again, ever more slowly; more wait until one of them has ended, in the order in
 * which they came, and what is more than that is refused at once.
 */
export class FundedClaims {
  readonly #queues = new Map<string, PayerQueue>();

  /** Claims one payment. The result is the claim that was made, or why a later look at the chain refuses it. */
  async claim(first: VerifiedPayment, work: FundedClaim): Promise<FundedResult> {
    const claim = await work.claim(first);
    if (claim.kind !== "insufficient" || !claim.unsettled) return { ok: true, claim, verified: first };
    const { option, authorization } = first.payment;
    const payer = `${option.network} ${option.asset} ${authorization.from.toLowerCase()}`;
    const queue = this.#queues.get(payer) ?? { asking: 0, waiting: new Set() };
    if (queue.waiting.size >= MAX_WAITING) return { ok: true, claim, verified: first };
    this.#queues.set(payer, queue);
    const limit = work.limit();
    const hasWaited = queue.asking >= MAX_ASKING;
    if (hasWaited && !(await waitFor(queue, limit))) return { ok: true, claim, verified: first };
    if (!hasWaited) queue.asking++;
    try {
      return await claimAgain({ refused: claim, first, work, limit, pauseMs: hasWaited ? 0 : work.pollMs });
    } finally {
      this.#ended(payer, queue);
    }
  }

  #ended(payer: string, queue: PayerQueue): void {
    const [next] = queue.waiting;
    if (next !== undefined) next();
    else if (--queue.asking === 0) this.#queues.delete(payer);
  }
}

/** True when one that asked has ended and its place is this one's; false when `limit` fired before. */
function waitFor({ waiting }: PayerQueue, limit: AbortSignal): Promise<boolean> {
  if (limit.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const end = (hasPlace: boolean) => (): void => {
      waiting.delete(take);
      limit.removeEventListener("abort", leave);
      resolve(hasPlace);
    };
    const take = end(true);
    const leave = end(false);
    waiting.add(take);
    limit.addEventListener("abort", leave, { once: true });
  });
}

interface Refused {
  readonly refused: ClaimResult;
  readonly first: VerifiedPayment;
  readonly work: FundedClaim;
  readonly limit: AbortSignal;
  /** Before the first look; 0: none. */
  readonly pauseMs: number;
}

async function claimAgain({ refused, first, work, limit, pauseMs }: Refused): Promise<FundedResult> {
  let claim = refused;
  let verified = first;
  for (let nextMs = pauseMs; !limit.aborted; nextMs = Math.min(Math.max(nextMs, work.pollMs) * 1.5, LONGEST_PAUSE_MS)) {
    if (nextMs > 0) await pause(nextMs, limit);
    const again = await work.verify();
    if (!again.ok) return again;
    verified = again;
    claim = await work.claim(verified);
    if (claim.kind !== "insufficient" || !claim.unsettled) break;
  }
  return { ok: true, claim, verified };
}
