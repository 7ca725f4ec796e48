import type { Clock, ErrorCode, FaultPoints, Log, Metrics, NetworkId, SettlementId } from "@turnpike/base";
import { AppError, bytesEqual, bytesToHex, errorRow, isAppError } from "@turnpike/base";
import { mintPaid, type PaidRequest, type ParsedRequest, type Relayed } from "@turnpike/protocol";
import { BoundedMap } from "./bounded-map.ts";
import { pause } from "./engine/waiters.ts";
import { FundedClaims, type FundedResult } from "./funded-claims.ts";
import { decodePaymentHeader } from "./header.ts";
import type { Ledger } from "./ledger-types.ts";
import { admissionsTotal, outcomesTotal } from "./metrics.ts";
import { matchOption, type OptionNetwork, optionAtAnyPrice } from "./option.ts";
import { outcomeOf, pendingOutcome } from "./outcome.ts";
import { newRecord, presentedKey, saleOf, settledBy, standingOf, windowMsOf } from "./record.ts";
import type { Settler } from "./settler.ts";
import type { Admission, EarlierAdmission, Offer, PaymentStage } from "./stage-types.ts";
import { settlementStatus } from "./status.ts";
import type {
  DecodedPayment,
  Evidence,
  Outcome,
  PaymentRecord,
  PaymentRefusal,
  PresentedPayment,
  StoredAnswer,
  Verification,
  VerifiedPayment,
  Verifier,
} from "./types.ts";
import { endOutcome, type SharedTokens, type UnpaidAttempt, UnpaidLimit, type UnpaidRule } from "./unpaid-limit.ts";

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
  /** Copies of payments that may wait at once, over all payments: each holds a request open. */
  readonly maxWaitingCopies: number;
  /** Where payments are taken: what is not sold any more has no option of its own. */
  readonly networks: readonly OptionNetwork[];
  /** Claims of one payer that may end without paying, or be under way. */
  readonly unpaidPerPayer: () => UnpaidRule;
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
  /** Tokens of payers that other machines have too; without it each counts for itself. */
  readonly payerTokens?: SharedTokens;
}

/** A claim of this process, from its admission to its end. */
interface Active {
  readonly record: PaymentRecord;
  readonly attempt: UnpaidAttempt;
  readonly joinName: string;
  readonly finish: (outcome: Outcome) => void;
}

/** A payment that is worked on, and how many copies of it wait for its end. */
interface Joined {
  readonly admission: Promise<EarlierAdmission>;
  copies: number;
}

/** Copies of one payment that may wait at once: each holds a request open. */
const MAX_COPIES = 64;
/** How long a copy waits once its payment was reported as pending: a payer without funds settles no sooner. */
const REPORTED_WAIT_MS = 1_000;
/** Payments that are remembered as reported, and for how long: a window is shorter than that. */
const REPORTED = { maxEntries: 10_000, ttlMs: 3_600_000 };
/** Refusals that do not say whether a payment was claimed. */
const CANNOT_TELL: ReadonlySet<ErrorCode> = new Set(["LEDGER_UNAVAILABLE", "PAYMENT_IN_PROGRESS"]);

/**
 * The payment stage. One presented payment leads to at most one upstream run and one settlement:
 * - byte-equal copies for the same request that arrive together share one promise;
 * - across time and processes the ledger's claim decides, and its record is the only source of an outcome.
 */
