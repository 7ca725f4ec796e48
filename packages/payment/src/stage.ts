import type { Address, Clock, ErrorCode, FaultPoints, Log, Metrics, NetworkId, SettlementId } from "@turnpike/base";
import { bytesEqual, bytesToHex, isAppError } from "@turnpike/base";
import { mintPaid, type PaidRequest, type ParsedRequest, type Relayed } from "@turnpike/protocol";
import { decodePaymentHeader } from "./header.ts";
import type { ClaimResult, Ledger } from "./ledger-types.ts";
import { admissionsTotal, outcomesTotal } from "./metrics.ts";
import { matchOption } from "./option.ts";
import { outcomeOf, pendingOutcome } from "./outcome.ts";
import type { Settler } from "./settler.ts";
import type { Admission, PaymentStage, SettlementStatus } from "./stage-types.ts";
import type {
  DecodedPayment,
  Outcome,
  PaymentKey,
  PaymentRecord,
  PaymentRefusal,
  StoredAnswer,
  Verification,
  VerifiedPayment,
  Verifier,
} from "./types.ts";

/** Options of {@link createPaymentStage}. */
export interface PaymentStageOptions {
  /** Longest time for an upstream to answer a paid request. */
  readonly upstreamTimeoutMs: number;
  /** Time kept between the upstream's deadline and the end of the payment's window, for settling. */
  readonly settleMarginMs: number;
  /** How long an answer waits for its settlement before it is said to be pending. */
  readonly settleWaitMs: number;
  /** `Retry-After` of a pending settlement. */
  readonly retryAfterSeconds: number;
  /** How often a payment that another process works on is looked at. */
  readonly pollMs: number;
}

