import { randomUUID } from "node:crypto";
import type { CallToolResult } from "@modelcontextprotocol/server";
import { AppError, decimalToUnits, unitsToDecimal } from "@turnpike/base";
import type { PurchaseReceipt, SpendEnd, SpendJournal, SpendOutcome, SpendReservation } from "@turnpike/client";
import { SharedCalls } from "./shared-calls.ts";

/** Places of the micro-units that budgets are counted in. */
const PLACES = 6;

/** US dollars as text: `usdOf(5000n)` is `"0.005000"`. */
export function usdOf(microUsd: bigint): string {
  return unitsToDecimal(microUsd, PLACES);
}

/** A decimal amount of US dollars in micro-units, rounded up. @throws AppError CONFIG_INVALID. */
export function microOf(usd: string): bigint {
  const units = decimalToUnits(usd, 18);
  const perMicro = 10n ** 12n;
  return (units + perMicro - 1n) / perMicro;
}

/** State of the payment of one call. */
export type PaymentState =
  /** No signature was made, or it was not sent. */
  | "unsigned"
  /** Signed, and taken, once; or it may have been, for another request. */
  | "charged"
  /** Signed, and refused for good. */
  | "uncharged"
  /** Signed, and not taken so far: the same payment may be presented again. */
  | "unserved"
  /** Signed, and it is not known whether it was taken. */
  | "open";

/** One call and its payment, as the session counts it. Holds a signature: never show {@link payment}. */
export interface CallRecord {
  /** The journal for the client of this one call. */
  readonly journal: SpendJournal;
  readonly state: PaymentState;
  /** True when the payment of an earlier try was presented again. */
  readonly resumed: boolean;
  /** Id under which an open payment is listed; undefined while nothing was reserved. */
  readonly paymentId: string | undefined;
  /** Its cost; undefined while nothing was reserved. */
  readonly microUsd: bigint | undefined;
  /** The signed header, to remove it from what is shown. */
  readonly payment: string | undefined;
  /** To be called when the call has ended, however it did: releases what was reserved and not signed. */
  close(): void;
}

/** Spending of a session. */
export interface SessionSpending {
  readonly perCallMicroUsd: bigint;
  readonly perSessionMicroUsd: bigint;
  /** Charged, held and reserved together. */
  readonly usedMicroUsd: bigint;
  /** Signed and not known to be charged: it counts as spent until the chain shows that it never can be. */
  readonly heldMicroUsd: bigint;
  readonly remainingMicroUsd: bigint;
}

/** A call that buys, or presents an earlier payment. */
export interface Purchase {
  readonly mode: "buy" | "resume";
  readonly result: CallToolResult;
  /** The payment that was sent; undefined where none was. */
  readonly payment: string | undefined;
  /** Id of the result that is acknowledged when it has been delivered; undefined where none is. */
  readonly resultId: string | undefined;
}

/** Facts of a purchase that decide which calls may share it. */
export interface PurchaseLimit {
  readonly mode: "buy" | "resume";
  /** Maximum price that it signs for, in units of 10^-18 US dollars; 0 for one that signs nothing. */
  readonly maxUnits: bigint;
}

/** Budgets of one session, in micro-dollars. */
export interface McpSessionOptions {
  readonly perCallMicroUsd: bigint;
  readonly perSessionMicroUsd: bigint;
  /** Sum that this session had used before the process was started again; 0 by default. */
  readonly usedMicroUsd?: bigint;
  /** Called with what the session has used, before it is signed for: where it throws, nothing is. */
  readonly onUsed?: (usedMicroUsd: bigint) => void;
}

/** A request as it was sent, kept so that its payment can be presented again. */
export interface SentRequest {
  readonly service: string;
  readonly request: unknown;
}

/** Bounded memory: the oldest entry goes first. */
class Recent<Value> {
  readonly #entries = new Map<string, Value>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#maxEntries && oldest !== undefined) this.#entries.delete(oldest);
  }
}

const MAX_QUOTES = 256;
const MAX_SHOWN_PRICES = 5_000;
const MAX_SENT = 64;

