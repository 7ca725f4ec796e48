import type { ErrorCode, NetworkId, SettlementId } from "@turnpike/base";
import type { PaidRequest, ParsedRequest, Relayed } from "@turnpike/protocol";
import { decodePaymentHeader } from "../header.ts";
import { paymentAdmissionsTotal, paymentOutcomesTotal } from "../metrics.ts";
import { matchOption } from "../option.ts";
import type { Settler } from "../settler.ts";
import type { DecodedPayment, Outcome, PaymentRefusal, PresentedPayment, StoredAnswer } from "../types.ts";
import { endOutcome, UnpaidLimit } from "../unpaid-limit.ts";
import { type ActiveClaim, ClaimStep } from "./claim.ts";
import { CopyLimit, JoinedPayments, joinName } from "./join.ts";
import type { PaymentStageModules, PaymentStageOptions, StageParts } from "./options.ts";
import { refusalCode, settlementStatus } from "./outcome.ts";
import { OutcomeResolver } from "./resolve.ts";
import { SettleStep } from "./settle.ts";
import type { Admission, EarlierAdmission, Offer, PaymentStage, SettlementStatus } from "./types.ts";
import { VerifyStep } from "./verify.ts";

const NOT_OFFERED: PaymentRefusal = { ok: false, code: "PAYMENT_OPTION_UNKNOWN" };
/** Refusals that do not say whether a payment was claimed. */
const UNDECIDED: ReadonlySet<ErrorCode> = new Set(["LEDGER_UNAVAILABLE", "PAYMENT_IN_PROGRESS"]);

/**
 * The payment stage: join, verify, claim; the gateway serves; settle or release, conclude. One presented payment leads to
 * at most one upstream run and one settlement:
 * - byte-equal copies for the same request that arrive together share one promise;
 * - across time and processes the ledger's claim decides, and its record is the only source of an outcome.
 */
export class X402PaymentStage implements PaymentStage {
  readonly #opts: PaymentStageOptions;
  readonly #parts: StageParts;
  readonly #joined: JoinedPayments;
  readonly #resolver: OutcomeResolver;
  readonly #verifying: VerifyStep;
  readonly #claiming: ClaimStep;
  readonly #settling: SettleStep;
  readonly #active = new Map<SettlementId, ActiveClaim>();
  readonly #stopping = new AbortController();

