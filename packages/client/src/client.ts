import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { AppError, assertUsd, ERRORS, isAppError, isNestedDeeper, QuotedError, visibleLine } from "@turnpike/base";
import type { PaymentRequired } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { x402Client, x402HTTPClient } from "@x402/fetch";
import { type Answer, isOpen, isServed, isUnreadable, mayBecomeReadable, refusalOf, waitMs } from "./answers.ts";
import { NodeNetworks, readAuthorizationEnds } from "./authorization-ends.ts";
import { limitToMicroUsd, lowerUsd, microUsdText, unitsToMicroUsd } from "./budget.ts";
import { isGatewayCode } from "./gateway-codes.ts";
import { memoryJournal } from "./journal.ts";
import { listServices } from "./listing.ts";
import { AllowedNetworks } from "./networks.ts";
import { authorizationId, readPayment, withAnswerKey } from "./payment-header.ts";
import { type Choice, choose, withinCap } from "./price.ts";
import { type Token, type TokenId, Tokens } from "./tokens.ts";
import { assertService, bodyOf, createSend, type Request, type Send, unreachable } from "./transport.ts";
import type {
  CallOptions,
  Client,
  ClientModules,
  ClientOptions,
  CountedPayment,
  ListedService,
  OpenPayment,
  PurchaseResult,
  Quote,
  ResumedPayment,
  SignedCall,
  Signer,
  Spending,
  SpendJournal,
  SpendReservation,
} from "./types.ts";
import { judge, type Presented, receiptToKeep, refusedUnsigned, type Verdict } from "./verdict.ts";

/** The reference client, for one option that was checked before. Its own spend controls stand behind ours. */
function referenceClient(signer: Signer, choice: Choice, maxPriceUsd: string): x402HTTPClient {
  const { network, asset, amount } = choice.option;
  const client = new x402Client().register(network, new ExactEvmScheme(signer)).setSpendControls({
    maxAmountPerPayment: `$${maxPriceUsd}`,
    allowedAssets: [{ network, asset, maxAmountPerPayment: amount }],
  });
  return new x402HTTPClient(client);
}

/** The error of a gateway that gives no terms: its code, its words apart, without the advice that the reader of an error adds. */
function noTerms(answer: Answer): QuotedError {
  const { code, message } = refusalOf(answer, false);
  const own = `The gateway gave no terms: it answered ${answer.status}; nothing was signed.`;
  if (!isGatewayCode(code, false)) return new QuotedError("INTERNAL", own, message);
  const { advice } = ERRORS[code];
  const said = message.endsWith(` ${advice}`) ? message.slice(0, -advice.length - 1) : message;
  return new QuotedError(code, own, said);
}

/** Maximum number of times that one call presents a payment whose answers cannot be read. */
const MAX_UNREADABLE = 4;
/** Maximum characters of a sentence of others that an error quotes. */
const MAX_QUOTED_LENGTH = 600;
/** The version of x402 whose terms are read and whose payments are signed. */
const X402_VERSION = 2;
/** Maximum nesting of payment terms: what is signed repeats some of them. */
const MAX_TERMS_DEPTH = 32;
/** Time after a node could not say what became of a refused payment before one is asked again. */
const REVIEW_PAUSE_MS = 30_000;
/** Time for nodes to say what became of refused payments. */
const REVIEW_TIMEOUT_MS = 5_000;
/** Maximum quotes that bind at once; the oldest goes first. */
const MAX_QUOTES = 256;

/** A refusal whose connection ended early is no answer: its code may be in what is missing. */
function withBody(answer: Answer): Answer | undefined {
  return answer.fault === "lost" && !isServed(answer.status) ? undefined : answer;
}

/** Reason that a payment is presented again. */
function reasonOf(answer: Answer | undefined): string {
  if (answer === undefined) return "the connection was lost";
  return isUnreadable(answer) ? "the answer cannot be read" : refusalOf(answer).code;
}

/** Facts of a payment that the caller has, and that no record describes. */
const GIVEN = { price: undefined, isResumed: true, fresh: false, isUsed: false, isCharged: false } as const;

/** Purpose of a payment. */
interface Purpose extends Request {
  readonly requestHash: string;
  /** The lower of the budget's cap and the call's. */
  readonly maxPriceUsd: string;
  /** True where the caller acknowledges what was charged. */
  readonly isKept: boolean;
}