export function createPaymentStage(opts: PaymentStageOptions, modules: PaymentStageModules): PaymentStage {
  const { verifier, ledger, clock, log, metrics, faults } = modules;
  const settlers = new Map<NetworkId, Settler>();
  for (const settler of modules.settlers) for (const network of settler.networks) settlers.set(network, settler);
  const fundedClaims = new FundedClaims();
  const payers = new UnpaidLimit(opts.unpaidPerPayer, {
    clock,
    ...(modules.payerTokens === undefined ? {} : { shared: modules.payerTokens }),
  });
  const reported = new BoundedMap<SettlementId, true>(REPORTED);
  let waitingCopies = 0;
  const joined = new Map<string, Joined>();
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

  const wait = (mostMs = opts.settleWaitMs): AbortSignal =>
    AbortSignal.any([AbortSignal.timeout(Math.min(mostMs, opts.settleWaitMs)), stopping.signal]);

  /** Remembers what is reported as pending: its copies need not wait as long again. */
  const reporting = <T extends Outcome>(outcome: T): T => {
    if (outcome.kind === "pending") reported.set(outcome.settlementId, true, clock.monotonicMs());
    return outcome;
  };

  /** Waits as a copy, while there is room for one. */
  const asCopy = async <T>(work: () => Promise<T>, full: () => T | Promise<T>): Promise<T> => {
    if (waitingCopies >= opts.maxWaitingCopies) return full();
    waitingCopies++;
    try {
      return await work();
    } finally {
      waitingCopies--;
    }
  };

  /** What the ledger says of a payment, after waiting a while for it to be resolved, where there is room for that. */
  const resolve = (found: PaymentRecord): Promise<Outcome> => {
    const isReported = reported.get(found.id, clock.monotonicMs()) === true;
    return asCopy(
      () => resolveBy(found, wait(isReported ? REPORTED_WAIT_MS : opts.settleWaitMs)),
      () => resolveBy(found, AbortSignal.abort()),
    );
  };

  const resolveBy = async (found: PaymentRecord, signal: AbortSignal): Promise<Outcome> => {
    let record = found;
    try {
      while (record.state === "claimed" && !signal.aborted) {
        await pause(opts.pollMs, signal);
        record = await standingOf(ledger, record);
      }
      if ((record.state === "signed" || record.state === "submitted") && !signal.aborted) {
        await settlers.get(record.key.network)?.wait(record, signal);
        record = await standingOf(ledger, record);
      }
      const answer = record.state === "settled" ? await ledger.answer(record.id) : undefined;
      const outcome = reporting(outcomeOf(record, answer, opts));
      if (outcome.kind === "settled") payers.settled(outcome.settlementId);
      return outcome;
    } catch (error) {
      log.warn({ settlementId: record.id, code: refusalCode(error) }, "the ledger could not say how a payment stands");
      return pendingOutcome(record, opts);
    }
  };

  /**
   * Every way out before the claim leads through here: a payment that is byte-equal to one in the ledger gets that one's
   * outcome, whatever the chain, the offer or its window says now. A refusal would make its payer sign again, and pay
   * twice. `isPayer`: its signature is known to be the payer's own, so its payment identifier counts as well.
   */
  const earlier = async (
    { requestHash }: Pick<ParsedRequest, "requestHash">,
    payment: PresentedPayment,
    refusal: PaymentRefusal,
    isPayer = false,
  ): Promise<EarlierAdmission> => {
    const key = presentedKey(payment);
    if (key === undefined) return { kind: "refused", ...refusal };
    let record: PaymentRecord | undefined;
    let named: PaymentRecord | undefined;
    try {
      record = await ledger.find(key);
      if (isPayer && payment.identifier !== undefined) {
        named = await ledger.findByIdentifier(key.network, key.from, payment.identifier);
      }
    } catch (error) {
      log.warn({ code: refusalCode(error) }, "the ledger could not be asked for an earlier payment");
      return { kind: "refused", ok: false, code: "LEDGER_UNAVAILABLE" };
    }
    const isCopy = record !== undefined && bytesEqual(record.payloadDigest, payment.payloadDigest);
    if (isCopy && record !== undefined && record.state !== "released") return copyOf(requestHash, record);
    if (named !== undefined && named.state !== "released") return namedOf(requestHash, named);
    return { kind: "refused", ...refusal };
  };

  const copyOf = async (requestHash: Uint8Array, record: PaymentRecord): Promise<EarlierAdmission> =>
    bytesEqual(record.requestHash, requestHash)
      ? { kind: "outcome", outcome: await resolve(record) }
      : { kind: "refused", ok: false, code: "PAYMENT_CONFLICT" };

  const namedOf = async (requestHash: Uint8Array, record: PaymentRecord): Promise<EarlierAdmission> =>
    bytesEqual(record.requestHash, requestHash)
      ? { kind: "outcome", outcome: await resolve(record) }
      : { kind: "refused", ok: false, code: "PAYMENT_IDENTIFIER_CONFLICT" };

  /** Verifies; faults that are about us (a chain that does not answer) are refusals of that code. */
  const verify = async (
    payment: DecodedPayment,
    signal: AbortSignal,
    isFirst: boolean,
  ): Promise<{ readonly result: Verification; readonly isPayer: boolean }> => {
    let isPayer = false;
    try {
      const free = await verifier.checkFree(payment);
      if (!free.ok) return { result: free, isPayer };
      isPayer = free.signer === "payer";
      // Only the payer's own signature counts for it: with any other, a third party could have it refused.
      const waitSeconds = isPayer && isFirst ? payers.waitSeconds(payerName(payment)) : 0;
      if (waitSeconds > 0) return { result: limited(waitSeconds), isPayer };
      return { result: await verifier.checkChain(payment, free.signer, signal), isPayer };
    } catch (error) {
      if (!isAppError(error) || errorRow(error.code).http !== 503) throw error;
      log.warn({ code: error.code }, "a payment could not be verified");
      return { result: { ok: false, code: error.code }, isPayer };
    }
  };

  /**
   * Whether a payment is its payer's own, by the checks of a sale, for what is not sold any more. Asked before the ledger is
   * asked for its identifier, so that the time that it takes says nothing of what the ledger has.
   * @throws AppError of status 503 where that is not known
   */
  const isPayersOwn = async (presented: PresentedPayment, signal: AbortSignal): Promise<boolean> => {
    const option = optionAtAnyPrice(presented.accepted, opts.networks);
    if (option === undefined) return false;
    const payment: DecodedPayment = { ...presented, option };
    const free = await verifier.checkFree(payment);
    const isFree = !free.ok || free.signer === "payer";
    const checked = isFree ? free : await verifier.checkChain(payment, free.signer, signal);
    if (!checked.ok && errorRow(checked.code).http === 503) throw new AppError(checked.code);
    return checked.ok;
  };

  const admitFirst = async (
    request: ParsedRequest,
    payment: DecodedPayment,
    offer: Offer,
    signal: AbortSignal,
    finish: (outcome: Outcome) => void,
  ): Promise<Admission> => {
    const unserved = offer.refusal();
    if (unserved !== undefined) return earlier(request, payment, unserved);
    const { result: verified, isPayer } = await verify(payment, signal, true);
    const refuse = (refusal: PaymentRefusal): Promise<Admission> => earlier(request, payment, refusal, isPayer);
    if (!verified.ok) return refuse(verified);
    const { network } = payment.option;
    const settler = settlers.get(network);
    if ((settler?.missing(network) ?? ["settler"]).length > 0) {
      return refuse({ ok: false, code: "SETTLEMENT_UNAVAILABLE" });
    }
    if (deadlineOf(verified, opts, clock) <= clock.monotonicMs()) {
      return refuse({ ok: false, code: "PAYMENT_EXPIRED" });
    }
    const unprofitable = settler?.refusal?.(saleOf(verified, callMsOf(verified, opts)));
    if (unprofitable !== undefined) return refuse(unprofitable);

    const attempt = payers.begin(payerName(payment));
    if (!attempt.ok) return refuse(limited(attempt.waitSeconds));
    let isClaimed = false;
    try {
      const admission = await claimFor(request, payment, verified, { refuse, attempt, signal, finish });
      isClaimed = admission.kind === "paid";
      return admission;
    } finally {
      // What was not claimed counts for the client alone: accounts without funds cost nothing to make.
      if (!isClaimed) attempt.excused();
    }
  };

  const claimFor = async (
    request: ParsedRequest,
    payment: DecodedPayment,
    verified: VerifiedPayment,
    {
      refuse,
      attempt,
      signal,
      finish,
    }: {
      readonly refuse: (refusal: PaymentRefusal) => Promise<Admission>;
      readonly attempt: UnpaidAttempt;
      readonly signal: AbortSignal;
      readonly finish: (outcome: Outcome) => void;
    },
  ): Promise<Admission> => {
    const purpose = { ...request, identifier: payment.identifier };
    const record = newRecord(verified, purpose, clock.nowMs());
    await faults.reach("stage.claim.before");
    const funded: FundedResult = await fundedClaims.claim(verified, {
      claim: ({ balance, blockNumber }) => ledger.claim({ ...record, balance, balanceBlock: blockNumber }),
      verify: async () => (await verify(payment, signal, false)).result,
      pollMs: opts.pollMs,
      limit: () => AbortSignal.any([signal, wait()]),
    });
    if (!funded.ok) return refuse(funded);
    await faults.reach("stage.claim.after");
    const { claim } = funded;
    switch (claim.kind) {
      case "claimed": {
        const name = joinName(payment, request.requestHash);
        active.set(claim.id, { record: { ...record, id: claim.id }, attempt, joinName: name, finish });
        const deadlineMs = deadlineOf(funded.verified, opts, clock);
        return { kind: "paid", paid: mintPaid({ request, settlementId: claim.id, deadlineMs }) };
      }
      case "exists":
        return bytesEqual(claim.record.payloadDigest, payment.payloadDigest)
          ? copyOf(request.requestHash, claim.record)
          : { kind: "refused", ok: false, code: "PAYMENT_CONFLICT" };
      case "identifier":
        return namedOf(request.requestHash, claim.record);
      case "insufficient":
        return { kind: "refused", ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
      case "blocked":
        return refuse({ ok: false, code: "PAYMENT_PAYER_BLOCKED" });
    }
  };

  const finished = (id: SettlementId, outcome: Outcome): Outcome => {
    const claim = active.get(id);
    active.delete(id);
    // Copies that wait are served by this; whoever comes from now on asks the ledger.
    if (claim !== undefined) joined.delete(claim.joinName);
    if (claim !== undefined) endOutcome(payers, claim.attempt, outcome, true);
    claim?.finish(outcome);
    metrics.count(outcomesTotal, { outcome: outcome.kind });
    return outcome;
  };

  const giveUp = async (record: PaymentRecord, reason: ErrorCode): Promise<Outcome> => {
    try {
      if (await ledger.release(record.id, reason)) return { kind: "released", code: reason };
      // Not ours any more: released as an orphan, or committed although its settler thought otherwise.
      const now = await standingOf(ledger, record);
      return now.state === "released" ? { kind: "released", code: now.reason ?? reason } : await resolve(now);
    } catch (error) {
      log.warn({ settlementId: record.id, code: refusalCode(error) }, "a claim could not be released yet");
      inBackground(releaseLater(() => ledger.release(record.id, reason)));
      return pendingOutcome(record, opts);
    }
  };

  /** What comes of the byte-equal payment that is worked on here; undefined when there is none. */
  const joinFirst = (name: string): Promise<EarlierAdmission> | undefined => {
    const first = joined.get(name);
    if (first === undefined) return undefined;
    const full: EarlierAdmission = { kind: "refused", ok: false, code: "PAYMENT_IN_PROGRESS" };
    if (first.copies >= MAX_COPIES) return Promise.resolve(full);
    first.copies++;
    return asCopy(
      () => first.admission,
      () => full,
    );
  };

  const counted = <A extends Admission>(admission: A): A => {
    metrics.count(admissionsTotal, { result: admission.kind === "refused" ? admission.code : admission.kind });
    return admission;
  };

  const stage: PaymentStage = {
    decode: (header) => decodePaymentHeader(header),

    async admit(request, presented, offer, signal) {
      const option = matchOption(presented.accepted, offer.options);
      if (option === undefined) {
        return counted(await earlier(request, presented, { ok: false, code: "PAYMENT_OPTION_UNKNOWN" }));
      }
      const payment: DecodedPayment = { ...presented, option };
      const name = joinName(payment, request.requestHash);
      const copy = joinFirst(name);
      if (copy !== undefined) return counted(await copy);

      const { promise: ended, resolve: finish } = Promise.withResolvers<Outcome>();
      const admission = admitFirst(request, payment, offer, signal, finish);
      // Copies wait for the end of the first one's work; they never get `paid`, which would be a second run.
      const forCopies = admission.then(
        async (result): Promise<EarlierAdmission> =>
          result.kind === "paid" ? { kind: "outcome", outcome: await ended } : result,
      );
      const entry: Joined = { admission: forCopies, copies: 0 };
      joined.set(name, entry);
      const forget = (): void => {
        if (joined.get(name) === entry) joined.delete(name);
      };
      forCopies.then(forget, forget);
      try {
        return counted(await admission);
      } catch (error) {
        metrics.count(admissionsTotal, { result: refusalCode(error) });
        throw error;
      }
    },

    async earlierOutcome(requestHash, payment, signal) {
      const none: PaymentRefusal = { ok: false, code: "PAYMENT_OPTION_UNKNOWN" };
      const copy = joinFirst(joinName(payment, requestHash));
      // The very payment first: it needs no check, and so no chain that answers.
      let found = await (copy ?? earlier({ requestHash }, payment, none));
      const isNew = copy === undefined && found.kind === "refused" && found.code === none.code;
      if (isNew && payment.identifier !== undefined && (await isPayersOwn(payment, signal))) {
        found = await earlier({ requestHash }, payment, none, true);
      }
      // Any other refusal is about a payment that was not claimed, or for another request: strangers' are no admissions.
      return found.kind === "outcome" || CANNOT_TELL.has(found.code) ? counted(found) : undefined;
    },

    async settle(paid: PaidRequest, relayed: Relayed, answer: StoredAnswer) {
      const record = active.get(paid.settlementId)?.record;
      const settler = record && settlers.get(record.key.network);
      if (record === undefined) return { kind: "released", code: "INTERNAL" };
      if (relayed.request !== paid || settler === undefined) {
        return finished(record.id, await giveUp(record, "INTERNAL"));
      }
      if (clock.monotonicMs() > paid.deadlineMs) return finished(record.id, await giveUp(record, "DEADLINE_EXCEEDED"));
      await faults.reach("stage.settle.before");
      let evidence: Evidence | undefined;
      try {
        evidence = await settler.settle(record, answer, wait());
      } catch (error) {
        const code = refusalCode(error);
        log.warn({ settlementId: record.id, code }, "a settlement was not committed");
        const isPayers = errorRow(code).http === 402;
        return finished(record.id, await giveUp(record, isPayers ? code : "SETTLEMENT_UNAVAILABLE"));
      }
      await faults.reach("stage.settle.after");
      try {
        const now = evidence === undefined ? await standingOf(ledger, record) : settledBy(record, evidence);
        // A newer claim has an answer of its own: ours was not committed, and is not what was sold.
        if (now.id !== record.id) return finished(record.id, await resolve(now));
        // Not committed when its time was up. A commit that still comes is refused, or was first: then nothing is released.
        if (now.state === "claimed") return finished(record.id, await giveUp(record, "SETTLEMENT_UNAVAILABLE"));
        const settled = now.state === "settled" ? answer : undefined;
        return finished(record.id, reporting(outcomeOf(now, settled, opts)));
      } catch (error) {
        log.warn(
          { settlementId: record.id, code: refusalCode(error) },
          "the ledger could not say how a payment stands",
        );
        // Where nothing was committed the claim must not stay; what was committed is not released by this.
        inBackground(releaseLater(() => ledger.release(record.id, "SETTLEMENT_UNAVAILABLE")));
        return finished(record.id, reporting(pendingOutcome(record, opts)));
      }
    },

    async release(paid, reason) {
      const record = active.get(paid.settlementId)?.record;
      if (record === undefined) return { kind: "released", code: reason };
      return finished(record.id, await giveUp(record, reason));
    },

    async status(id) {
      const record = await ledger.newest(id);
      return record && settlementStatus(record, clock.nowMs());
    },

    missing() {
      // One network that settles is enough: a payment of another is refused by itself.
      const each = [...settlers].map(([network, settler]) => settler.missing(network));
      return each.some((lacking) => lacking.length === 0) ? [] : [...new Set(each.flat())];
    },

    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled(background);
    },
  };
  return stage;
}

function refusalCode(error: unknown): ErrorCode {
  return isAppError(error) ? error.code : "INTERNAL";
}

function limited(retryAfterSeconds: number): PaymentRefusal {
  return { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds };
}

function payerName({ option, authorization }: DecodedPayment): string {
  return `${option.network} ${authorization.from.toLowerCase()}`;
}

function joinName(payment: PresentedPayment, requestHash: Uint8Array): string {
  return `${bytesToHex(payment.payloadDigest)}.${bytesToHex(requestHash)}`;
}

/** Longest time of the call itself: its settlement needs the end of the payment's window. */
function callMsOf(verified: VerifiedPayment, opts: PaymentStageOptions): number {
  return Math.min(opts.upstreamTimeoutMs, windowMsOf(verified) - opts.settleMarginMs);
}

function deadlineOf(verified: VerifiedPayment, opts: PaymentStageOptions, clock: Clock): number {
  return clock.monotonicMs() + callMsOf(verified, opts);
}