  constructor(opts: PaymentStageOptions, modules: PaymentStageModules) {
    const { clock, payerTokens } = modules;
    const settlers = new Map<NetworkId, Settler>();
    for (const settler of modules.settlers) for (const network of settler.networks) settlers.set(network, settler);
    const payers = new UnpaidLimit(opts.unpaidPerPayer, {
      clock,
      ...(payerTokens === undefined ? {} : { shared: payerTokens }),
    });
    const parts: StageParts = { ...modules, settlers, payers, stopping: this.#stopping.signal };
    const copies = new CopyLimit(opts.maxWaitingCopies);
    this.#opts = opts;
    this.#parts = parts;
    this.#joined = new JoinedPayments(copies);
    this.#verifying = new VerifyStep(opts, parts);
    this.#resolver = new OutcomeResolver(opts, { ...parts, copies });
    const resolver = this.#resolver;
    this.#claiming = new ClaimStep(opts, { ...parts, verifying: this.#verifying, resolver, active: this.#active });
    this.#settling = new SettleStep(opts, { ...parts, resolver });
  }

  decode(header: string): { readonly ok: true; readonly payment: PresentedPayment } | PaymentRefusal {
    return decodePaymentHeader(header);
  }

  async admit(
    request: ParsedRequest,
    presented: PresentedPayment,
    offer: Offer,
    signal: AbortSignal,
  ): Promise<Admission> {
    const option = matchOption(presented.accepted, offer.options);
    if (option === undefined) return this.#counted(await this.#resolver.earlier(request, presented, NOT_OFFERED));
    const payment: DecodedPayment = { ...presented, option };
    const name = joinName(payment, request.requestHash);
    const copy = this.#joined.join(name);
    if (copy !== undefined) return this.#counted(await copy);

    const { promise: ended, resolve: finish } = Promise.withResolvers<Outcome>();
    const admission = this.#claiming
      .admit({ request, payment, client: offer.client, signal, finish }, offer)
      .then((claim) => this.#reserved(claim, signal, offer.client));
    // Copies wait for the end of the first one's work; they never get `paid`, which would be a second run.
    const forCopies = admission.then(
      async (result): Promise<EarlierAdmission> =>
        result.kind === "paid" ? { kind: "outcome", outcome: await ended } : result,
    );
    this.#joined.begin(name, forCopies);
    try {
      return this.#counted(await admission);
    } catch (error) {
      this.#parts.metrics.count(paymentAdmissionsTotal, { result: refusalCode(error) });
      throw error;
    }
  }

  async earlierOutcome(
    requestHash: Uint8Array,
    payment: PresentedPayment,
    signal: AbortSignal,
  ): Promise<EarlierAdmission | undefined> {
    const copy = this.#joined.join(joinName(payment, requestHash));
    // The very payment first: it needs no check, and so no chain that answers.
    let found = await (copy ?? this.#resolver.earlier({ requestHash }, payment, NOT_OFFERED));
    const isNew = copy === undefined && found.kind === "refused" && found.code === NOT_OFFERED.code;
    if (isNew && payment.identifier !== undefined && (await this.#verifying.isPayersOwn(payment, signal))) {
      found = await this.#resolver.earlier({ requestHash }, payment, NOT_OFFERED, true);
    }
    // Any other refusal is about a payment that was not claimed, or for another request: third parties' are no admissions.
    return found.kind === "outcome" || UNDECIDED.has(found.code) ? this.#counted(found) : undefined;
  }

  async settle(paid: PaidRequest, relayed: Relayed, answer: StoredAnswer): Promise<Outcome> {
    const { clock, settlers } = this.#parts;
    const record = this.#active.get(paid.settlementId)?.record;
    if (record === undefined) return { kind: "released", code: "INTERNAL" };
    const settler = settlers.get(record.key.network);
    if (relayed.request !== paid || settler === undefined) {
      return this.#concluded(record.id, await this.#settling.release(record, "INTERNAL"));
    }
    if (clock.monotonicMs() > paid.deadlineMs) {
      return this.#concluded(record.id, await this.#settling.release(record, "DEADLINE_EXCEEDED"));
    }
    return this.#concluded(record.id, await this.#settling.settle(record, settler, answer));
  }

  async release(paid: PaidRequest, reason: ErrorCode): Promise<Outcome> {
    const record = this.#active.get(paid.settlementId)?.record;
    if (record === undefined) return { kind: "released", code: reason };
    return this.#concluded(record.id, await this.#settling.release(record, reason));
  }

  async status(id: SettlementId): Promise<SettlementStatus | undefined> {
    const { ledger, clock } = this.#parts;
    const record = await ledger.newest(id);
    if (record === undefined) return undefined;
    const isStored = record.state === "settled" && (record.answerExpiresAtMs ?? 0) > clock.nowMs();
    const isHandedOut = isStored && (await ledger.hasAnswer(record.id, this.#opts.keylessAnswerMs));
    return settlementStatus(record, { isStored, isHandedOut });
  }

  missing(): readonly string[] {
    // One network that settles is enough: a payment of another is refused by itself.
    const each = [...this.#parts.settlers].map(([network, settler]) => settler.missing(network));
    return each.some((lacking) => lacking.length === 0) ? [] : [...new Set(each.flat())];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#settling[Symbol.asyncDispose]();
  }

  /** Serves a claim only with what its settlement takes reserved; else gives the claim up. */
  async #reserved(admission: Admission, signal: AbortSignal, client?: string): Promise<Admission> {
    const claim = admission.kind === "paid" ? this.#active.get(admission.paid.settlementId) : undefined;
    if (admission.kind !== "paid" || claim === undefined) return admission;
    const { settlers, clock, log } = this.#parts;
    const { paid } = admission;
    const { record } = claim;
    // The call itself keeps half of its time.
    const waitMs = Math.max(1, Math.floor((paid.deadlineMs - clock.monotonicMs()) / 2));
    let refusal: PaymentRefusal | undefined;
    try {
      refusal = await settlers.get(record.key.network)?.reserve(record, waitMs, signal, client);
    } catch (error) {
      log.error({ settlementId: record.id, code: refusalCode(error) }, "a claim's settlement could not be reserved");
      refusal = { ok: false, code: refusalCode(error) };
    }
    if (refusal === undefined) return admission;
    const outcome = await this.release(paid, refusal.code);
    return outcome.kind === "released" ? { kind: "refused", ...refusal } : { kind: "outcome", outcome };
  }

  #counted<A extends Admission>(admission: A): A {
    const result = admission.kind === "refused" ? admission.code : admission.kind;
    this.#parts.metrics.count(paymentAdmissionsTotal, { result });
    return admission;
  }

  /** Ends a claim: its copies get its outcome, and its payer's limit counts it. */
  #concluded(id: SettlementId, outcome: Outcome): Outcome {
    const claim = this.#active.get(id);
    this.#active.delete(id);
    if (claim !== undefined) {
      this.#joined.end(claim.joinName);
      endOutcome(this.#parts.payers, claim.attempt, outcome, true);
      claim.finish(outcome);
    }
    this.#parts.metrics.count(paymentOutcomesTotal, { outcome: outcome.kind });
    return outcome;
  }
}