class GatewayClient implements Client {
  readonly #opts: ClientOptions;
  readonly #journal: SpendJournal;
  readonly #networks: AllowedNetworks;
  readonly #tokens: Tokens;
  readonly #hasNodes: boolean;
  readonly #nodeNetworks: NodeNetworks;
  /** Prices that were quoted, in US dollars, by request. */
  readonly #quotes = new Map<string, string>();
  readonly #totalMicroUsd: bigint | undefined;
  readonly #fetch: typeof globalThis.fetch;
  readonly #send: Send;
  readonly #sleep: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  readonly #monotonicMs: () => number;
  readonly #nowMs: () => number;
  readonly #onSigned: (signed: SignedCall) => void;
  readonly #onRetry: (reason: string, waitMs: number) => void;
  readonly #closing = new AbortController();
  #nextReviewMs = Number.NEGATIVE_INFINITY;
  #reviewing: Promise<void> | undefined;

  constructor(opts: ClientOptions, modules: ClientModules) {
    const { perCallUsd, totalUsd } = opts.budget;
    assertUsd("budget.perCallUsd", perCallUsd, "CONFIG_INVALID");
    if (totalUsd !== undefined) assertUsd("budget.totalUsd", totalUsd, "CONFIG_INVALID");
    this.#opts = opts;
    this.#journal = opts.journal ?? memoryJournal();
    const { assets = [], rpcUrls = [] } = opts;
    this.#networks = new AllowedNetworks(opts.networks);
    this.#tokens = new Tokens(assets, rpcUrls);
    this.#hasNodes = rpcUrls.length > 0;
    this.#nodeNetworks = new NodeNetworks(rpcUrls);
    this.#totalMicroUsd = totalUsd === undefined ? undefined : limitToMicroUsd(totalUsd);
    this.#fetch = modules.fetch ?? globalThis.fetch;
    const { gateway, requestTimeoutMs = 90_000, maxAnswerBytes, maxParsedValues } = opts;
    const limits = { maxBytes: maxAnswerBytes, maxParsedValues };
    this.#send = createSend({ gateway, requestTimeoutMs, limits }, { fetch: this.#fetch });
    this.#sleep = modules.sleep ?? ((ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal }));
    this.#monotonicMs = modules.monotonicMs ?? (() => performance.now());
    this.#nowMs = modules.nowMs ?? (() => Date.now());
    this.#onSigned = modules.onSigned ?? (() => {});
    this.#onRetry = modules.onRetry ?? (() => {});
  }

