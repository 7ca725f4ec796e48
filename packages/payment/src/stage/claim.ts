import { bytesEqual, type SettlementId } from "@turnpike/base";
import { mintPaid, type ParsedRequest } from "@turnpike/protocol";
import { FundedClaims } from "../funded-claims.ts";
import { PayerFunds } from "../payer-funds.ts";
import { claimedRecord, newRecord, saleOf, windowMsOf } from "../record.ts";
import type { DecodedPayment, Outcome, PaymentRecord, PaymentRefusal, VerifiedPayment } from "../types.ts";
import type { UnpaidAttempt } from "../unpaid-limit.ts";
import { joinName } from "./join.ts";
import type { PaymentStageOptions, StageParts } from "./options.ts";
import type { OutcomeResolver } from "./resolve.ts";
import type { Admission, Offer } from "./types.ts";
import { limited, payerName, type VerifyStep } from "./verify.ts";

/** A payment that is to be claimed for a request. */
export interface Presented {
  readonly request: ParsedRequest;
  readonly payment: DecodedPayment;
  /** Client that presents it, as limits count clients. */
  readonly client?: string | undefined;
  /** Ends its waits. */
  readonly signal: AbortSignal;
  /** Gives its outcome to the copies that wait. */
  readonly finish: (outcome: Outcome) => void;
}

/** A claim of this process, from its admission to its end. */
export interface ActiveClaim {
  readonly record: PaymentRecord;
  readonly attempt: UnpaidAttempt;
  readonly joinName: string;
  readonly finish: (outcome: Outcome) => void;
}

interface ClaimStepParts extends StageParts {
  readonly verifying: VerifyStep;
  readonly resolver: OutcomeResolver;
  /** Claims of this process, by id: what is claimed is added. */
  readonly active: Map<SettlementId, ActiveClaim>;
}

/** The step that claims a payment in the ledger, before anything is served for it. */
export class ClaimStep {
  readonly #opts: PaymentStageOptions;
  readonly #parts: ClaimStepParts;
  readonly #fundedClaims: FundedClaims;
  readonly #payerFunds: PayerFunds;

  constructor(opts: PaymentStageOptions, parts: ClaimStepParts) {
    this.#opts = opts;
    this.#parts = parts;
    this.#fundedClaims = new FundedClaims(opts.maxWaitingCopies);
    this.#payerFunds = new PayerFunds(parts);
  }

  /** Verifies the payment and claims it; whatever refuses it gives way to the outcome of an earlier claim. */
  async admit(presented: Presented, offer: Offer): Promise<Admission> {
    const { verifying, resolver, payers } = this.#parts;
    const { request, payment, signal } = presented;
    const unserved = offer.refusal();
    if (unserved !== undefined) return resolver.earlier(request, payment, unserved);
    const { result: verified, isPayer } = await verifying.verify(payment, signal, true, offer.client);
    // A contract wallet's signature is known to be the payer's own once the chain has said so.
    const refuse = (refusal: PaymentRefusal): Promise<Admission> =>
      resolver.earlier(request, payment, refusal, isPayer || verified.ok);
    // An authorization that the chain has used is public: it proves no longer that its payer presents it.
    if (!verified.ok) {
      return resolver.earlier(request, payment, verified, isPayer && verified.code !== "PAYMENT_NONCE_USED");
    }
    const refusal = this.#saleRefusal(verified);
    if (refusal !== undefined) return refuse(refusal);

    const attempt = payers.begin(payerName(payment));
    if (!attempt.ok) return refuse(limited(attempt.waitSeconds));
    let isClaimed = false;
    try {
      const admission = await this.#claim(presented, verified, attempt, refuse);
      isClaimed = admission.kind === "paid";
      return admission;
    } finally {
      // What was not claimed counts for the client alone: accounts without funds cost nothing to make.
      if (!isClaimed) attempt.excused();
    }
  }

  /** Why a good payment should not be taken: it cannot be settled, not in time, or not at a profit. */
  #saleRefusal(verified: VerifiedPayment): PaymentRefusal | undefined {
    const { network } = verified.payment.option;
    const settler = this.#parts.settlers.get(network);
    if (settler === undefined || settler.missing(network).length > 0) {
      return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
    }
    const callMs = this.#callMs(verified);
    if (callMs <= 0) return { ok: false, code: "PAYMENT_EXPIRED" };
    return settler.refusal?.(saleOf(verified, callMs));
  }

  /** Longest time of the call itself: its settlement needs the end of the payment's window. */
  #callMs(verified: VerifiedPayment): number {
    return Math.min(this.#opts.upstreamTimeoutMs, windowMsOf(verified) - this.#opts.settleMarginMs);
  }

  async #claim(
    { request, payment, client, signal, finish }: Presented,
    verified: VerifiedPayment,
    attempt: UnpaidAttempt,
    refuse: (refusal: PaymentRefusal) => Promise<Admission>,
  ): Promise<Admission> {
    const { ledger, clock, faults, verifying, resolver, active } = this.#parts;
    const record = newRecord(verified, { ...request, identifier: payment.identifier }, clock.nowMs());
    await faults.reach("stage.claim.before");
    const funded = await this.#fundedClaims.claim(verified, {
      client,
      claim: ({ balance, blockNumber }) => ledger.claim({ ...record, balance, balanceBlock: blockNumber }),
      mayWait: (refused) => this.#payerFunds.carry(refused),
      verify: async () => (await verifying.verify(payment, signal, false, client)).result,
      pollMs: this.#opts.pollMs,
      limit: () => AbortSignal.any([signal, resolver.waitLimit()]),
    });
    if (!funded.ok) return refuse(funded);
    await faults.reach("stage.claim.after");
    const { claim } = funded;
    switch (claim.kind) {
      case "claimed": {
        const { id } = claim;
        active.set(id, {
          record: claimedRecord(record, claim),
          attempt,
          joinName: joinName(payment, request.requestHash),
          finish,
        });
        const deadlineMs = clock.monotonicMs() + this.#callMs(funded.verified);
        return { kind: "paid", paid: mintPaid({ request, settlementId: id, deadlineMs }) };
      }
      case "exists":
        return bytesEqual(claim.record.payloadDigest, payment.payloadDigest)
          ? resolver.copyOf(request.requestHash, payment, claim.record)
          : { kind: "refused", ok: false, code: "PAYMENT_CONFLICT" };
      case "identifier":
        return resolver.namedOf(request.requestHash, claim.record);
      // It may have waited for other calls of its payer: another gateway may have sold by this very payment meanwhile.
      case "insufficient":
        return refuse({ ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" });
      case "blocked":
        return refuse({ ok: false, code: "PAYMENT_PAYER_BLOCKED" });
    }
  }
}
