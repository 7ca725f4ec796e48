import {
  type Address,
  bytesToHex,
  type Clock,
  type ErrorCode,
  errorRow,
  isAppError,
  type Log,
  type Metrics,
  type NetworkId,
} from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { BoundedMap } from "../bounded-map.ts";
import type { Ledger } from "../ledger-types.ts";
import { paymentKey } from "../record.ts";
import type { Settler } from "../settler.ts";
import type { DecodedPayment, PaymentRefusal, Verification } from "../types.ts";
import { endRefused, type UnpaidAttempt, UnpaidLimit, type UnpaidRule } from "../unpaid-limit.ts";
import type { EvmVerifier } from "../verify/verifier.ts";
import { SaleBudgets } from "./budgets.ts";
import { bindingOf, type SettleCaller } from "./caller.ts";
import { facilitatorRequestsTotal } from "./metrics.ts";
import { type PaymentCheckOptions, PaymentChecks, type PresentedSale, payerName } from "./payment-checks.ts";
import { type FacilitatorAsset, readRequest } from "./request.ts";
import {
  DUPLICATE_REASON,
  type FacilitatorResult,
  failedWith,
  isOurFault,
  isPending,
  rateLimited,
  reasonOf,
  refusalError,
  type SettleResponse,
  type SupportedResponse,
  type VerifyResponse,
} from "./results.ts";
import { type Seller, type SellerOptions, Sellers } from "./sellers.ts";
import { endSettling, FacilitatorSettlement, type SettleRequest } from "./settlement.ts";

/** What a facilitator settles, and how much of what does not pay it bears. */
export interface FacilitatorOptions extends PaymentCheckOptions {
  readonly assets: readonly FacilitatorAsset[];
  /** How long `/settle` waits before it says that the settlement is pending; below the client's 90 seconds. */
  readonly settleWaitMs: number;
  /** Most requests that wait for payments which other requests brought; 64 by default, and 16 of them for one payment. */
  readonly maxCopies?: number;
  /** Addresses of the relayer keys, for `/supported`. */
  readonly signers?: readonly Address[];
  /** Sellers whose sales are settled, and how many a day. By default the served receivers are the operator's own. */
  readonly sellers?: SellerOptions;
  /** Requests of one client that may end without a settlement, or be under way. A client is a seller with many payers. */
  readonly unpaidPerClient: () => UnpaidRule;
  /** Settlements of one payer, over all clients, that may fail or be under way. */
  readonly unpaidPerPayer: () => UnpaidRule;
}

/** Modules of a {@link Facilitator}, which owns none of them. */
export interface FacilitatorModules {
  readonly verifier: Pick<EvmVerifier, "checkFree" | "checkChain" | "checkSigner" | "readFunds">;
  /** A ledger of its own: the gateway's claims are for requests, these are for requirements. */
  readonly ledger: Ledger;
  readonly settler: Settler;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Pending payments that are remembered: as many as {@link UnpaidLimit} does. */
const PENDING = { maxEntries: 10_000, ttlMs: 3_600_000 };

/** Good verifications that are remembered. While one is, the same request costs the chain nothing. */
const VERIFIED = { maxEntries: 10_000, ttlMs: 2_000 };

/** Refusals of a payment that a settlement, or its payer's others, may be the cause of. */
const AFTER_SETTLEMENT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "PAYMENT_EXPIRED",
  "PAYMENT_INSUFFICIENT_FUNDS",
  "PAYMENT_NONCE_USED",
  "PAYMENT_RATE_LIMITED",
  "PAYMENT_SIMULATION_FAILED",
]);

/** How long it is known whether the ledger is ready. */
const READY_MS = 1_000;

/**
 * Verifies and settles payments for resource servers. Handlers take the request's body as bytes; `client` names the
 * caller, for the limit of what does not pay.
 */
export class Facilitator {
  /** Those of third parties, by their keys. */
  readonly sellers: Sellers;
  readonly #opts: FacilitatorOptions;
  readonly #modules: FacilitatorModules;
  readonly #networks: readonly NetworkId[];
  readonly #clients: UnpaidLimit;
  /** The part of a seller's tokens that one of its payers may spend: a payer can make its payments stay open, and fail. */
  readonly #payerShares: UnpaidLimit;
  readonly #checks: PaymentChecks;
  readonly #budgets: SaleBudgets;
  readonly #settlement: FacilitatorSettlement;
  /** Payments that a request left pending: their outcome costs no token, so that a seller without one still gets it. */
  readonly #pending = new BoundedMap<string, true>(PENDING);
  /** By {@link saleName}. */
  readonly #verified = new BoundedMap<string, Verification>(VERIFIED);