  async quote(service: string, request?: unknown, options: CallOptions = {}): Promise<Quote> {
    const purpose = this.#purposeOf(service, request, { maxPriceUsd: this.#opts.budget.perCallUsd, ...options });
    const answer = await this.#ask(purpose);
    if (answer.status !== 402) throw noTerms(answer);
    const { terms, choice } = await this.#choose(answer, purpose);
    this.#quotes.delete(purpose.requestHash);
    this.#quotes.set(purpose.requestHash, choice.price.usd);
    const [oldest] = this.#quotes.keys();
    if (this.#quotes.size > MAX_QUOTES && oldest !== undefined) this.#quotes.delete(oldest);
    return { terms, price: choice.price, withinCap: withinCap(choice.price, purpose.maxPriceUsd) };
  }

  async call(service: string, request?: unknown, options: CallOptions = {}): Promise<PurchaseResult> {
    const purpose = this.#purposeOf(service, request, options);
    if (options.payment !== undefined) return this.#presentGiven(purpose, options.payment);
    using _ = await this.#journal.lock(purpose.requestHash, options.signal);
    for (;;) {
      const earlier = await this.#earlier(purpose.requestHash);
      // Awaited here: the lock lasts as long.
      if (earlier === undefined) return await this.#buy(purpose);
      const { payment } = earlier.open;
      const { result, outcome } = await this.#presentEarlier(purpose, earlier);
      // Nothing new is signed while the earlier one can still be taken, nor before the caller knows that it was. Where
      // nodes are named the gateway's refusal proves nothing.
      if (this.#hasNodes || outcome !== "uncharged") return result;
      if (!this.#journal.expired().some((one) => one.payment === payment)) return result;
    }
  }

  #presentEarlier(purpose: Purpose, { open, reservation, ...earlier }: ResumedPayment): Promise<Verdict> {
    const { payment, usd } = open;
    const { outcome, isUsed, isCharged, receipt } = earlier;
    // A payment that was refused when it was first seen is judged as it was then: nothing was lost in between.
    const fresh = outcome === "uncharged" && !isUsed && !isCharged;
    const facts = { isResumed: true, fresh, isUsed, isCharged, hasNodes: this.#hasNodes };
    return this.#present(purpose, { payment, usd, receipt, price: undefined, ...facts }, reservation);
  }

  /** The oldest payment of a request that may have been taken, or still may be. */
  async #earlier(requestHash: string): Promise<ResumedPayment | undefined> {
    if (this.#hasNodes) {
      await this.#reviewOnce(requestHash).catch(() => undefined);
      const unproven = this.#journal.expired().find((one) => one.requestHash === requestHash);
      const resumed = unproven && this.#journal.resume(requestHash, unproven.payment);
      if (resumed !== undefined) return resumed;
    }
    return this.#journal.resume(requestHash);
  }

  services(): Promise<readonly ListedService[] | undefined> {
    return listServices({ gateway: this.#opts.gateway }, { fetch: this.#fetch });
  }

  spending(): Spending {
    const { chargedMicroUsd, openMicroUsd, calls } = this.#journal.sums();
    const total = this.#totalMicroUsd;
    const left = total === undefined ? undefined : total - chargedMicroUsd - openMicroUsd;
    return {
      chargedUsd: microUsdText(chargedMicroUsd),
      openUsd: microUsdText(openMicroUsd),
      remainingUsd: left === undefined ? undefined : microUsdText(left < 0n ? 0n : left),
      calls,
    };
  }

  openPayments(): readonly OpenPayment[] {
    return this.#journal.open();
  }

  acknowledge(resultId: string): Promise<void> {
    return this.#journal.acknowledge(resultId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#reviewing;
  }

  #purposeOf(service: string, request: unknown, options: CallOptions): Purpose {
    const { maxPriceUsd, signal, keepUntilAcknowledged: isKept = false } = options;
    assertService(service);
    const body = bodyOf(request);
    const { gateway, budget } = this.#opts;
    if (maxPriceUsd !== undefined) assertUsd("maxPriceUsd", maxPriceUsd, "USAGE");
    const named = JSON.stringify([gateway, service, body ?? null]);
    const requestHash = createHash("sha256").update(named).digest("hex");
    const agreedUsd = maxPriceUsd ?? this.#quotes.get(requestHash);
    const cap = agreedUsd === undefined ? budget.perCallUsd : lowerUsd(budget.perCallUsd, agreedUsd);
    return { service, body, signal, requestHash, maxPriceUsd: cap, isKept };
  }

  async #ask(purpose: Purpose): Promise<Answer> {
    // Beside the call: only a budget that is spent waits for what nodes say.
    void this.#review();
    try {
      const answer = await this.#send(purpose);
      if (answer.fault !== "lost") return answer;
    } catch (cause) {
      throw unreachable(this.#opts.gateway, cause);
    }
    throw unreachable(this.#opts.gateway, undefined);
  }

  /**
   * Gives back what the chain shows was never taken; what was, counts as charged, whatever the gateway said. What the nodes
   * do not show stays spent. One at a time. Never rejects.
   */
  #review(): Promise<void> {
    this.#reviewing ??= this.#reviewOnce()
      .catch(() => undefined)
      .finally(() => {
        this.#reviewing = undefined;
      });
    return this.#reviewing;
  }

  /** Reviews all payments, from time to time, or those of one request at once. */
  async #reviewOnce(requestHash?: string): Promise<void> {
    const { rpcUrls = [] } = this.#opts;
    if (rpcUrls.length === 0) return;
    if (requestHash === undefined && this.#monotonicMs() < this.#nextReviewMs) return;
    const expired = this.#journal.expired().flatMap((one) => {
      if (requestHash !== undefined && one.requestHash !== requestHash) return [];
      const facts = readPayment(one.payment);
      return facts === undefined ? [] : [{ ...one, facts }];
    });
    if (expired.length === 0) return;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(REVIEW_TIMEOUT_MS)]);
    const ends = await readAuthorizationEnds(expired, rpcUrls, signal);
    if (ends.size < expired.length) this.#nextReviewMs = this.#monotonicMs() + REVIEW_PAUSE_MS;
    await Promise.all([...ends].map(([one, end]) => one.end(end === "used" ? "charged" : "void")));
  }

  async #choose(
    answer: Answer,
    { maxPriceUsd }: Purpose,
  ): Promise<{ readonly terms: PaymentRequired; readonly choice: Choice }> {
    let terms: PaymentRequired;
    try {
      const reader = new x402HTTPClient(new x402Client());
      terms = reader.getPaymentRequiredResponse((name) => answer.headers.get(name), answer.json);
      if (isNestedDeeper(terms, MAX_TERMS_DEPTH)) throw new AppError("PAYMENT_OPTION_UNKNOWN");
    } catch (cause) {
      throw new AppError("PAYMENT_OPTION_UNKNOWN", {
        message: "The gateway's payment terms cannot be read; nothing was signed.",
        cause,
      });
    }
    // Another version means other members of what is signed.
    if (terms.x402Version !== X402_VERSION) {
      throw new AppError("PAYMENT_OPTION_UNKNOWN", {
        message: `The gateway's payment terms are not of version ${X402_VERSION} of x402; nothing was signed.`,
      });
    }
    const findToken = (id: TokenId): Promise<Token | undefined> => this.#tokens.find(id);
    return { terms, choice: await choose(terms, { networks: this.#networks, findToken, maxPriceUsd }) };
  }

  async #buy(purpose: Purpose): Promise<PurchaseResult> {
    const asked = await this.#ask(purpose);
    const { status, json, text } = asked;
    if (status < 300) return { kind: "free", state: "unsigned", status, answer: json, answerText: text };
    if (status !== 402) return refusedUnsigned(asked);
    const { terms, choice } = await this.#choose(asked, purpose);
    const { price } = choice;
    if (!withinCap(price, purpose.maxPriceUsd)) {
      throw new AppError("SPEND_CAP", {
        message: `The price is ${price.usd} USD, over the cap of ${purpose.maxPriceUsd} USD; nothing was signed.`,
        detail: { usd: price.usd, maxPriceUsd: purpose.maxPriceUsd },
      });
    }
    await this.#nodeNetworks.assertMayShow(price.network);
    purpose.signal?.throwIfAborted();
    const reservation = await this.#reserve(purpose, unitsToMicroUsd(price.amount, price.decimals));
    let payment: string;
    try {
      payment = await this.#sign(terms, choice, purpose);
    } catch (cause) {
      await reservation.end("uncharged");
      throw cause;
    }
    const facts = { isResumed: false, fresh: true, isUsed: false, isCharged: false, hasNodes: this.#hasNodes };
    return (await this.#present(purpose, { payment, price, usd: price.usd, ...facts }, reservation)).result;
  }

  async #reserve({ service, requestHash }: Purpose, microUsd: bigint): Promise<SpendReservation> {
    const call = { service, requestHash, microUsd, totalMicroUsd: this.#totalMicroUsd };
    try {
      return await this.#journal.reserve(call);
    } catch (error) {
      if (!isAppError(error, "BUDGET_SPENT")) throw error;
      await this.#review();
      return this.#journal.reserve(call);
    }
  }

  /** Signs exactly one option, and holds that what is signed is what was checked. */
  async #sign(terms: PaymentRequired, { option, price }: Choice, purpose: Purpose): Promise<string> {
    const http = referenceClient(this.#opts.signer, { option, price }, purpose.maxPriceUsd);
    let payment: string | undefined;
    try {
      const payload = await http.createPaymentPayload({ ...terms, accepts: [option] });
      payment = http.encodePaymentSignatureHeader(withAnswerKey(payload))["PAYMENT-SIGNATURE"];
    } catch (cause) {
      // The sentence of a library or a signer may repeat what the gateway sent: it is quoted, and no part of ours.
      const why = cause instanceof Error ? visibleLine(cause.message, MAX_QUOTED_LENGTH) : undefined;
      throw new QuotedError("INTERNAL", "The payment could not be signed; nothing was sent.", why, cause);
    }
    const facts = payment === undefined ? undefined : readPayment(payment);
    if (payment === undefined || facts?.value !== price.amount || facts.network !== price.network) {
      throw new AppError("INTERNAL", {
        message: "The payment is not of the price that was checked; nothing was sent.",
      });
    }
    return payment;
  }

  /** Presents a payment that the caller has. Where it is the signer's own it counts in the budget, once. */
  async #presentGiven(purpose: Purpose, payment: string): Promise<PurchaseResult> {
    const { requestHash, signal } = purpose;
    const isOpenHere = this.#countedFor(purpose, payment)?.state === "open";
    // Another call may hold this payment: it is presented beside it, and that call journals it.
    using lock = isOpenHere ? this.#journal.tryLock(requestHash) : await this.#journal.lock(requestHash, signal);
    const earlier = lock && this.#journal.resume(requestHash, payment);
    if (earlier !== undefined) return (await this.#presentEarlier(purpose, earlier)).result;
    const counted = this.#countedFor(purpose, payment);
    if (counted !== undefined) return this.#presentCounted(purpose, payment, counted);
    const unknown = { ...GIVEN, hasNodes: this.#hasNodes };
    const presented = { payment, usd: undefined, ...unknown };
    const facts = readPayment(payment);
    if (facts === undefined || facts.from.toLowerCase() !== this.#opts.signer.address.toLowerCase()) {
      return (await this.#present(purpose, presented, undefined)).result;
    }
    const token = await this.#tokens.find(facts);
    if (token === undefined) {
      throw new AppError("PAYMENT_OPTION_UNKNOWN", {
        message: "This payment is not in a dollar stablecoin that this client knows; nothing was signed or sent.",
      });
    }
    // Calls of other requests may have the same payment.
    using _ = await this.#journal.lock(authorizationId(payment), signal);
    const countedNow = this.#countedFor(purpose, payment);
    if (countedNow !== undefined) return this.#presentCounted(purpose, payment, countedNow);
    const microUsd = unitsToMicroUsd(facts.value, token.decimals);
    const reservation = await this.#reserve(purpose, microUsd);
    return (await this.#present(purpose, { ...presented, usd: microUsdText(microUsd) }, reservation)).result;
  }

  /**
   * The record of a payment that counts already.
   * @throws AppError USAGE when it was signed for another request.
   */
  #countedFor({ requestHash }: Purpose, payment: string): CountedPayment | undefined {
    const counted = this.#journal.counted(payment);
    if (counted === undefined || counted.requestHash === requestHash) return counted;
    throw new AppError("USAGE", {
      message:
        "This payment was signed for another request, and only that one can be sent with it; nothing was signed.",
    });
  }

  /** Presents a payment that counts already: another call journals what becomes of it, or it was charged. */
  async #presentCounted(purpose: Purpose, payment: string, { usd, state }: CountedPayment): Promise<PurchaseResult> {
    const isAcknowledged = state === "charged";
    const known = { ...GIVEN, hasNodes: this.#hasNodes };
    return (await this.#present(purpose, { payment, usd, isAcknowledged, ...known }, undefined)).result;
  }

  /** Sends one signed payment until its outcome is known. Never signs: a second signature could be a second debit. */
  async #present(purpose: Purpose, presented: Presented, reservation: SpendReservation | undefined): Promise<Verdict> {
    await reservation?.signed(presented.payment);
    const { payment, usd } = presented;
    this.#notify(() => this.#onSigned({ payment, usd, isResumed: presented.isResumed }));
    const untilMs = this.#monotonicMs() + (this.#opts.retryForMs ?? 120_000);
    let { fresh, receipt } = presented;
    let answer: Answer | undefined;
    let unreadable = 0;
    for (let attempt = 0; purpose.signal?.aborted !== true; attempt++) {
      const head = await this.#send(purpose, payment).catch(() => undefined);
      const shown = head && receiptToKeep(head, payment);
      if (shown !== undefined) await reservation?.shown(shown);
      receipt ??= shown;
      answer = head && withBody(head);
      if (answer !== undefined && isUnreadable(answer)) {
        unreadable += 1;
        if (unreadable === MAX_UNREADABLE || !mayBecomeReadable(answer)) break;
      } else if (answer !== undefined && !isOpen(answer)) break;
      fresh = false;
      const wait = waitMs(answer, attempt);
      if (this.#monotonicMs() + wait >= untilMs) break;
      this.#notify(() => this.#onRetry(reasonOf(answer), wait));
      await this.#sleep(wait, purpose.signal).catch(() => {});
    }
    const verdict = judge(answer, { ...presented, fresh, receipt }, this.#nowMs());
    const { result } = verdict;
    if (reservation === undefined || result.kind === "free") return verdict;
    const resultId = await this.#end(verdict, purpose, reservation);
    return { ...verdict, result: { ...result, resultId } };
  }

  /**
   * Writes down what became of a payment. What was charged can be presented until its caller has the result. Returns the id of a result
   * that is to be acknowledged.
   */
  async #end(
    { outcome, result }: Verdict,
    { isKept }: Purpose,
    reservation: SpendReservation,
  ): Promise<string | undefined> {
    if (outcome !== "charged") return reservation.end(outcome);
    const receipt = result.kind === "bought" ? result.receipt : undefined;
    const resultId = await reservation.end("unacknowledged", receipt);
    if (isKept || resultId === undefined) return resultId;
    // Taken out of the journal at once, and written while the caller has the result: nothing but that is done before it.
    void this.#journal.acknowledge(resultId);
    return undefined;
  }

  /** A fault of the caller's own function must not hide what became of a payment. */
  #notify(call: () => void): void {
    try {
      call();
    } catch {
      // The caller learns it from the result.
    }
  }
}

/**
 * Makes the client of a gateway.
 * @throws AppError CONFIG_INVALID when an amount of the budget is none.
 */
export function createClient(opts: ClientOptions, modules: ClientModules = {}): Client {
  return new GatewayClient(opts, modules);
}
