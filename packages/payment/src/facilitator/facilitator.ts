import {
  type Address,
  bytesEqual,
  type Clock,
  type ErrorCode,
  errorRow,
  isAppError,
  type Log,
  type Metrics,
  type NetworkId,
  type ServiceId,
  type SettlementId,
  sameAddress,
} from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import { pause } from "../engine/waiters.ts";
import { FundedClaims } from "../funded-claims.ts";
import type { Ledger } from "../ledger-types.ts";
import { newRecord, type PaymentPurpose, paymentKey, saleOf, settledBy, standingOf } from "../record.ts";
import type { Settler } from "../settler.ts";
import type {
  DecodedPayment,
  PaymentRecord,
  PaymentRefusal,
  StoredAnswer,
  Verification,
  VerifiedPayment,
} from "../types.ts";
import { endRefused, type UnpaidAttempt, UnpaidLimit, type UnpaidRule } from "../unpaid-limit.ts";
import type { EvmVerifier } from "../verify/verifier.ts";
import { facilitatorRequestsTotal } from "./metrics.ts";
import { reasonOf } from "./reasons.ts";
import { type FacilitatorAsset, type FacilitatorRequest, readRequest } from "./request.ts";

/** Answer of `POST /verify` (x402 v2 `VerifyResponse`). */
export interface VerifyResponse {
  readonly isValid: boolean;
  readonly invalidReason?: string;
  readonly invalidMessage?: string;
  readonly payer?: Address;
}

/** Answer of `POST /settle` (x402 v2 `SettleResponse`). */
export interface SettleResponse {
  readonly success: boolean;
  /** Empty while there is none. */
  readonly transaction: string;
  readonly network: NetworkId;
  readonly payer?: Address;
  readonly amount?: string;
  readonly errorReason?: string;
  readonly errorMessage?: string;
}

/** Answer of `GET /supported` (x402 v2 `SupportedResponse`). */
export interface SupportedResponse {
  readonly kinds: readonly { readonly x402Version: 2; readonly scheme: "exact"; readonly network: NetworkId }[];
  readonly extensions: readonly string[];
  /** Addresses that send settlements, by CAIP-2 pattern. */
  readonly signers: Readonly<Record<string, readonly Address[]>>;
}

/** An answer with its HTTP status; `error` stands for the error body of that code. */
export type FacilitatorResult<T> =
  | { readonly kind: "answer"; readonly body: T }
  | {
      readonly kind: "error";
      readonly code: ErrorCode;
      readonly message?: string;
      /** When it may be asked again, where that is known. */
      readonly retryAfterSeconds?: number | undefined;
    };

/** Options of {@link createFacilitator}. */
export interface FacilitatorOptions {
  readonly assets: readonly FacilitatorAsset[];
  /** Receivers that are served; any when undefined. */
  readonly payToAllowed?: readonly Address[];
  /** Least amount that is settled, in the asset's smallest unit, since each costs gas; 1,000 by default, never below 1. */
  readonly minAmountUnits?: bigint;
  /** How long `/settle` waits before it says that the settlement is pending; below the client's 90 seconds. */
  readonly settleWaitMs: number;
  /** Most requests that wait for payments which other requests brought; 64 by default, and 16 of them for one payment. */
  readonly maxCopies?: number;
  /** Addresses of the relayer keys, for `/supported`. */
  readonly signers?: readonly Address[];
  /** Requests of one client that may end without a settlement, or be under way. A client is a seller with many payers. */
  readonly unpaidPerClient: () => UnpaidRule;
  /** Settlements of one payer, over all clients, that may fail or be under way. */
  readonly unpaidPerPayer: () => UnpaidRule;
}