  #isLedgerReady = Promise.resolve(false);
  #readyUntilMs = Number.NEGATIVE_INFINITY;

  constructor(opts: FacilitatorOptions, modules: FacilitatorModules) {
    const { verifier, ledger, settler, clock, log } = modules;
    this.#opts = opts;
    this.#modules = modules;
    this.#networks = [...new Set(opts.assets.map(({ network }) => network))];
    this.#clients = new UnpaidLimit(opts.unpaidPerClient, modules);
    this.#payerShares = new UnpaidLimit(() => tenthOf(opts.unpaidPerClient()), modules);
    const payers = new UnpaidLimit(opts.unpaidPerPayer, modules);
    const sellers = new Sellers(sellerOptionsOf(opts));
    this.sellers = sellers;
    this.#budgets = new SaleBudgets({ ledger, sellers, clock });
    this.#checks = new PaymentChecks(opts, { verifier, settler, payers, sellers });
    this.#settlement = new FacilitatorSettlement(
      { maxCopies: opts.maxCopies ?? 64 },
      { checks: this.#checks, verifier, ledger, settler, payers, sellers, budgets: this.#budgets, clock, log },
    );
  }

  /**
   * Verifies that a payment is valid and would be settled: when a settle request has claimed it, only for the caller that may
   * still have its result. Nothing is claimed. It costs a token, which the payment's settlement gives back.
   */
  async verify(
    body: Uint8Array,
    signal: AbortSignal,
    caller: SettleCaller,
  ): Promise<FacilitatorResult<VerifyResponse>> {
    const attempt = this.#clients.begin(caller.client);
    if (!attempt.ok) {
      this.#count("verify", "PAYMENT_RATE_LIMITED");
      return refusalError(rateLimited(attempt.waitSeconds));
    }
    try {
      return await this.#verifyAs(attempt, body, signal, caller);
    } catch (error) {
      if (isAppError(error)) endRefused(attempt, error.code);
      else attempt.excused();
      throw error;
    } finally {
      attempt.unpaid();
    }
  }

  /**
   * Settles a payment. Its success has one caller, the first one: a copy is refused as `duplicate_settlement`, unless it
   * has the key of that caller.
   */
  async settle(
    body: Uint8Array,
    signal: AbortSignal,
    caller: SettleCaller,
  ): Promise<FacilitatorResult<SettleResponse>> {
    // The time that a payment of a seller takes is its payer's: only the payer's own tokens pay for it.
    const attempt = this.#clients.begin(caller.client, caller.seller === undefined);
    if (!attempt.ok) {
      const result = await this.#outcomeOrRefusal(body, signal, caller, rateLimited(attempt.waitSeconds));
      this.#countSettle(result);
      return result;
    }
    try {
      return await this.#settleAs(attempt, body, signal, caller);
    } catch (error) {
      if (isAppError(error)) endRefused(attempt, error.code);
      else attempt.excused();
      throw error;
    } finally {
      attempt.unpaid();
    }
  }