/** The budget of one session. */
class SessionBudget {
  readonly perCallMicroUsd: bigint;
  readonly perSessionMicroUsd: bigint;
  /** Sums that were signed in this session and may have been charged, in micro-dollars by signed payment. */
  readonly held = new Map<string, bigint>();
  readonly #onUsed: (usedMicroUsd: bigint) => void;
  #used: bigint;

  constructor(opts: McpSessionOptions) {
    this.perCallMicroUsd = opts.perCallMicroUsd;
    this.perSessionMicroUsd = opts.perSessionMicroUsd;
    this.#used = opts.usedMicroUsd ?? 0n;
    this.#onUsed = opts.onUsed ?? (() => {});
  }

  get used(): bigint {
    return this.#used;
  }

  get left(): bigint {
    const { used } = this;
    return used >= this.perSessionMicroUsd ? 0n : this.perSessionMicroUsd - used;
  }

  /** @throws AppError SPEND_CAP or BUDGET_SPENT. */
  reserve(microUsd: bigint): void {
    const [cost, perCall, perSession] = [microUsd, this.perCallMicroUsd, this.perSessionMicroUsd].map(usdOf);
    if (microUsd > this.perCallMicroUsd || microUsd < 0n) {
      throw new AppError("SPEND_CAP", {
        message: `The price is ${cost} USD, over the ${perCall} USD that one call may cost; nothing was signed.`,
      });
    }
    if (microUsd > this.left) {
      throw new AppError("BUDGET_SPENT", {
        message:
          `The call costs ${cost} USD and ${usdOf(this.left)} USD of this session's ${perSession} USD are left; ` +
          "nothing was signed.",
      });
    }
    this.#onUsed(this.#used + microUsd);
    this.#used += microUsd;
  }

  release(microUsd: bigint): void {
    if (microUsd === 0n) return;
    this.#used -= microUsd;
    try {
      this.#onUsed(this.#used);
    } catch {
      // Too much is recorded, until the next purchase.
    }
  }

  /** Holds what was signed until the journal knows its final outcome, by a call of any session. */
  async hold(payment: string, microUsd: bigint, ended: Promise<SpendEnd>): Promise<void> {
    this.held.set(payment, microUsd);
    const end = await ended;
    this.held.delete(payment);
    if (end === "void") this.release(microUsd);
  }
}

type TakenOutcome = "charged" | "unacknowledged" | "claimed";
const isTaken = (outcome: SpendOutcome): outcome is TakenOutcome =>
  outcome === "charged" || outcome === "unacknowledged" || outcome === "claimed";

class SessionCall implements CallRecord, SpendJournal {
  readonly journal: SpendJournal = this;
  state: PaymentState = "unsigned";
  resumed = false;
  paymentId: string | undefined;
  microUsd: bigint | undefined;
  payment: string | undefined;
  #reserved = 0n;
  readonly #budget: SessionBudget;
  readonly #shared: SpendJournal;
  readonly #mode: "buy" | "resume";
  readonly #onNamed: (paymentId: string) => void;

  constructor(
    budget: SessionBudget,
    shared: SpendJournal,
    mode: "buy" | "resume",
    onNamed: (paymentId: string) => void,
  ) {
    this.#budget = budget;
    this.#shared = shared;
    this.#mode = mode;
    this.#onNamed = onNamed;
  }