/** What {@link createFacilitator} works with. It owns none of them. */
export interface FacilitatorModules {
  readonly verifier: Pick<EvmVerifier, "checkFree" | "checkChain" | "checkSigner">;
  /** A ledger of its own: the gateway's claims are for requests, these are for requirements. */
  readonly ledger: Ledger;
  readonly settler: Settler;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Verifies and settles payments for resource servers. Handlers take the request's body as bytes. */
export interface Facilitator {
  /** `client` names who asks, for the limit of what does not pay. */
  verify(body: Uint8Array, signal: AbortSignal, client: string): Promise<FacilitatorResult<VerifyResponse>>;
  /** Idempotent: the same payment for the same requirements has one result, however often it is asked for. */
  settle(body: Uint8Array, signal: AbortSignal, client: string): Promise<FacilitatorResult<SettleResponse>>;
  supported(): SupportedResponse;
  /** What is missing before payments can be settled; empty when ready. */
  missing(): Promise<readonly string[]>;
}

const SERVICE = "facilitator" as ServiceId;
/** The ledger keeps an answer with every settlement; here the receipt itself is the answer. */
const ANSWER: StoredAnswer = { contentType: "application/json", body: new Uint8Array(Buffer.from("{}")) };
const CLAIM_POLL_MS = 100;
/** Copies of one payment that may wait at once: each holds a request open, and costs its sender nothing. */
const MAX_COPIES_OF_ONE = 16;

/** Pending payments that are remembered: as many as {@link UnpaidLimit} does. */
const PENDING = { maxEntries: 10_000, ttlMs: 3_600_000 };

/** The result of a settlement, and whose work it was. */
interface Settling {
  readonly result: FacilitatorResult<SettleResponse>;
  /** Of the payment in the ledger. */
  readonly id?: SettlementId;
  /** True when this request claimed it; else another one did, or none. */
  readonly isOwn?: boolean;
}

/** Ends an attempt by what came of a settle request. */
function endSettling(limit: UnpaidLimit, attempt: UnpaidAttempt, { result, id, isOwn = false }: Settling): void {
  if (result.kind === "error") {
    endRefused(attempt, result.code);
    return;
  }
  const { success } = result.body;
  const wasPending = success && id !== undefined && limit.settled(id);
  if (success && (isOwn || wasPending)) attempt.paid();
  // A seller asks for a payment again until it is settled: that costs no token, and earns none.
  else if (!isOwn && (success || isPending(result))) attempt.excused();
  else if (isPending(result)) attempt.unpaid(id);
  else attempt.unpaid();
}

/** Creates a facilitator. */
export function createFacilitator(opts: FacilitatorOptions, modules: FacilitatorModules): Facilitator {
  const { verifier, ledger, settler, clock, log, metrics } = modules;
  const fundedClaims = new FundedClaims();
  const networks = [...new Set(opts.assets.map(({ network }) => network))];

  const clients = new UnpaidLimit(opts.unpaidPerClient, modules);
  const payers = new UnpaidLimit(opts.unpaidPerPayer, modules);
  /** Payments that a request left pending: their outcome costs no token, so that a seller without one still gets it. */
  const pending = new BoundedMap<string, true>(PENDING);

  const wanted = opts.minAmountUnits ?? 1_000n;
  const minAmountUnits = wanted > 1n ? wanted : 1n;

  /** What is not settled here, whoever asks: every settlement costs this facilitator gas. */
  const unserved = ({ option }: DecodedPayment): PaymentRefusal | undefined => {
    const { payToAllowed } = opts;
    if (payToAllowed !== undefined && !payToAllowed.some((one) => sameAddress(one, option.payTo))) {
      return { ok: false, code: "PAYMENT_RECEIVER_MISMATCH", message: "This receiver is not served here." };
    }
    if (BigInt(option.amount) >= minAmountUnits) return undefined;
    const message = `Amounts below ${minAmountUnits} units are not settled here.`;
    return { ok: false, code: "PAYMENT_OPTION_UNKNOWN", message };
  };

  /** What a seller asks before its work: a payment that would not be settled for its cost is no good either. */
  const checkSale = async (payment: DecodedPayment, signal: AbortSignal): Promise<Verification> => {
    const verified = await check(payment, signal);
    return verified.ok ? (settler.refusal?.(saleOf(verified)) ?? verified) : verified;
  };

  /** `signer` is whose signature it is, where that is known. */
  const check = async (
    payment: DecodedPayment,
    signal: AbortSignal,
    isFirst = true,
    signer?: "payer" | "unknown",
  ): Promise<Verification> => {
    const refused = unserved(payment);
    if (refused !== undefined) return refused;
    const free = await verifier.checkFree(payment, signer);
    if (!free.ok) return free;
    // Only the payer's own signature counts for it: with any other, a third party could have it refused.
    const waitSeconds = free.signer === "payer" && isFirst ? payers.waitSeconds(payerName(payment)) : 0;
    return waitSeconds > 0 ? limited(waitSeconds) : verifier.checkChain(payment, free.signer, signal);
  };

  const count = (endpoint: string, result: string): void =>
    metrics.count(facilitatorRequestsTotal, { endpoint, result });

  /** Refusals that are about us are errors: said as invalid, they would make a payer sign again. */
  const isOurs = ({ code }: PaymentRefusal): boolean => errorRow(code).http >= 500 || code === "PAYMENT_RATE_LIMITED";

  const asError = <T>({ code, retryAfterSeconds }: PaymentRefusal): FacilitatorResult<T> => ({
    kind: "error",
    code,
    retryAfterSeconds,
  });

  const failedWith = (
    { network, payer }: { readonly network: NetworkId; readonly payer: Address },
    code: ErrorCode,
    message?: string,
  ): FacilitatorResult<SettleResponse> => ({
    kind: "answer",
    body: {
      success: false,
      errorReason: reasonOf(code),
      errorMessage: message ?? errorRow(code).message,
      payer,
      transaction: "",
      network,
    },
  });

  const standing = (record: PaymentRecord, payment: DecodedPayment): FacilitatorResult<SettleResponse> => {
    const { network } = payment.option;
    const payer = payment.authorization.from;
    const transaction = record.evidence?.transaction ?? record.transaction ?? "";
    switch (record.state) {
      case "settled":
      case "owed":
        return {
          kind: "answer",
          body: { success: true, transaction, network, payer, amount: record.value.toString() },
        };
      case "claimed":
      case "signed":
      case "submitted":
        return {
          kind: "answer",
          body: {
            success: false,
            errorReason: "settlement_pending",
            errorMessage: "The settlement is on its way. Ask again with the same payload.",
            transaction,
            network,
            payer,
          },
        };
      case "released":
        return { kind: "error", code: record.reason ?? "SETTLEMENT_UNAVAILABLE" };
      case "failed":
      case "disputed":
        return failedWith(partiesOf(payment), record.reason ?? "PAYMENT_SETTLEMENT_FAILED");
    }
  };

  let copies = 0;
  const copiesOf = new Map<SettlementId, number>();

  /** Runs `work` as one of the copies that may wait at once; `instead` where there are too many. */
  const asCopy = async <T>(id: SettlementId, work: () => Promise<T>, instead: () => T): Promise<T> => {
    const others = copiesOf.get(id) ?? 0;
    if (copies >= (opts.maxCopies ?? 64) || others >= MAX_COPIES_OF_ONE) return instead();
    copies++;
    copiesOf.set(id, others + 1);
    try {
      return await work();
    } finally {
      copies--;
      const left = (copiesOf.get(id) ?? 1) - 1;
      if (left > 0) copiesOf.set(id, left);
      else copiesOf.delete(id);
    }
  };

  /** The result of a payment that is in the ledger, after waiting for its end where there is a place to wait. */
  const join = async (
    found: PaymentRecord,
    { payment, requirementsDigest }: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<Settling> => {
    const same =
      bytesEqual(found.payloadDigest, payment.payloadDigest) && bytesEqual(found.requestHash, requirementsDigest);
    if (!same) return { result: failedWith(partiesOf(payment), "PAYMENT_CONFLICT") };
    const result = await asCopy(
      found.id,
      async () => standing(await ended(found, signal), payment),
      () => standing(found, payment),
    );
    if (result.kind === "answer" && result.body.success) payers.settled(found.id);
    return { result, id: found.id };
  };

  const ended = async (found: PaymentRecord, signal: AbortSignal): Promise<PaymentRecord> => {
    let record = found;
    while (record.state === "claimed" && !signal.aborted) {
      await pause(CLAIM_POLL_MS, signal);
      record = await standingOf(ledger, record);
    }
    if (record.state === "signed" || record.state === "submitted") {
      await settler.wait(record, signal);
      record = await standingOf(ledger, record);
    }
    return record;
  };

  const start = async (
    verified: VerifiedPayment,
    request: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<Settling> => {
    const { payment } = request;
    if (settler.missing(payment.option.network).length > 0) {
      return { result: { kind: "error", code: "SETTLEMENT_UNAVAILABLE" } };
    }
    const unprofitable = settler.refusal?.(saleOf(verified));
    if (unprofitable !== undefined) return refusedAfter(request, unprofitable, signal);
    const attempt = payers.begin(payerName(payment));
    if (!attempt.ok) return refusedAfter(request, limited(attempt.waitSeconds), signal);
    try {
      const settling = await claimAndSettle(verified, request, signal);
      if (settling.isOwn === true) endSettling(payers, attempt, settling);
      return settling;
    } finally {
      // What was not claimed counts for the client alone: accounts without funds cost nothing to make.
      attempt.excused();
    }
  };

  const claimAndSettle = async (
    verified: VerifiedPayment,
    request: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<Settling> => {
    const { payment } = request;
    const record = newRecord(verified, purposeOf(request), clock.nowMs());
    const funded = await fundedClaims.claim(verified, {
      claim: ({ balance, blockNumber }) => ledger.claim({ ...record, balance, balanceBlock: blockNumber }),
      verify: () => check(payment, signal, false),
      pollMs: CLAIM_POLL_MS,
      limit: () => signal,
    });
    if (!funded.ok) return refusedAfter(request, funded, signal);
    const { claim } = funded;
    if (claim.kind === "insufficient") {
      return refusedAfter(request, { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" }, signal);
    }
    if (claim.kind === "blocked") return { result: failedWith(partiesOf(payment), "PAYMENT_PAYER_BLOCKED") };
    if (claim.kind !== "claimed") return join(claim.record, request, signal);
    const result = await settleClaim({ ...record, id: claim.id }, payment, signal);
    return { result, id: claim.id, isOwn: true };
  };

  const settleClaim = async (
    claimed: PaymentRecord,
    payment: DecodedPayment,
    signal: AbortSignal,
  ): Promise<FacilitatorResult<SettleResponse>> => {
    const { id } = claimed;
    try {
      const evidence = await settler.settle(claimed, ANSWER, signal);
      if (evidence !== undefined) return standing(settledBy(claimed, evidence), payment);
    } catch (error) {
      const code = isAppError(error) ? error.code : "SETTLEMENT_UNAVAILABLE";
      log.warn({ settlementId: id, code }, "a settlement was not committed");
      const released = await ledger.release(id, code);
      if (!released) return standing(await standingOf(ledger, claimed), payment);
      return errorRow(code).http === 402
        ? failedWith(partiesOf(payment), code)
        : { kind: "error", code: "SETTLEMENT_UNAVAILABLE" };
    }
    const now = await standingOf(ledger, claimed).catch(async (error: unknown) => {
      // Where nothing was committed the claim must not stay; what was committed is not released by this. A release that
      // fails is made up for by the ledger.
      await ledger.release(id, "SETTLEMENT_UNAVAILABLE").catch(() => undefined);
      throw error;
    });
    // Not committed when its time was up. A commit that still comes is refused, or was first: then nothing is released.
    if (now.id !== id || now.state !== "claimed") return standing(now, payment);
    return (await ledger.release(id, "SETTLEMENT_UNAVAILABLE"))
      ? { kind: "error", code: "SETTLEMENT_UNAVAILABLE" }
      : standing(await standingOf(ledger, claimed), payment);
  };

  const refusedWith = (payment: DecodedPayment, refusal: PaymentRefusal): FacilitatorResult<SettleResponse> =>
    isOurs(refusal) ? asError(refusal) : failedWith(partiesOf(payment), refusal.code, refusal.message);

  /** `unlessKnown` is the refusal of a payment that would have to be begun. */
  const settleRead = async (
    request: FacilitatorRequest,
    limit: AbortSignal,
    unlessKnown?: PaymentRefusal,
  ): Promise<Settling> => {
    const { payment } = request;
    const refused = unserved(payment);
    if (refused !== undefined) return { result: refusedWith(payment, refused) };
    // Before the ledger: what anybody can make up must not cost a query.
    const signed = await verifier.checkSigner(payment);
    if (!signed.ok) return { result: refusedWith(payment, signed) };
    const known = await ledger.find(paymentKey(payment.option, payment));
    if (known !== undefined && known.state !== "released") return join(known, request, limit);
    if (unlessKnown !== undefined) return { result: refusedWith(payment, unlessKnown) };
    const verified = await check(payment, limit, true, signed.signer);
    return verified.ok ? start(verified, request, limit) : refusedAfter(request, verified, limit);
  };

  /**
   * A refusal of a payment that was not in the ledger when it was looked for. The same payload may have been claimed and
   * settled meanwhile by another request, which is what the chain refuses: said as failed, its payer would pay twice.
   */
  const refusedAfter = async (
    request: FacilitatorRequest,
    refusal: PaymentRefusal,
    signal: AbortSignal,
  ): Promise<Settling> => {
    const { payment } = request;
    const now = await ledger.find(paymentKey(payment.option, payment));
    return now === undefined || now.state === "released"
      ? { result: refusedWith(payment, refusal) }
      : join(now, request, signal);
  };

  const waitLimit = (signal: AbortSignal): AbortSignal =>
    AbortSignal.any([signal, AbortSignal.timeout(opts.settleWaitMs)]);

  /** The answer to a client without tokens: the outcome of a payment that was pending, or the refusal. */
  const outcomeOrRefusal = async (
    body: Uint8Array,
    signal: AbortSignal,
    refusal: PaymentRefusal,
  ): Promise<FacilitatorResult<SettleResponse>> => {
    const read = readRequest(body, opts.assets);
    const wasPending =
      read.kind === "read" && pending.get(paymentName(read.request.payment), clock.monotonicMs()) !== undefined;
    if (!wasPending) return asError(refusal);
    const { result, id } = await settleRead(read.request, waitLimit(signal), refusal);
    if (id !== undefined && result.kind === "answer" && result.body.success) clients.settled(id);
    return result;
  };

  const countSettle = (result: FacilitatorResult<SettleResponse>): void =>
    count("settle", result.kind === "error" ? result.code : (result.body.errorReason ?? "success"));

  return {
    async verify(body, signal, client) {
      const attempt = clients.begin(client);
      if (!attempt.ok) {
        count("verify", "PAYMENT_RATE_LIMITED");
        return asError(limited(attempt.waitSeconds));
      }
      try {
        const read = readRequest(body, opts.assets);
        if (read.kind === "malformed") {
          count("verify", "malformed");
          return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
        }
        const result = read.kind === "refused" ? read.refusal : await checkSale(read.request.payment, signal);
        count("verify", result.ok ? "valid" : result.code);
        if (result.ok) attempt.excused();
        else endRefused(attempt, result.code);
        if (!result.ok && isOurs(result)) return asError(result);
        const payer = read.kind === "read" ? read.request.payment.authorization.from : read.payer;
        if (result.ok) return { kind: "answer", body: { isValid: true, payer } };
        const invalidMessage = result.message ?? errorRow(result.code).message;
        const invalidReason = reasonOf(result.code);
        return { kind: "answer", body: { isValid: false, invalidReason, invalidMessage, payer } };
      } catch (error) {
        if (isAppError(error)) endRefused(attempt, error.code);
        else attempt.excused();
        throw error;
      } finally {
        attempt.unpaid();
      }
    },

    async settle(body, signal, client) {
      const attempt = clients.begin(client);
      if (!attempt.ok) {
        const result = await outcomeOrRefusal(body, signal, limited(attempt.waitSeconds));
        countSettle(result);
        return result;
      }
      try {
        const read = readRequest(body, opts.assets);
        if (read.kind === "malformed") {
          count("settle", "malformed");
          return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
        }
        if (read.kind === "refused") {
          count("settle", read.refusal.code);
          return failedWith(read, read.refusal.code, read.refusal.message);
        }
        const settling = await settleRead(read.request, waitLimit(signal));
        endSettling(clients, attempt, settling);
        const { result } = settling;
        if (isPending(result)) pending.set(paymentName(read.request.payment), true, clock.monotonicMs());
        countSettle(result);
        return result;
      } catch (error) {
        if (isAppError(error)) endRefused(attempt, error.code);
        else attempt.excused();
        throw error;
      } finally {
        attempt.unpaid();
      }
    },

    supported: () => ({
      kinds: networks.map((network) => ({ x402Version: 2, scheme: "exact", network })),
      extensions: [],
      signers: { "eip155:*": opts.signers ?? [] },
    }),

    async missing() {
      const ledgerReady = await ledger.ready();
      // One network that settles is enough: a payment of another is refused by itself.
      const each = networks.map((network) => settler.missing(network));
      const lacking = each.some((what) => what.length === 0) ? [] : [...new Set(each.flat())];
      return [...(ledgerReady ? [] : ["ledger"]), ...lacking];
    },
  };
}

function partiesOf({ option, authorization }: DecodedPayment): { network: NetworkId; payer: Address } {
  return { network: option.network, payer: authorization.from };
}

function purposeOf(request: FacilitatorRequest): PaymentPurpose {
  return { serviceId: SERVICE, requestHash: request.requirementsDigest, identifier: undefined };
}

function limited(retryAfterSeconds: number): PaymentRefusal {
  return { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds };
}

const isPending = (result: FacilitatorResult<SettleResponse>): boolean =>
  result.kind === "answer" && result.body.errorReason === "settlement_pending";

function paymentName(payment: DecodedPayment): string {
  const { network, asset, from, nonce } = paymentKey(payment.option, payment);
  return `${network} ${asset} ${from} ${nonce.toLowerCase()}`;
}

function payerName({ option, authorization }: DecodedPayment): string {
  return `${option.network} ${authorization.from.toLowerCase()}`;
}
