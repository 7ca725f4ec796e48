import {
  bytesEqual,
  type Clock,
  errorRow,
  failureCode,
  isAppError,
  type Log,
  Places,
  type SettlementId,
} from "@turnpike/base";
import { pause } from "../engine/waiters.ts";
import { FundedClaims } from "../funded-claims.ts";
import type { Ledger } from "../ledger-types.ts";
import { PayerFunds } from "../payer-funds.ts";
import { claimedRecord, newRecord, paymentKey, settledBy, standingOf } from "../record.ts";
import type { Settler } from "../settler.ts";
import type {
  DecodedPayment,
  PaymentRecord,
  PaymentRefusal,
  StoredAnswer,
  Verification,
  VerifiedPayment,
  Verifier,
} from "../types.ts";
import { endRefused, type UnpaidAttempt, type UnpaidLimit } from "../unpaid-limit.ts";
import type { SaleBudgets } from "./budgets.ts";
import type { CallerBinding } from "./caller.ts";
import { type PaymentChecks, type PresentedSale, payerName } from "./payment-checks.ts";
import { type RequestEnd, ResultLease } from "./result-lease.ts";
import {
  duplicateOf,
  type FacilitatorResult,
  failedWith,
  isDuplicate,
  isPending,
  partiesOf,
  rateLimited,
  refusalError,
  refusedWith,
  type SettleResponse,
  settleResultOf,
} from "./results.ts";
import type { Sellers } from "./sellers.ts";

/** Modules of a {@link FacilitatorSettlement}, which owns none of them. */
export interface FacilitatorSettlementModules {
  readonly checks: PaymentChecks;
  readonly verifier: Pick<Verifier, "readFunds">;
  readonly ledger: Ledger;
  readonly settler: Settler;
  /** Tokens of payers whose settlements may fail or be under way. */
  readonly payers: UnpaidLimit;
  readonly sellers: Sellers;
  readonly budgets: SaleBudgets;
  readonly clock: Clock;
  readonly log: Log;
}

/** A payment, and the request that asks for its settlement. */
export interface SettleRequest extends PresentedSale {
  readonly binding: CallerBinding;
  readonly end: RequestEnd | undefined;
}

/** The result of a settle request, and which request claimed the payment. */
export interface Settling {
  readonly result: FacilitatorResult<SettleResponse>;
  /** Of the payment in the ledger. */
  readonly id?: SettlementId;
  /** True when this request claimed it; else another one did, or none. */
  readonly isOwn?: boolean;
}

/** The ledger keeps an answer with every settlement; here the receipt itself is the answer. */
const ANSWER: StoredAnswer = { contentType: "application/json", body: new Uint8Array(Buffer.from("{}")) };
const CLAIM_POLL_MS = 100;
/** Copies of one payment that may wait at once: each holds a request open, and costs its sender nothing. */
const MAX_COPIES_OF_ONE = 16;
/** Time after its claim in which a caller may still ask for the result of a payment: ours asks for as long as windows are open. */
const RESULT_MS = 86_400_000;

/**
 * Settles one payment once: verify, claim, settle, conclude. Its success is the first caller's: a seller hands something
 * out for each success that it sees. The same request may have it again by a key of that caller, or, where the caller has
 * none and did not get it, one copy of the request may; every other one is a duplicate.
 */
export class FacilitatorSettlement {
  readonly #modules: FacilitatorSettlementModules;
  readonly #fundedClaims: FundedClaims;
  readonly #payerFunds: PayerFunds;
  readonly #payerPlaces: Places;
  /** Places of requests that wait for payments which other requests brought. */
  readonly #copyPlaces: Places;
  readonly #copiesOf = new Map<SettlementId, number>();

  /**
   * `maxCopies`: most requests that wait for payments which other requests brought, most that wait for funds of their payer,
   * and most settlements of one payer at once.
   */
  constructor({ maxCopies }: { readonly maxCopies: number }, modules: FacilitatorSettlementModules) {
    const maxOfClient = Math.max(1, Math.floor(maxCopies / 4));
    this.#copyPlaces = new Places({ max: () => maxCopies, maxEach: () => maxOfClient });
    this.#fundedClaims = new FundedClaims(maxCopies);
    this.#payerFunds = new PayerFunds(modules);
    this.#payerPlaces = new Places({ max: () => Number.POSITIVE_INFINITY, maxEach: () => maxCopies });
    this.#modules = modules;
  }