  async reserve(call: Parameters<SpendJournal["reserve"]>[0]): Promise<SpendReservation> {
    if (this.#mode === "resume") {
      if (this.#shared.open().some((one) => one.requestHash === call.requestHash)) {
        throw new AppError("PAYMENT_IN_PROGRESS", {
          message: "Another call is presenting this payment just now; nothing was signed.",
        });
      }
      throw new AppError("NOT_FOUND", { message: "No payment of this request is open; nothing was signed." });
    }
    // Reserved before anything is awaited: calls that run at once see each other.
    this.#budget.reserve(call.microUsd);
    this.#reserved += call.microUsd;
    this.microUsd = call.microUsd;
    this.paymentId = call.requestHash;
    this.#onNamed(call.requestHash);
    try {
      return this.#follow(await this.#shared.reserve(call));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  lock(requestHash: string, signal: AbortSignal | undefined): Promise<Disposable> {
    return this.#shared.lock(requestHash, signal);
  }

  tryLock(requestHash: string): Disposable | undefined {
    return this.#shared.tryLock(requestHash);
  }

  resume(requestHash: string, payment?: string): ReturnType<SpendJournal["resume"]> {
    const found = this.#shared.resume(requestHash, payment);
    if (found === undefined) return undefined;
    const { open, reservation } = found;
    this.resumed = true;
    this.state = "open";
    this.paymentId = requestHash;
    this.#onNamed(requestHash);
    this.payment = open.payment;
    this.microUsd = microOf(open.usd);
    return { ...found, reservation: this.#follow(reservation) };
  }

  acknowledge(resultId: string): Promise<void> {
    return this.#shared.acknowledge(resultId);
  }

  counted(payment: string): ReturnType<SpendJournal["counted"]> {
    return this.#shared.counted(payment);
  }

  open(): ReturnType<SpendJournal["open"]> {
    return this.#shared.open();
  }

  expired(): ReturnType<SpendJournal["expired"]> {
    return this.#shared.expired();
  }

  pendingCount(): number {
    return this.#shared.pendingCount();
  }

  sums(): ReturnType<SpendJournal["sums"]> {
    return this.#shared.sums();
  }

  close(): void {
    this.#budget.release(this.#reserved);
    this.#reserved = 0n;
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #follow(inner: SpendReservation): SpendReservation {
    return {
      ended: inner.ended,
      shown: (receipt) => inner.shown(receipt),
      signed: async (payment) => {
        await inner.signed(payment);
        if (payment === this.payment) return;
        this.payment = payment;
        this.resumed = false;
        this.state = "open";
        void this.#budget.hold(payment, this.#reserved, inner.ended);
        this.#reserved = 0n;
      },
      end: async (outcome, receipt?: PurchaseReceipt) => {
        if (this.state === "unsigned" || this.payment === undefined) this.close();
        else this.state = isTaken(outcome) ? "charged" : outcome;
        return inner.end(outcome, receipt);
      },
    };
  }
}

/** One MCP session: its budget, over a journal that it may share with others, and its quotes. */
export class McpSession {
  readonly id = randomUUID();
  /** Prices that were quoted in this session, in US dollars, by request. */
  readonly quotes = new Recent<string>(MAX_QUOTES);
  /** Purchases in flight, by request. */
  readonly purchases = new SharedCalls<Purchase, PurchaseLimit>();
  /** The journal of all sessions. */
  readonly journal: SpendJournal;
  readonly #budget: SessionBudget;
  readonly #sent = new Recent<SentRequest>(MAX_SENT);
  /** Prices of services that were shown in this session, in US dollars, by id. */
  readonly #shownPrices = new Recent<string>(MAX_SHOWN_PRICES);

  constructor(opts: McpSessionOptions, modules: { readonly journal: SpendJournal }) {
    this.journal = modules.journal;
    this.#budget = new SessionBudget(opts);
  }

  /** The request of a payment; undefined when it was not sent in this session, or long ago. */
  sentRequest(paymentId: string): SentRequest | undefined {
    return this.#sent.get(paymentId);
  }

  /** The last price that was shown for a service; undefined where none was. */
  shownPrice(serviceId: string): string | undefined {
    return this.#shownPrices.get(serviceId);
  }

  /** Records a price as it is shown. One that is shown as unknown does not end what an earlier one binds. */
  showPrice(serviceId: string, priceUsd: string | undefined): void {
    if (priceUsd !== undefined) this.#shownPrices.set(serviceId, priceUsd);
  }

  spending(): SessionSpending {
    const { perCallMicroUsd, perSessionMicroUsd, used, left, held } = this.#budget;
    return {
      perCallMicroUsd,
      perSessionMicroUsd,
      usedMicroUsd: used,
      heldMicroUsd: [...held.values()].reduce((sum, microUsd) => sum + microUsd, 0n),
      remainingMicroUsd: left,
    };
  }

  /** Begins a call: `resume` presents an open payment again or fails, and can never sign. */
  startCall(mode: "buy" | "resume", request: SentRequest): CallRecord {
    return new SessionCall(this.#budget, this.journal, mode, (id) => this.#sent.set(id, request));
  }
}
