import { type Address, sameAddress } from "@turnpike/base";
import { saleOf } from "../record.ts";
import type { Settler } from "../settler.ts";
import type { DecodedPayment, PaymentRefusal, Verification, VerifiedPayment } from "../types.ts";
import type { UnpaidLimit } from "../unpaid-limit.ts";
import type { EvmVerifier } from "../verify/verifier.ts";
import { rateLimited } from "./results.ts";
import type { Seller, Sellers } from "./sellers.ts";

/** Which payments are settled. */
export interface PaymentCheckOptions {
  /** Receivers that are served; any when undefined. */
  readonly payToAllowed?: readonly Address[];
  /** Least amount that is settled, in the asset's smallest unit, since each costs gas; never below 1. */
  readonly minAmountUnits: bigint;
}

/** A payment that a request brings. */
export interface PresentedSale {
  readonly payment: DecodedPayment;
  /** The seller whose key the request has. */
  readonly seller: Seller | undefined;
  /** As limits count clients. */
  readonly client: string;
}

/** Decides whether a payment is valid and would be settled here, at least cost first. */
export class PaymentChecks {
  readonly #payToAllowed: readonly Address[] | undefined;
  readonly #minAmountUnits: bigint;
  readonly #verifier: Pick<EvmVerifier, "checkFree" | "checkChain" | "checkSigner">;
  readonly #settler: Settler;
  readonly #payers: UnpaidLimit;
  readonly #sellers: Sellers;

  constructor(
    { payToAllowed, minAmountUnits }: PaymentCheckOptions,
    modules: {
      readonly verifier: Pick<EvmVerifier, "checkFree" | "checkChain" | "checkSigner">;
      readonly settler: Settler;
      readonly payers: UnpaidLimit;
      readonly sellers: Sellers;
    },
  ) {
    this.#payToAllowed = payToAllowed;
    this.#minAmountUnits = minAmountUnits > 1n ? minAmountUnits : 1n;
    this.#verifier = modules.verifier;
    this.#settler = modules.settler;
    this.#payers = modules.payers;
    this.#sellers = modules.sellers;
  }

  /** Refuses what is not settled here for this seller: every settlement costs this facilitator gas. */
  unserved(payment: DecodedPayment, seller: Seller | undefined): PaymentRefusal | undefined {
    const { option, authorization } = payment;
    // It is free to its payer however often it is settled, and buys nothing from anybody.
    if (sameAddress(authorization.from, option.payTo)) {
      return { ok: false, code: "PAYMENT_RECEIVER_MISMATCH", message: "The payer is the receiver." };
    }
    if (!this.#isServed(option.payTo, seller)) {
      return { ok: false, code: "PAYMENT_RECEIVER_MISMATCH", message: "This receiver is not served here." };
    }
    if (BigInt(option.amount) >= this.#minAmountUnits) return undefined;
    const message = `Amounts below ${this.#minAmountUnits} units are not settled here.`;
    return { ok: false, code: "PAYMENT_OPTION_UNKNOWN", message };
  }

  #isServed(payTo: Address, seller: Seller | undefined): boolean {
    if (this.#payToAllowed === undefined) return true;
    if (this.#payToAllowed.some((one) => sameAddress(one, payTo))) return true;
    if (seller === undefined) return false;
    return seller.receivers.length === 0 || seller.receivers.some((one) => sameAddress(one, payTo));
  }

  /** Refuses a sale that costs more than it brings, by the operator's rule. */
  unprofitable(verified: VerifiedPayment, seller: Seller | undefined): PaymentRefusal | undefined {
    const serviceId = this.#sellers.serviceOf(verified.payment, seller);
    return this.#settler.refusal?.({ ...saleOf(verified), serviceId });
  }

  /** Whether the signature is the payer's, where that needs no chain. */
  signer(payment: DecodedPayment): ReturnType<EvmVerifier["checkSigner"]> {
    return this.#verifier.checkSigner(payment);
  }

  /** `signer` is whose signature it is, where that is known; `isFirst` is false when the payment is checked again. */
  async verify(
    { payment, seller, client }: PresentedSale,
    signal: AbortSignal,
    isFirst = true,
    signer?: "payer" | "unknown",
  ): Promise<Verification> {
    const refused = this.unserved(payment, seller);
    if (refused !== undefined) return refused;
    const free = await this.#verifier.checkFree(payment, signer);
    if (!free.ok) return free;
    // Only the payer's own signature counts for it: with any other, a third party could have it refused.
    const waitSeconds = free.signer === "payer" && isFirst ? this.#payers.waitSeconds(payerName(payment)) : 0;
    return waitSeconds > 0 ? rateLimited(waitSeconds) : this.#verifier.checkChain(payment, free.signer, signal, client);
  }

  /** What a seller asks before its work: a payment that would not be settled for its cost is no good either. */
  async verifySale(sale: PresentedSale, signal: AbortSignal): Promise<Verification> {
    const verified = await this.verify(sale, signal);
    return verified.ok ? (this.unprofitable(verified, sale.seller) ?? verified) : verified;
  }
}

/** The key of a payer's tokens in the limit of what does not pay. */
export function payerName({ option, authorization }: DecodedPayment): string {
  return `${option.network} ${authorization.from.toLowerCase()}`;
}
