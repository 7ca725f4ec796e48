import { bytesEqual, type SettlementId } from "@turnpike/base";
import type { ParsedRequest } from "@turnpike/protocol";
import { BoundedMap } from "../bounded-map.ts";
import { pause } from "../engine/waiters.ts";
import { presentedKey, standingOf } from "../record.ts";
import type { Outcome, PaymentRecord, PaymentRefusal, PaymentState, PresentedPayment } from "../types.ts";
import type { CopyLimit } from "./join.ts";
import type { PaymentStageOptions, StageParts } from "./options.ts";
import { outcomeOf, pendingOutcome, refusalCode } from "./outcome.ts";
import type { EarlierAdmission } from "./types.ts";

/** How long a copy waits once its payment was reported as pending: a payer without funds settles no sooner. */
const REPORTED_WAIT_MS = 1_000;
/** Payments that are remembered as reported, and for how long: a window is shorter than that. */
const REPORTED = { maxEntries: 10_000, ttlMs: 3_600_000 };

const UNDER_WAY: ReadonlySet<PaymentState> = new Set(["claimed", "signed", "submitted"]);

/** Reads from the ledger how payments stand, and waits a while for those that are under way. */
export class OutcomeResolver {
  readonly #opts: PaymentStageOptions;
  readonly #parts: StageParts;
  readonly #copies: CopyLimit;
  readonly #reported = new BoundedMap<SettlementId, true>(REPORTED);

  constructor(opts: PaymentStageOptions, parts: StageParts & { readonly copies: CopyLimit }) {
    this.#opts = opts;
    this.#parts = parts;
    this.#copies = parts.copies;
  }

  /** Fires when a wait for a settlement has been long enough, or the stage is disposed of. */
  waitLimit(mostMs: number = this.#opts.settleWaitMs): AbortSignal {
    const timeout = AbortSignal.timeout(Math.min(mostMs, this.#opts.settleWaitMs));
    return AbortSignal.any([timeout, this.#parts.stopping]);
  }

  /** Remembers what is reported as pending: its copies need not wait as long again. */
  reporting(outcome: Outcome): Outcome {
    if (outcome.kind === "pending") this.#reported.set(outcome.settlementId, true, this.#parts.clock.monotonicMs());
    return outcome;
  }

  /**
   * Returns the end of a payment by the ledger, after a wait for that, where there is room for one more that waits. `answerMs`:
   * time after the settlement in which its answer is handed out; as long as it is stored, if undefined.
   */
  resolve(found: PaymentRecord, answerMs?: number): Promise<Outcome> {
    const isReported = this.#reported.get(found.id, this.#parts.clock.monotonicMs()) === true;
    const limitMs = isReported ? REPORTED_WAIT_MS : this.#opts.settleWaitMs;
    return this.#copies.run(
      () => this.#resolveBy(found, answerMs, this.waitLimit(limitMs)),
      () => this.#resolveBy(found, answerMs, AbortSignal.abort()),
    );
  }

  async #resolveBy(found: PaymentRecord, answerMs: number | undefined, signal: AbortSignal): Promise<Outcome> {
    const { ledger, settlers, payers, log } = this.#parts;
    let record = found;
    try {
      while (record.state === "claimed" && !signal.aborted) {
        await pause(this.#opts.pollMs, signal);
        record = await standingOf(ledger, record);
      }
      if ((record.state === "signed" || record.state === "submitted") && !signal.aborted) {
        await settlers.get(record.key.network)?.wait(record, signal);
        record = await standingOf(ledger, record);
      }
      const answer = record.state === "settled" ? await ledger.answer(record.id, answerMs) : undefined;
      const outcome = this.reporting(outcomeOf(record, answer, this.#opts));
      if (outcome.kind === "settled") payers.settled(outcome.settlementId);
      return outcome;
    } catch (error) {
      log.warn({ settlementId: record.id, code: refusalCode(error) }, "the ledger could not say how a payment stands");
      return pendingOutcome(record, this.#opts);
    }
  }

  /**
   * Every way out before the claim leads through here: a payment that is byte-equal to one in the ledger gets that one's
   * outcome, whatever the chain, the offer or its window says now. A refusal would make its payer sign again, and pay
   * twice. `isPayer`: its signature is known to be the payer's own, so its payment identifier counts as well; but not with an
   * authorization that was claimed in other bytes, which anyone can copy from the chain.
   */
  async earlier(
    { requestHash }: Pick<ParsedRequest, "requestHash">,
    payment: PresentedPayment,
    refusal: PaymentRefusal,
    isPayer = false,
  ): Promise<EarlierAdmission> {
    const { ledger, log } = this.#parts;
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
    if (record !== undefined && record.state !== "released") {
      const isCopy = bytesEqual(record.payloadDigest, payment.payloadDigest);
      return isCopy ? this.copyOf(requestHash, payment, record) : { kind: "refused", ...refusal };
    }
    if (named !== undefined && named.state !== "released") return this.namedOf(requestHash, named);
    return { kind: "refused", ...refusal };
  }

  /** The outcome of a byte-equal payment, if that was for this request. */
  copyOf(requestHash: Uint8Array, payment: PresentedPayment, record: PaymentRecord): Promise<EarlierAdmission> {
    const answerMs = payment.hasAnswerKey ? undefined : this.#opts.keylessAnswerMs;
    return this.#outcomeFor(requestHash, record, "PAYMENT_CONFLICT", answerMs);
  }

  /** The outcome of a payment with the same payer and payment identifier, if that was for this request. */
  namedOf(requestHash: Uint8Array, record: PaymentRecord): Promise<EarlierAdmission> {
    return this.#outcomeFor(requestHash, record, "PAYMENT_IDENTIFIER_CONFLICT");
  }

  /**
   * One refusal for another request and for an answer that is not handed out any more, with the same reads of the ledger: the
   * payment may be copied from the chain, and two of them would confirm guesses of the request. Both have the payment's receipt,
   * so that its payer learns that it was charged, and by which transaction. Ends without an answer are those of the payment alone.
   */
  async #outcomeFor(
    requestHash: Uint8Array,
    record: PaymentRecord,
    conflict: PaymentRefusal["code"],
    answerMs?: number,
  ): Promise<EarlierAdmission> {
    const isSameRequest = bytesEqual(record.requestHash, requestHash);
    if (!isSameRequest && UNDER_WAY.has(record.state)) {
      return { kind: "refused", ok: false, code: conflict, receipt: pendingOutcome(record, this.#opts).receipt };
    }
    const outcome = await this.resolve(record, answerMs);
    const isOther = outcome.kind === "settled" && !isSameRequest;
    const isGone = outcome.kind === "expired" && outcome.code === "PAYMENT_CONFLICT";
    if (outcome.kind === "released" || !(isOther || isGone)) return { kind: "outcome", outcome };
    return { kind: "refused", ok: false, code: conflict, receipt: outcome.receipt };
  }
}
