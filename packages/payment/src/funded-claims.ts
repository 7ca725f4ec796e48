import { Places } from "@turnpike/base";
import { pause } from "./engine/waiters.ts";
import type { ClaimResult } from "./ledger-types.ts";
import type { PaymentRefusal, Verification, VerifiedPayment } from "./types.ts";

/** What {@link FundedClaims} needs to do for one payment. */
export interface FundedClaim {
  /** Client that presents the payment, as limits count clients. */
  readonly client?: string | undefined;
  claim(verified: VerifiedPayment): Promise<ClaimResult>;
  /**
   * True when a payment that is `unsettled` can be claimed once the ledger has seen what the chain has settled: else waiting
   * for it would be waiting for other payments to fail.
   */
  mayWait(verified: VerifiedPayment): Promise<boolean>;
  /** Looks at the chain again. What it throws once the limit has fired is the limit's. */
  verify(): Promise<Verification>;
  /** Time between two looks. */
  readonly pollMs: number;
  /**
   * Makes the signal that ends the waiting; what is not clear by then is `insufficient`, also what never got a place to ask
   * again. Who is refused by that looks in the ledger first, where the payment may have been claimed by another process.
   * Called when there is a wait.
   */
  limit(): AbortSignal;
}

/** A claim with the verification that it was made by, or why a later look at the chain refuses the payment. */
export type FundedResult =
  | { readonly ok: true; readonly claim: ClaimResult; readonly verified: VerifiedPayment }
  | PaymentRefusal;

/** Payments of one payer that ask the chain and the ledger again at one time, at most. */
const MAX_ASKING = 32;
/** Part of all places to ask again, and of those to wait behind, that one payer may have. */
const PAYERS_SHARE = 0.5;
/** Part of the same that one client may have. */
const CLIENTS_SHARE = 0.25;
const LONGEST_PAUSE_MS = 2_000;

interface PayerQueue {
  asking: number;
  readonly waiting: Set<() => void>;
}

/**
 * Claims payments. A settlement that the chain has made and that the ledger has not seen yet is missing in the balance
 * and is reserved as well: where that alone makes a balance too small, the payer is not refused but waited for, until
 * such settlements have ended. Where the settlements are still to be made the payer is refused at once. Of one payer, and of
 * all, only so many ask again, ever more slowly; more wait until one of them has ended, in the order in which they came, and what
 * is more than that is refused at once.
 */
export class FundedClaims {
  readonly #queues = new Map<string, PayerQueue>();
  readonly #maxWaiting: number;
  readonly #maxAskingOfOne: number;
  readonly #clients: Places;
  #waiting = 0;
  #asking = 0;

  /**
   * @param maxWaiting payments that wait behind others of their payer, over all payers, and as many that ask again; one payer
   * has half of either at most. A wait holds a request: twice this is well below the number of requests that may run
   */
  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
    const max = 2 * maxWaiting;
    this.#clients = new Places({ max: () => max, maxEach: () => Math.max(1, Math.floor(max * CLIENTS_SHARE)) });
    this.#maxAskingOfOne = Math.max(1, Math.min(MAX_ASKING, Math.floor(maxWaiting * PAYERS_SHARE)));
  }

  /** Claims one payment. The result is the claim that was made, or why a later look at the chain refuses it. */
  async claim(first: VerifiedPayment, work: FundedClaim): Promise<FundedResult> {
    const claim = await work.claim(first);
    if (claim.kind !== "insufficient" || !claim.unsettled) return { ok: true, claim, verified: first };
    if (!(await work.mayWait(first))) return { ok: true, claim, verified: first };
    if (work.client === undefined) return this.#claimInTurn(claim, first, work);
    const leave = this.#clients.acquire(work.client);
    if (typeof leave === "string") return { ok: true, claim, verified: first };
    try {
      return await this.#claimInTurn(claim, first, work);
    } finally {
      leave();
    }
  }

  async #claimInTurn(claim: ClaimResult, first: VerifiedPayment, work: FundedClaim): Promise<FundedResult> {
    const { option, authorization } = first.payment;
    const payer = `${option.network} ${option.asset} ${authorization.from.toLowerCase()}`;
    const queue = this.#queues.get(payer) ?? { asking: 0, waiting: new Set() };
    const limit = work.limit();
    if (queue.asking < this.#maxAskingOfOne && this.#asking < this.#maxWaiting) {
      queue.asking++;
      this.#asking++;
      this.#queues.set(payer, queue);
    } else if (queue.asking === 0 || !(await this.#waitFor(queue, limit))) {
      return { ok: true, claim, verified: first };
    }
    try {
      return await claimAgain(claim, first, work, limit);
    } finally {
      this.#ended(payer, queue);
    }
  }

  /** True when one that asked has ended and its place is this one's; false when there is no room, or `limit` fired before. */
  async #waitFor(queue: PayerQueue, limit: AbortSignal): Promise<boolean> {
    const isFull = this.#waiting >= this.#maxWaiting || queue.waiting.size >= this.#maxWaiting * PAYERS_SHARE;
    if (isFull || limit.aborted) return false;
    this.#waiting++;
    try {
      return await placeIn(queue, limit);
    } finally {
      this.#waiting--;
    }
  }

  #ended(payer: string, queue: PayerQueue): void {
    const [next] = queue.waiting;
    if (next !== undefined) {
      next();
      return;
    }
    this.#asking--;
    if (--queue.asking === 0) this.#queues.delete(payer);
  }
}

function placeIn({ waiting }: PayerQueue, limit: AbortSignal): Promise<boolean> {
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

async function claimAgain(
  refused: ClaimResult,
  first: VerifiedPayment,
  work: FundedClaim,
  limit: AbortSignal,
): Promise<FundedResult> {
  let claim = refused;
  let verified = first;
  // Also the first look of one that waited: where funds are gone, each of a long line would end at once, and ask the chain all the same.
  for (let pauseMs = work.pollMs; !limit.aborted; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    await pause(pauseMs, limit);
    const again = await verifiedBy(work, limit);
    if (again === undefined) break;
    if (!again.ok) return again;
    verified = again;
    claim = await work.claim(verified);
    if (claim.kind !== "insufficient" || !claim.unsettled) break;
  }
  return { ok: true, claim, verified };
}

/** Undefined when the limit fired meanwhile, which the verification ends with as well. */
async function verifiedBy(work: FundedClaim, limit: AbortSignal): Promise<Verification | undefined> {
  if (limit.aborted) return undefined;
  try {
    return await work.verify();
  } catch (error) {
    if (limit.aborted) return undefined;
    throw error;
  }
}