/** What {@link createPaymentStage} works with. */
export interface PaymentStageModules {
  readonly verifier: Verifier;
  readonly ledger: Ledger;
  readonly settlers: readonly Settler[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

/** A claim of this process, from its admission to its end. */
interface Active {
  readonly record: PaymentRecord;
  readonly joinName: string;
  readonly finish: (outcome: Outcome) => void;
}

/**
 * The payment stage. One presented payment leads to at most one upstream run and one settlement:
 * - byte-equal copies for the same request that arrive together share one promise;
 * - across time and processes the ledger's claim decides, and its record is the only source of an outcome.
 */
export function createPaymentStage(opts: PaymentStageOptions, modules: PaymentStageModules): PaymentStage {
  const { verifier, ledger, clock, log, metrics, faults } = modules;
  const settlers = new Map<NetworkId, Settler>();
  for (const settler of modules.settlers) for (const network of settler.networks) settlers.set(network, settler);
  const joined = new Map<string, Promise<Admission>>();
  const active = new Map<SettlementId, Active>();
  const stopping = new AbortController();
  const background = new Set<Promise<void>>();

  const inBackground = (work: Promise<void>): void => {
    background.add(work);
    void work.finally(() => background.delete(work));
  };

  /** Tries until the ledger has taken it: a claim that stays would block its payer's retries. */
  const releaseLater = async (attempt: () => Promise<unknown>): Promise<void> => {
    for (let delayMs = 200; !stopping.signal.aborted; delayMs = Math.min(delayMs * 2, 5_000)) {
      await pause(delayMs, stopping.signal);
      try {
        await attempt();
        return;
      } catch (error) {
        log.warn({ code: isAppError(error) ? error.code : "unknown" }, "a release waits for the ledger");
      }
    }
  };

  const wait = (): AbortSignal => AbortSignal.any([AbortSignal.timeout(opts.settleWaitMs), stopping.signal]);

  /** What the ledger says of a payment, after waiting a while for it to be resolved. */
  const resolve = async (found: PaymentRecord): Promise<Outcome> => {
    let record = found;
    try {
      const signal = wait();
      while (record.state === "claimed" && !signal.aborted) {
        await pause(opts.pollMs, signal);
        record = (await ledger.get(record.id)) ?? record;
      }
      if (record.state === "signed" || record.state === "submitted") {
        await settlers.get(record.key.network)?.wait(record, signal);
        record = (await ledger.get(record.id)) ?? record;
      }
      return outcomeOf(record, record.state === "settled" ? await ledger.answer(record.id) : undefined, opts);
    } catch (error) {
      log.warn({ settlementId: record.id, code: codeOf(error) }, "the ledger could not say how a payment stands");
      return pendingOutcome(record, opts);
    }
  };

  /** A refused payment that is byte-equal to one in the ledger gets that one's outcome, whatever the chain says now. */
  const earlier = async (
    request: ParsedRequest,
    payment: DecodedPayment,
    refusal: PaymentRefusal,
  ): Promise<Admission> => {
    let record: PaymentRecord | undefined;
    try {
      record = await ledger.find(keyOf(payment));
    } catch (error) {
      log.warn({ code: codeOf(error) }, "the ledger could not be asked for an earlier payment");
      return { kind: "refused", ok: false, code: "SETTLEMENT_UNAVAILABLE" };
    }
    if (
      record === undefined ||
      record.state === "released" ||
      !bytesEqual(record.payloadDigest, payment.payloadDigest)
    ) {
      return { kind: "refused", ...refusal };
    }
    return copyOf(request, record);
  };

  const copyOf = async (request: ParsedRequest, record: PaymentRecord): Promise<Admission> =>
    bytesEqual(record.requestHash, request.requestHash)
      ? { kind: "outcome", outcome: await resolve(record) }
      : { kind: "refused", ok: false, code: "PAYMENT_CONFLICT" };

  const verify = async (payment: DecodedPayment, signal: AbortSignal): Promise<Verification> => {
    const free = await verifier.checkFree(payment);
    return free.ok ? verifier.checkChain(payment, free.signer, signal) : free;
  };

  const admitFirst = async (
    request: ParsedRequest,
    payment: DecodedPayment,
    signal: AbortSignal,
    finish: (outcome: Outcome) => void,
  ): Promise<Admission> => {
    const verified = await verify(payment, signal);
    if (!verified.ok) return earlier(request, payment, verified);
    const settler = settlers.get(payment.option.network);
    if (settler === undefined || settler.missing().length > 0) {
      return earlier(request, payment, { ok: false, code: "SETTLEMENT_UNAVAILABLE" });
    }
    const deadlineMs = deadlineOf(verified, opts, clock);
    if (deadlineMs <= clock.monotonicMs()) return { kind: "refused", ok: false, code: "PAYMENT_EXPIRED" };

    const record = recordOf(request, verified, clock.nowMs());
    await faults.reach("stage.claim.before");
    let claim: ClaimResult;
    try {
      claim = await ledger.claim({ ...record, balance: verified.balance, balanceBlock: verified.blockNumber });
    } catch (error) {
      if (isAppError(error) && error.detail["unknown"] === true)
        inBackground(releaseLater(() => dropUnknownClaim(record)));
      throw error;
    }
    await faults.reach("stage.claim.after");
    switch (claim.kind) {
      case "claimed": {
        active.set(claim.id, { record: { ...record, id: claim.id }, joinName: joinName(payment, request), finish });
        return { kind: "paid", paid: mintPaid({ request, settlementId: claim.id, deadlineMs }) };
      }
      case "exists":
        return bytesEqual(claim.record.payloadDigest, payment.payloadDigest)
          ? copyOf(request, claim.record)
          : { kind: "refused", ok: false, code: "PAYMENT_CONFLICT" };
      case "identifier":
        return bytesEqual(claim.record.requestHash, request.requestHash)
          ? { kind: "outcome", outcome: await resolve(claim.record) }
          : { kind: "refused", ok: false, code: "PAYMENT_IDENTIFIER_CONFLICT" };
      case "insufficient":
        return { kind: "refused", ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
    }
  };

  /** A claim whose commit may or may not have reached the disk: if it did, nobody works on it. */
  const dropUnknownClaim = async (lost: PaymentRecord): Promise<void> => {
    const found = await ledger.find(lost.key);
    const ours =
      found !== undefined && found.state === "claimed" && bytesEqual(found.payloadDigest, lost.payloadDigest);
    if (ours && !active.has(found.id)) await ledger.release(found.id, "LEDGER_UNAVAILABLE");
  };

  const finished = (id: SettlementId, outcome: Outcome): Outcome => {
    const claim = active.get(id);
    active.delete(id);
    // Copies that wait are served by this; whoever comes from now on asks the ledger.
    if (claim !== undefined) joined.delete(claim.joinName);
    claim?.finish(outcome);
    metrics.count(outcomesTotal, { outcome: outcome.kind });
    return outcome;
  };

  const giveUp = async (record: PaymentRecord, reason: ErrorCode): Promise<Outcome> => {
    try {
      if (await ledger.release(record.id, reason)) return { kind: "released", code: reason };
      const now = await ledger.get(record.id);
      // Not ours any more: released as an orphan, or committed although its settler thought otherwise.
      return now === undefined ? { kind: "released", code: reason } : await resolve(now);
    } catch (error) {
      log.warn({ settlementId: record.id, code: codeOf(error) }, "a claim could not be released yet");
      inBackground(releaseLater(() => ledger.release(record.id, reason)));
      return pendingOutcome(record, opts);
    }
  };

  const stage: PaymentStage = {
    decode: (header) => decodePaymentHeader(header),

    async admit(request, presented, options, signal) {
      const option = matchOption(presented.accepted, options);
      if (option === undefined) return { kind: "refused", ok: false, code: "PAYMENT_OPTION_UNKNOWN" };
      const payment: DecodedPayment = { ...presented, option };
      const name = joinName(payment, request);
      const first = joined.get(name);
      if (first !== undefined) return first;

      const { promise: ended, resolve: finish } = Promise.withResolvers<Outcome>();
      const admission = admitFirst(request, payment, signal, finish);
      // Copies wait for the end of the first one's work; they never get `paid`, which would be a second run.
      const forCopies = admission.then(
        async (result): Promise<Admission> =>
          result.kind === "paid" ? { kind: "outcome", outcome: await ended } : result,
      );
      joined.set(name, forCopies);
      const forget = (): void => {
        if (joined.get(name) === forCopies) joined.delete(name);
      };
      forCopies.then(forget, forget);
      try {
        const result = await admission;
        metrics.count(admissionsTotal, { result: result.kind === "refused" ? result.code : result.kind });
        return result;
      } catch (error) {
        metrics.count(admissionsTotal, { result: codeOf(error) });
        throw error;
      }
    },

    async settle(paid: PaidRequest, relayed: Relayed, answer: StoredAnswer) {
      const record = active.get(paid.settlementId)?.record;
      const settler = record && settlers.get(record.key.network);
      if (relayed.request !== paid || record === undefined || settler === undefined) {
        return { kind: "released", code: "INTERNAL" };
      }
      if (clock.monotonicMs() > paid.deadlineMs) return finished(record.id, await giveUp(record, "DEADLINE_EXCEEDED"));
      await faults.reach("stage.settle.before");
      try {
        await settler.settle(record, answer, wait());
      } catch (error) {
        log.warn({ settlementId: record.id, code: codeOf(error) }, "a settlement was not committed");
        return finished(record.id, await giveUp(record, "SETTLEMENT_UNAVAILABLE"));
      }
      await faults.reach("stage.settle.after");
      try {
        const now = await ledger.get(record.id);
        return finished(record.id, outcomeOf(now ?? record, now?.state === "settled" ? answer : undefined, opts));
      } catch (error) {
        log.warn({ settlementId: record.id, code: codeOf(error) }, "the ledger could not say how a payment stands");
        return finished(record.id, pendingOutcome(record, opts));
      }
    },

    async release(paid, reason) {
      const record = active.get(paid.settlementId)?.record;
      if (record === undefined) return { kind: "released", code: reason };
      return finished(record.id, await giveUp(record, reason));
    },

    async status(id) {
      const record = await ledger.get(id);
      return record && statusOf(record, clock.nowMs());
    },

    missing: () => [...new Set(modules.settlers.flatMap((settler) => settler.missing()))],

    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled(background);
    },
  };
  return stage;
}

function codeOf(error: unknown): ErrorCode {
  return isAppError(error) ? error.code : "INTERNAL";
}

function keyOf({ option, authorization }: DecodedPayment): PaymentKey {
  return {
    network: option.network,
    asset: option.asset.toLowerCase() as Address,
    from: authorization.from.toLowerCase() as Address,
    nonce: authorization.nonce,
  };
}

function joinName(payment: DecodedPayment, request: ParsedRequest): string {
  return `${bytesToHex(payment.payloadDigest)}.${bytesToHex(request.requestHash)}`;
}

function recordOf(request: ParsedRequest, verified: VerifiedPayment, nowMs: number): PaymentRecord {
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
    serviceId: request.serviceId,
    payloadDigest: payment.payloadDigest,
    requestHash: request.requestHash,
    identifier: payment.identifier,
    state: "claimed",
    reason: undefined,
    transaction: undefined,
    evidence: undefined,
    answerExpiresAtMs: undefined,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}

function deadlineOf(verified: VerifiedPayment, opts: PaymentStageOptions, clock: Clock): number {
  const windowMs = (Number(verified.payment.authorization.validBefore) - verified.chainTimeSeconds) * 1_000;
  return clock.monotonicMs() + Math.min(opts.upstreamTimeoutMs, windowMs - opts.settleMarginMs);
}

const STATUS: Readonly<Record<PaymentRecord["state"], SettlementStatus["status"]>> = {
  claimed: "in_progress",
  signed: "pending",
  submitted: "pending",
  settled: "settled",
  failed: "failed",
  released: "released",
  owed: "owed",
  disputed: "disputed",
};

function statusOf(record: PaymentRecord, nowMs: number): SettlementStatus {
  return {
    id: record.id,
    status: STATUS[record.state],
    network: record.key.network,
    asset: record.key.asset,
    payer: record.key.from,
    payTo: record.payTo,
    amount: record.value.toString(),
    transaction: record.evidence?.transaction ?? record.transaction,
    reason: record.reason,
    answerAvailable: record.state === "settled" && (record.answerExpiresAtMs ?? 0) > nowMs,
  };
}

/** Resolves after a time, or at once when the signal fires; never rejects. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
