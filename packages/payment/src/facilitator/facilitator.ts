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
import { pause } from "../engine/waiters.ts";
import type { Ledger } from "../ledger-types.ts";
import type { Settler } from "../settler.ts";
import type {
  DecodedPayment,
  PaymentKey,
  PaymentRecord,
  PaymentRefusal,
  StoredAnswer,
  Verification,
  VerifiedPayment,
  Verifier,
} from "../types.ts";
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
  | { readonly kind: "error"; readonly code: ErrorCode; readonly message?: string };

/** Options of {@link createFacilitator}. */
export interface FacilitatorOptions {
  readonly assets: readonly FacilitatorAsset[];
  /** Receivers that are served; any when undefined. */
  readonly payToAllowed?: readonly Address[];
  /** How long `/settle` waits before it says that the settlement is pending; below the client's 90 seconds. */
  readonly settleWaitMs: number;
  /** Addresses of the relayer keys, for `/supported`. */
  readonly signers?: readonly Address[];
}

/** What {@link createFacilitator} works with. It owns none of them. */
export interface FacilitatorModules {
  readonly verifier: Verifier;
  /** A ledger of its own: the gateway's claims are for requests, these are for requirements. */
  readonly ledger: Ledger;
  readonly settler: Settler;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Verifies and settles payments for resource servers. Handlers take the request's body as bytes. */
export interface Facilitator {
  verify(body: Uint8Array, signal: AbortSignal): Promise<FacilitatorResult<VerifyResponse>>;
  /** Idempotent: the same payment for the same requirements has one result, however often it is asked for. */
  settle(body: Uint8Array, signal: AbortSignal): Promise<FacilitatorResult<SettleResponse>>;
  supported(): SupportedResponse;
  /** What is missing before payments can be settled; empty when ready. */
  missing(): Promise<readonly string[]>;
}

const SERVICE = "facilitator" as ServiceId;
/** The ledger keeps an answer with every settlement; here the receipt itself is the answer. */
const ANSWER: StoredAnswer = { contentType: "application/json", body: new Uint8Array(Buffer.from("{}")) };
const CLAIM_POLL_MS = 100;

/** Creates a facilitator. */
export function createFacilitator(opts: FacilitatorOptions, modules: FacilitatorModules): Facilitator {
  const { verifier, ledger, settler, clock, log, metrics } = modules;
  const networks = [...new Set(opts.assets.map(({ network }) => network))];

  const check = async (payment: DecodedPayment, signal: AbortSignal): Promise<Verification> => {
    const { payToAllowed } = opts;
    if (payToAllowed !== undefined && !payToAllowed.some((one) => sameAddress(one, payment.option.payTo))) {
      return { ok: false, code: "PAYMENT_RECEIVER_MISMATCH", message: "This receiver is not served here." };
    }
    const free = await verifier.checkFree(payment);
    return free.ok ? verifier.checkChain(payment, free.signer, signal) : free;
  };

  const count = (endpoint: string, result: string): void =>
    metrics.count(facilitatorRequestsTotal, { endpoint, result });

  /** Refusals that are about us are errors: said as invalid, they would make a payer sign again. */
  const isOurs = ({ code }: PaymentRefusal): boolean => errorRow(code).http >= 500;

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

  /** The result of a payment that is in the ledger, after waiting for its end. */
  const join = async (
    found: PaymentRecord,
    { payment, requirementsDigest }: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<FacilitatorResult<SettleResponse>> => {
    const same =
      bytesEqual(found.payloadDigest, payment.payloadDigest) && bytesEqual(found.requestHash, requirementsDigest);
    if (!same) return failedWith(partiesOf(payment), "PAYMENT_CONFLICT");
    let record = found;
    while (record.state === "claimed" && !signal.aborted) {
      await pause(CLAIM_POLL_MS, signal);
      record = (await ledger.get(record.id)) ?? record;
    }
    if (record.state === "signed" || record.state === "submitted") {
      await settler.wait(record, signal);
      record = (await ledger.get(record.id)) ?? record;
    }
    return standing(record, payment);
  };

  const start = async (
    verified: VerifiedPayment,
    request: FacilitatorRequest,
    signal: AbortSignal,
  ): Promise<FacilitatorResult<SettleResponse>> => {
    const { payment } = request;
    if (settler.missing().length > 0) return { kind: "error", code: "SETTLEMENT_UNAVAILABLE" };
    const record = recordOf(verified, request, clock.nowMs());
    const claim = await ledger.claim({ ...record, balance: verified.balance, balanceBlock: verified.blockNumber });
    if (claim.kind === "insufficient") return failedWith(partiesOf(payment), "PAYMENT_INSUFFICIENT_FUNDS");
    if (claim.kind !== "claimed") return join(claim.record, request, signal);
    const claimed = { ...record, id: claim.id };
    try {
      await settler.settle(claimed, ANSWER, signal);
    } catch (error) {
      const code = isAppError(error) ? error.code : "SETTLEMENT_UNAVAILABLE";
      log.warn({ settlementId: claim.id, code }, "a settlement was not committed");
      const released = await ledger.release(claim.id, code);
      if (!released) return standing((await ledger.get(claim.id)) ?? claimed, payment);
      return code === "PAYMENT_EXPIRED"
        ? failedWith(partiesOf(payment), code)
        : { kind: "error", code: "SETTLEMENT_UNAVAILABLE" };
    }
    return standing((await ledger.get(claim.id)) ?? claimed, payment);
  };

  return {
    async verify(body, signal) {
      const read = readRequest(body, opts.assets);
      if (read.kind === "malformed") {
        count("verify", "malformed");
        return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
      }
      const result = read.kind === "refused" ? read.refusal : await check(read.request.payment, signal);
      count("verify", result.ok ? "valid" : result.code);
      if (!result.ok && isOurs(result)) return { kind: "error", code: result.code };
      const payer = read.kind === "read" ? read.request.payment.authorization.from : read.payer;
      if (result.ok) return { kind: "answer", body: { isValid: true, payer } };
      const invalidMessage = result.message ?? errorRow(result.code).message;
      return { kind: "answer", body: { isValid: false, invalidReason: reasonOf(result.code), invalidMessage, payer } };
    },

    async settle(body, signal) {
      const read = readRequest(body, opts.assets);
      if (read.kind === "malformed") {
        count("settle", "malformed");
        return { kind: "error", code: "MALFORMED_REQUEST", message: read.message };
      }
      if (read.kind === "refused") {
        count("settle", read.refusal.code);
        return failedWith(read, read.refusal.code, read.refusal.message);
      }
      const { request } = read;
      const limit = AbortSignal.any([signal, AbortSignal.timeout(opts.settleWaitMs)]);
      const known = await ledger.find(keyOf(request.payment));
      let result: FacilitatorResult<SettleResponse>;
      if (known !== undefined && known.state !== "released") {
        result = await join(known, request, limit);
      } else {
        const verified = await check(request.payment, limit);
        if (verified.ok) result = await start(verified, request, limit);
        else if (isOurs(verified)) result = { kind: "error", code: verified.code };
        else result = failedWith(partiesOf(request.payment), verified.code, verified.message);
      }
      count("settle", result.kind === "error" ? result.code : (result.body.errorReason ?? "success"));
      return result;
    },

    supported: () => ({
      kinds: networks.map((network) => ({ x402Version: 2, scheme: "exact", network })),
      extensions: [],
      signers: { "eip155:*": opts.signers ?? [] },
    }),

    async missing() {
      const ledgerReady = await ledger.ready();
      return [...(ledgerReady ? [] : ["ledger"]), ...settler.missing()];
    },
  };
}

function partiesOf({ option, authorization }: DecodedPayment): { network: NetworkId; payer: Address } {
  return { network: option.network, payer: authorization.from };
}

function keyOf({ option, authorization }: DecodedPayment): PaymentKey {
  return {
    network: option.network,
    asset: option.asset.toLowerCase() as Address,
    from: authorization.from.toLowerCase() as Address,
    nonce: authorization.nonce,
  };
}

function recordOf(verified: VerifiedPayment, request: FacilitatorRequest, nowMs: number): PaymentRecord {
  const { payment, kind } = verified;
  const { authorization, option } = payment;
  return {
    id: "" as SettlementId,
    key: keyOf(payment),
    payTo: option.payTo,
    value: authorization.value,
    validAfter: authorization.validAfter,
    validBefore: authorization.validBefore,
    signature: payment.signature,
    kind,
    serviceId: SERVICE,
    payloadDigest: payment.payloadDigest,
    requestHash: request.requirementsDigest,
    identifier: undefined,
    state: "claimed",
    reason: undefined,
    transaction: undefined,
    evidence: undefined,
    answerExpiresAtMs: undefined,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}