  /** What `GET /supported` answers. */
  supported(): SupportedResponse {
    return {
      kinds: this.#networks.map((network) => ({ x402Version: 2, scheme: "exact", network })),
      extensions: [],
      signers: { "eip155:*": this.#opts.signers ?? [] },
    };
  }

  /** What is missing before payments can be settled; empty when ready. */
  async missing(): Promise<readonly string[]> {
    const { settler } = this.#modules;
    const isLedgerReady = await this.#askLedger();
    // One network that settles is enough: a payment of another is refused by itself.
    const each = this.#networks.map((network) => settler.missing(network));
    const lacking = each.some((what) => what.length === 0) ? [] : [...new Set(each.flat())];
    return [...(isLedgerReady ? [] : ["ledger"]), ...lacking];
  }

  /** Anyone may ask for the readiness: one question to the ledger answers all within a second, and one is under way. */
  #askLedger(): Promise<boolean> {
    const { ledger, clock } = this.#modules;
    if (clock.monotonicMs() >= this.#readyUntilMs) {
      this.#readyUntilMs = Number.POSITIVE_INFINITY;
      this.#isLedgerReady = ledger.ready().finally(() => {
        this.#readyUntilMs = clock.monotonicMs() + READY_MS;
      });
    }
    return this.#isLedgerReady;
  }

  async #verifyAs(
    attempt: UnpaidAttempt,
    body: Uint8Array,
    signal: AbortSignal,
    caller: SettleCaller,
  ): Promise<FacilitatorResult<VerifyResponse>> {
    const read = readRequest(body, this.#opts.assets);
    if (read.kind === "malformed") {
      this.#count("verify", "malformed");
      return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
    }
    const share = read.kind === "refused" ? undefined : this.#shareOf(read.payment, caller);
    if (share?.ok === false) {
      attempt.excused();
      this.#count("verify", "PAYMENT_RATE_LIMITED");
      return refusalError(rateLimited(share.waitSeconds));
    }
    try {
      const verified =
        read.kind === "refused" ? read.refusal : await this.#verifySale(body, read.payment, caller, signal);
      if (verified.ok) {
        attempt.unpaid(verificationName(verified.payment));
        share?.unpaid(verificationName(verified.payment));
      } else {
        endRefused(attempt, verified.code);
      }
      return await this.#verifyAnswer(read, verified, caller, body);
    } finally {
      share?.excused();
    }
  }

  /** Tokens that one payer may spend of a seller with a key; undefined where the client has no key. */
  #shareOf(payment: DecodedPayment, { client, seller }: SettleCaller): ReturnType<UnpaidLimit["begin"]> | undefined {
    return seller === undefined ? undefined : this.#payerShares.begin(`${client} ${payerName(payment)}`, false);
  }

  async #verifyAnswer(
    read: Exclude<ReturnType<typeof readRequest>, { readonly kind: "malformed" }>,
    verified: Verification,
    caller: SettleCaller,
    body: Uint8Array,
  ): Promise<FacilitatorResult<VerifyResponse>> {
    const mayBeClaimed = read.kind === "read" && (verified.ok || AFTER_SETTLEMENT.has(verified.code));
    const claim = mayBeClaimed ? await this.#claimFor(read.payment, caller, body) : "none";
    const result = claim === "open" ? { ok: true as const } : verified;
    const isDuplicate = result.ok && claim === "duplicate";
    this.#count("verify", isDuplicate ? DUPLICATE_REASON : result.ok ? "valid" : result.code);
    if (!result.ok && isOurFault(result)) return refusalError(result);
    const payer = read.kind === "read" ? read.payment.authorization.from : read.payer;
    if (isDuplicate) {
      const reason = {
        invalidReason: DUPLICATE_REASON,
        invalidMessage: "This payment is settled for another request.",
      };
      return { kind: "answer", body: { isValid: false, ...reason, payer } };
    }
    if (result.ok) return { kind: "answer", body: { isValid: true, payer } };
    const invalidMessage = result.message ?? errorRow(result.code).message;
    const invalidReason = reasonOf(result.code);
    return { kind: "answer", body: { isValid: false, invalidReason, invalidMessage, payer } };
  }

  #claimFor(payment: DecodedPayment, caller: SettleCaller, body: Uint8Array): Promise<"none" | "open" | "duplicate"> {
    return this.#settlement.claimFor(payment, requestOf(payment, caller, body).binding);
  }

  /** A payment whose settlement is over a budget of the day is no good to a seller, either. */
  async #verifySale(
    body: Uint8Array,
    payment: DecodedPayment,
    { client, seller }: SettleCaller,
    signal: AbortSignal,
  ): Promise<Verification> {
    const { clock } = this.#modules;
    const name = saleName(body, seller);
    const known = this.#verified.get(name, clock.monotonicMs());
    if (known !== undefined) return known;
    const sale: PresentedSale = { payment, client, seller };
    const verified = await this.#checks.verifySale(sale, signal);
    const result = verified.ok ? ((await this.#budgets.refusal({ ...sale, gas: verified.gas })) ?? verified) : verified;
    if (result.ok) this.#verified.set(name, result, clock.monotonicMs());
    return result;
  }

  async #settleAs(
    attempt: UnpaidAttempt,
    body: Uint8Array,
    signal: AbortSignal,
    caller: SettleCaller,
  ): Promise<FacilitatorResult<SettleResponse>> {
    const read = readRequest(body, this.#opts.assets);
    if (read.kind === "malformed") {
      this.#count("settle", "malformed");
      return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
    }
    if (read.kind === "refused") {
      this.#count("settle", read.refusal.code);
      return failedWith(read, read.refusal.code, read.refusal.message);
    }
    const { payment } = read;
    const share = this.#shareOf(payment, caller);
    if (share?.ok === false) {
      attempt.excused();
      const result = await this.#outcomeOrRefusal(body, signal, caller, rateLimited(share.waitSeconds));
      this.#countSettle(result);
      return result;
    }
    try {
      const settling = await this.#settlement.settle(requestOf(payment, caller, body), this.#waitLimit(signal));
      endSettling(this.#clients, attempt, settling);
      if (share !== undefined) endSettling(this.#payerShares, share, settling);
      const { result } = settling;
      if (isSuccess(result)) this.#returnVerification(payment);
      if (isPending(result)) {
        this.#pending.set(paymentName(payment), true, this.#modules.clock.monotonicMs());
      }
      this.#countSettle(result);
      return result;
    } finally {
      share?.excused();
    }
  }

  /** The answer to a client without tokens: the outcome of a payment that was pending, or the refusal. */
  async #outcomeOrRefusal(
    body: Uint8Array,
    signal: AbortSignal,
    caller: SettleCaller,
    refusal: PaymentRefusal,
  ): Promise<FacilitatorResult<SettleResponse>> {
    const read = readRequest(body, this.#opts.assets);
    const nowMs = this.#modules.clock.monotonicMs();
    const wasPending = read.kind === "read" && this.#pending.get(paymentName(read.payment), nowMs) !== undefined;
    if (!wasPending) return refusalError(refusal);
    const request = requestOf(read.payment, caller, body);
    const { result, id } = await this.#settlement.settle(request, this.#waitLimit(signal), refusal);
    if (id !== undefined && isSuccess(result)) {
      this.#clients.settled(id);
      this.#payerShares.settled(id);
      this.#returnVerification(request.payment);
    }
    return result;
  }

  #returnVerification(payment: DecodedPayment): void {
    this.#clients.settled(verificationName(payment));
    this.#payerShares.settled(verificationName(payment));
  }

  #waitLimit(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, AbortSignal.timeout(this.#opts.settleWaitMs)]);
  }

  #count(endpoint: string, result: string): void {
    this.#modules.metrics.count(facilitatorRequestsTotal, { endpoint, result });
  }

  #countSettle(result: FacilitatorResult<SettleResponse>): void {
    this.#count("settle", result.kind === "error" ? result.code : (result.body.errorReason ?? "success"));
  }
}

