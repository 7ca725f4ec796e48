import { AppError, errorRow, isAppError } from "@turnpike/base";
import { optionAtAnyPrice } from "../option.ts";
import type { DecodedPayment, PaymentRefusal, PresentedPayment, Verification } from "../types.ts";
import type { PaymentStageOptions, StageParts } from "./options.ts";

/** A verification, and whether the signature is known to be the payer's own. */
export interface PayerVerification {
  readonly result: Verification;
  readonly isPayer: boolean;
}

/** Names a payer in the limit of unpaid claims. */
export function payerName({ option, authorization }: DecodedPayment): string {
  return `${option.network} ${authorization.from.toLowerCase()}`;
}

/** The refusal of a payer that has had too many claims without paying. */
export function limited(retryAfterSeconds: number): PaymentRefusal {
  return { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds };
}

/** The step that verifies a payment. */
export class VerifyStep {
  readonly #opts: PaymentStageOptions;
  readonly #parts: StageParts;

  constructor(opts: PaymentStageOptions, parts: StageParts) {
    this.#opts = opts;
    this.#parts = parts;
  }

  /**
   * Verifies; faults that are about us (a chain that does not answer) are refusals of that code. `isFirst`: it was not
   * verified for this request before, so that its payer's limit counts. `client` presents it.
   */
  async verify(
    payment: DecodedPayment,
    signal: AbortSignal,
    isFirst: boolean,
    client?: string,
  ): Promise<PayerVerification> {
    const { verifier, payers, log } = this.#parts;
    let isPayer = false;
    try {
      const free = await verifier.checkFree(payment);
      if (!free.ok) return { result: free, isPayer };
      isPayer = free.signer === "payer";
      // Only the payer's own signature counts for it: with any other, a third party could have it refused.
      const waitSeconds = isPayer && isFirst ? payers.waitSeconds(payerName(payment)) : 0;
      if (waitSeconds > 0) return { result: limited(waitSeconds), isPayer };
      return { result: await verifier.checkChain(payment, free.signer, signal, client), isPayer };
    } catch (error) {
      if (!isAppError(error) || errorRow(error.code).http !== 503) throw error;
      log.warn({ code: error.code }, "a payment could not be verified");
      return { result: { ok: false, code: error.code }, isPayer };
    }
  }

  /**
   * Whether a payment is its payer's own, by the checks of a sale, for what is not sold any more. Asked before the ledger is
   * asked for its identifier, so that the time that it takes says nothing of what the ledger has.
   * @throws AppError of status 503 where that is not known
   */
  async isPayersOwn(presented: PresentedPayment, signal: AbortSignal): Promise<boolean> {
    const { verifier } = this.#parts;
    const option = optionAtAnyPrice(presented.accepted, this.#opts.networks);
    if (option === undefined) return false;
    const payment: DecodedPayment = { ...presented, option };
    const free = await verifier.checkFree(payment);
    const isFree = !free.ok || free.signer === "payer";
    const checked = isFree ? free : await verifier.checkChain(payment, free.signer, signal);
    if (!checked.ok && errorRow(checked.code).http === 503) throw new AppError(checked.code);
    return checked.ok;
  }
}