  /**
   * Settles a request, or joins an earlier one of the same payment and caller. `unlessKnown` is the refusal of a payment that is not
   * in the ledger yet; without it, such a payment is verified and begun.
   */
  async settle(request: SettleRequest, limit: AbortSignal, unlessKnown?: PaymentRefusal): Promise<Settling> {
    const { checks, ledger } = this.#modules;
    const { payment, seller } = request;
    const refused = checks.unserved(payment, seller);
    if (refused !== undefined) return { result: refusedWith(payment, refused) };
    // Before the ledger: what anyone can make up must not cost a query.
    const signed = await checks.signer(payment);
    if (!signed.ok) return { result: refusedWith(payment, signed) };
    const known = await ledger.find(paymentKey(payment.option, payment));
    if (known !== undefined && known.state !== "released") return this.#join(known, request, limit);
    if (unlessKnown !== undefined) return { result: refusedWith(payment, unlessKnown) };
    const verified = await this.#verify(request, limit, signed.signer);
    return verified.ok ? this.#begin(verified, request, limit) : this.#refuse(request, verified, limit);
  }

  /** Verifies for the first time. A chain that does not answer in time is our fault, and no fault of the program. */
  async #verify(request: SettleRequest, limit: AbortSignal, signer: "payer" | "unknown"): Promise<Verification> {
    try {
      return await this.#modules.checks.verify(request, limit, true, signer);
    } catch (error) {
      if (limit.aborted && !isAppError(error)) return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
      throw error;
    }
  }

  /** A payment's claim as a caller may use it: `open` when its request for the settlement would have the result. */
  async claimFor(payment: DecodedPayment, binding: CallerBinding): Promise<"none" | "open" | "duplicate"> {
    const { ledger } = this.#modules;
    const record = await ledger.find(paymentKey(payment.option, payment));
    if (record === undefined || record.state === "released") return "none";
    const isOver = record.state === "failed" || record.state === "disputed";
    if (isOver || !bytesEqual(record.payloadDigest, payment.payloadDigest)) return "duplicate";
    if (!this.#isOf(record, binding)) return "duplicate";
    return binding.mayRepeat || (await ledger.isResultOpen(record.id)) ? "open" : "duplicate";
  }

  /** The result of a payment that is in the ledger, after waiting for its end where there is a place to wait. */
  async #join(found: PaymentRecord, request: SettleRequest, signal: AbortSignal): Promise<Settling> {
    const { payment, binding } = request;
    const { id } = found;
    if (!bytesEqual(found.payloadDigest, payment.payloadDigest)) {
      return { result: failedWith(partiesOf(payment), "PAYMENT_CONFLICT") };
    }
    // A failed payment has no success that two could have.
    if (found.state === "failed" || found.state === "disputed") return { result: settleResultOf(found, payment), id };
    if (!(await this.#mayHaveResult(found, binding))) return { result: duplicateOf(found, payment), id };
    const lease = this.#leaseOf(id, request, Promise.resolve());
    const result = settleResultOf(await this.#waitAsCopy(found, request, signal), payment);
    if (isPending(result)) await lease?.giveBack();
    else if ((await lease?.isHeld()) === false) return { result: duplicateOf(found, payment), id };
    if (result.kind === "answer" && result.body.success) this.#modules.payers.settled(id);
    return { result, id };
  }

  #isOf(found: PaymentRecord, { digest }: CallerBinding): boolean {
    const { clock } = this.#modules;
    return bytesEqual(found.requestHash, digest) && clock.nowMs() - found.createdAtMs <= RESULT_MS;
  }

  async #mayHaveResult(found: PaymentRecord, binding: CallerBinding): Promise<boolean> {
    if (!this.#isOf(found, binding)) return false;
    // An owed payment was answered as failed: no request has had the success that follows.
    return binding.mayRepeat || this.#modules.ledger.takeResult(found.id, found.state === "owed");
  }

  /** The lease of a request that is to have the result; undefined where it may be repeated anyway. */
  #leaseOf(id: SettlementId, { binding, end }: SettleRequest, leased: Promise<void>): ResultLease | undefined {
    return binding.mayRepeat ? undefined : new ResultLease(id, { end, leased }, this.#modules);
  }

  /** Waits as one of the copies that may wait at once; where there are too many, the payment stands as it was found. */
  async #waitAsCopy(
    found: PaymentRecord,
    { binding, client }: SettleRequest,
    signal: AbortSignal,
  ): Promise<PaymentRecord> {
    const { id } = found;
    const others = this.#copiesOf.get(id) ?? 0;
    const leave = others >= MAX_COPIES_OF_ONE ? "each" : this.#copyPlaces.acquire(client);
    if (typeof leave === "string") return found;
    this.#copiesOf.set(id, others + 1);
    try {
      return await this.#waitForEnd(found, binding, signal);
    } finally {
      leave();
      const left = (this.#copiesOf.get(id) ?? 1) - 1;
      if (left > 0) this.#copiesOf.set(id, left);
      else this.#copiesOf.delete(id);
    }
  }

  async #waitForEnd(found: PaymentRecord, binding: CallerBinding, signal: AbortSignal): Promise<PaymentRecord> {
    const { settler } = this.#modules;
    let record = found;
    while (record.state === "claimed" && !signal.aborted) {
      await pause(CLAIM_POLL_MS, signal);
      record = await this.#standing(record, binding);
    }
    if (record.state === "signed" || record.state === "submitted") {
      await settler.wait(record, signal);
      record = await this.#standing(record, binding);
    }
    return record;
  }

  /**
   * Returns a claim as it stands now. A claim that was lost stands as the newer one of the same caller where that may repeat itself;
   * else the newer one is that of a copy, whose result is not this request's.
   */
  async #standing(record: PaymentRecord, { mayRepeat }: CallerBinding): Promise<PaymentRecord> {
    const { ledger } = this.#modules;
    if (mayRepeat) return standingOf(ledger, record);
    return (await ledger.get(record.id)) ?? { ...record, state: "released" };
  }

  /** Claims and settles a verified payment, unless no settler, its cost or its payer's limit is in the way. */
  async #begin(verified: VerifiedPayment, request: SettleRequest, signal: AbortSignal): Promise<Settling> {
    const { settler, checks } = this.#modules;
    const { payment } = request;
    if (settler.missing(payment.option.network).length > 0) {
      return { result: { kind: "error", code: "SETTLEMENT_UNAVAILABLE" } };
    }
    const unprofitable = checks.unprofitable(verified, request.seller);
    if (unprofitable !== undefined) return this.#refuse(request, unprofitable, signal);
    const leave = this.#payerPlaces.acquire(payerName(payment));
    if (typeof leave === "string") return this.#refuse(request, rateLimited(1), signal);
    try {
      return await this.#beginOf(verified, request, signal);
    } finally {
      leave();
    }
  }

  async #beginOf(verified: VerifiedPayment, request: SettleRequest, signal: AbortSignal): Promise<Settling> {
    const { payers } = this.#modules;
    const attempt = payers.begin(payerName(request.payment));
    if (!attempt.ok) return this.#refuse(request, rateLimited(attempt.waitSeconds), signal);
    try {
      const settling = await this.#claimInBudget(verified, request, signal);
      if (settling.isOwn === true) endSettling(payers, attempt, settling);
      return settling;
    } finally {
      // What was not claimed counts for the client alone: accounts without funds cost nothing to make.
      attempt.excused();
    }
  }

  /** Claims and settles within the day's budgets of the payer, the receiver and the seller. */
  async #claimInBudget(verified: VerifiedPayment, request: SettleRequest, signal: AbortSignal): Promise<Settling> {
    const { ledger, budgets, log } = this.#modules;
    const { payment, seller } = request;
    const sale = { payment, seller, gas: verified.gas };
    const budget = await budgets.take(sale);
    if (!budget.ok) return this.#refuse(request, budget, signal);
    let isSent = true;
    let isFailed = false;
    try {
      const settling = await this.#claim(verified, request, signal);
      const isReleased = async (id: SettlementId): Promise<boolean> => (await ledger.get(id))?.state === "released";
      const { result, id, isOwn = false } = settling;
      const isOpen = result.kind === "answer" && (result.body.success || isPending(result));
      isFailed = isOwn && result.kind === "answer" && !isOpen;
      isSent = isOwn && id !== undefined && (isOpen || !(await isReleased(id)));
      return settling;
    } finally {
      // A fault leaves it taken: whether the settlement was sent is not known.
      if (!isSent || isFailed) {
        await budgets.giveBack(sale, isSent).catch((error: unknown) => {
          log.warn({ code: failureCode(error) }, "a settlement could not be given back to its budgets");
        });
      }
    }
  }

  async #claim(verified: VerifiedPayment, request: SettleRequest, signal: AbortSignal): Promise<Settling> {
    const { checks, ledger, sellers, clock } = this.#modules;
    const { payment, seller, binding } = request;
    const serviceId = sellers.serviceOf(payment, seller);
    const purpose = { serviceId, requestHash: binding.digest, identifier: undefined };
    const record = newRecord(verified, purpose, clock.nowMs());
    const funded = await this.#fundedClaims.claim(verified, {
      client: request.client,
      claim: ({ balance, blockNumber }) => ledger.claim({ ...record, balance, balanceBlock: blockNumber }),
      mayWait: (refused) => this.#payerFunds.carry(refused),
      verify: () => checks.verify(request, signal, false),
      pollMs: CLAIM_POLL_MS,
      limit: () => signal,
    });
    if (!funded.ok) return this.#refuse(request, funded, signal);
    const { claim } = funded;
    if (claim.kind === "insufficient") {
      return this.#refuse(request, { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" }, signal);
    }
    if (claim.kind === "blocked") return { result: failedWith(partiesOf(payment), "PAYMENT_PAYER_BLOCKED") };
    if (claim.kind !== "claimed") return this.#join(claim.record, request, signal);
    const claimed = claimedRecord(record, claim);
    const leased = binding.mayRepeat ? Promise.resolve() : ledger.leaseResult(claim.id);
    const lease = this.#leaseOf(claim.id, request, leased);
    const result = await this.#settleClaim(claimed, request, signal);
    if (isPending(result)) await lease?.giveBack();
    else if ((await lease?.isHeld()) === false) return { result: duplicateOf(claimed, payment), id: claim.id };
    return { result, id: claim.id, isOwn: true };
  }

  async #settleClaim(
    claimed: PaymentRecord,
    request: SettleRequest,
    signal: AbortSignal,
  ): Promise<FacilitatorResult<SettleResponse>> {
    const { ledger, settler, log } = this.#modules;
    const { payment, binding } = request;
    const { id } = claimed;
    try {
      const refusal = await settler.reserve(claimed, Number.POSITIVE_INFINITY, signal, request.client);
      if (refusal !== undefined) {
        const released = await ledger.release(id, refusal.code);
        return released
          ? refusedWith(payment, refusal)
          : settleResultOf(await this.#standing(claimed, binding), payment);
      }
      const evidence = await settler.settle(claimed, ANSWER, signal);
      if (evidence !== undefined) return settleResultOf(settledBy(claimed, evidence), payment);
    } catch (error) {
      const code = isAppError(error) ? error.code : "SETTLEMENT_UNAVAILABLE";
      log.warn({ settlementId: id, code }, "a settlement was not committed");
      const released = await ledger.release(id, code);
      if (!released) return settleResultOf(await this.#standing(claimed, binding), payment);
      if (code === "PAYMENT_RATE_LIMITED") return refusalError(rateLimited(1));
      return errorRow(code).http === 402
        ? failedWith(partiesOf(payment), code)
        : { kind: "error", code: "SETTLEMENT_UNAVAILABLE" };
    }
    return this.#conclude(claimed, payment, binding);
  }

  /** The wait for the settlement is over and has shown no end: the ledger says how the claim stands. */
  async #conclude(
    claimed: PaymentRecord,
    payment: DecodedPayment,
    binding: CallerBinding,
  ): Promise<FacilitatorResult<SettleResponse>> {
    const { ledger } = this.#modules;
    const { id } = claimed;
    const now = await this.#standing(claimed, binding).catch(async (error: unknown) => {
      // Where nothing was committed the claim must not stay; what was committed is not released by this. A release that
      // fails is made up for by the ledger.
      await ledger.release(id, "SETTLEMENT_UNAVAILABLE").catch(() => undefined);
      throw error;
    });
    // Not committed when its time was up. A commit that still comes is refused, or was first: then nothing is released.
    if (now.id !== id || now.state !== "claimed") return settleResultOf(now, payment);
    return (await ledger.release(id, "SETTLEMENT_UNAVAILABLE"))
      ? { kind: "error", code: "SETTLEMENT_UNAVAILABLE" }
      : settleResultOf(await this.#standing(claimed, binding), payment);
  }

  /**
   * Refuses a payment that was not in the ledger when it was looked for. The same payload may have been claimed and
   * settled meanwhile by another request, which is what the chain refuses: answered as failed, its payer would pay twice.
   */
  async #refuse(request: SettleRequest, refusal: PaymentRefusal, signal: AbortSignal): Promise<Settling> {
    const { payment } = request;
    const now = await this.#modules.ledger.find(paymentKey(payment.option, payment));
    return now === undefined || now.state === "released"
      ? { result: refusedWith(payment, refusal) }
      : this.#join(now, request, signal);
  }
}

/** Ends an attempt by what came of a settle request. */
export function endSettling(limit: UnpaidLimit, attempt: UnpaidAttempt, { result, id, isOwn = false }: Settling): void {
  if (result.kind === "error") {
    endRefused(attempt, result.code);
    return;
  }
  const { success } = result.body;
  const wasPending = success && id !== undefined && limit.settled(id);
  if (success && (isOwn || wasPending)) attempt.paid();
  // A seller asks for a payment again until it is settled, and passes copies of its buyers on: that costs no token, and
  // earns none.
  else if (!isOwn && (success || isPending(result) || isDuplicate(result))) attempt.excused();
  else if (isPending(result)) attempt.unpaid(id);
  else attempt.unpaid();
}