function requestOf(payment: DecodedPayment, caller: SettleCaller, body: Uint8Array): SettleRequest {
  const { client, seller, end } = caller;
  return { payment, binding: bindingOf(caller, payment.identifier, body), client, seller, end };
}

function isSuccess(result: FacilitatorResult<SettleResponse>): boolean {
  return result.kind === "answer" && result.body.success;
}

/** Names the cost of a payment's verifications. */
function verificationName(payment: DecodedPayment): string {
  return `verify ${paymentName(payment)}`;
}

/** Names a verification by all that it depends on beside the chain. */
function saleName(body: Uint8Array, seller: Seller | undefined): string {
  return `${bytesToHex(sha256(body))} ${seller?.name ?? ""}`;
}

function paymentName(payment: DecodedPayment): string {
  const { network, asset, from, nonce } = paymentKey(payment.option, payment);
  return `${network} ${asset} ${from} ${nonce.toLowerCase()}`;
}

function tenthOf({ burst, perSecond }: UnpaidRule): UnpaidRule {
  return { burst: Math.max(1, Math.floor(burst / 10)), perSecond: perSecond / 10 };
}

/** Without sellers of third parties there is nothing to bound: what is settled brings its amount. */
function sellerOptionsOf({ sellers, payToAllowed = [] }: FacilitatorOptions): SellerOptions {
  const keyless = { settlementsPerDay: 10_000, settlementsPerPayer: 250, settlementsPerReceiver: 2_500 };
  return sellers ?? { ownReceivers: payToAllowed, sellers: [], keyless };
}
