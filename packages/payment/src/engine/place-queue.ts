import { clientKeys, failureCode, type Log } from "@turnpike/base";
import type { WalletAdmission, WalletBound, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { pause } from "./waiters.ts";

/** Pause until the ledger is asked again for those that wait. */
const REST_MS = 250;
/** Maximum number of claims that wait: each holds a request open. A client may have a quarter of them. */
const MAX_WAITING = 128;
const MAX_WAITING_OF_CLIENT = MAX_WAITING / 4;
/** Clients of one /48 may have half of them. */
const MAX_SITE_SHARES = 2;
/** Maximum number of waits that a payer or a code causes, as a multiple of its places. */
const WAITS_PER_PLACE = 2;
/** Maximum number of claims that the ledger is asked about at once. */
const MAX_ASKED = 32;

/** The ledger's answer to a payment that asks for a place. Without `wallet` the chain did not say whose code would run. */
export interface PlaceAnswer {
  readonly admission: WalletAdmission;
  readonly wallet?: WalletSubjects;
}

/** A claim that is to wait, and whose wait it is. */
export interface PlaceWait {
  readonly payment: PaymentRecord;
  /** Undefined while the chain does not say whose code would run. */
  readonly wallet: WalletSubjects | undefined;
  /** Undefined where neither its payer nor its code causes the wait. */
  readonly bound: WalletBound | undefined;
  /** As limits count clients; undefined where that is not known. */
  readonly client: string | undefined;
}

interface Waiter extends PlaceWait {
  readonly end: (answer: PlaceAnswer) => void;
}

export interface PlaceQueueModules {
  /** Asks for a place; `wallet` where it is known. */
  readonly ask: (payment: PaymentRecord, wallet: WalletSubjects | undefined) => Promise<PlaceAnswer>;
  readonly log: Log;
  /** Fires when the engine ends. */
  readonly signal: AbortSignal;
}

/**
 * Claims that wait for a place before they are served. They are bounded in total, for each client, payer and code, and
 * one pass asks the ledger for all of them: each asks as one of those that have waited for the longest time since.
 */
export class PlaceQueue {
  readonly #modules: PlaceQueueModules;
  readonly #waiting = new Set<Waiter>();
  readonly #counts = new Map<string, number>();
  #isAsking = false;

  constructor(modules: PlaceQueueModules) {
    this.#modules = modules;
  }

  /** The answer to the last question, at the latest when `limit` fires; undefined, at once, when there is no room to wait. */
  async wait(wait: PlaceWait, limit: AbortSignal): Promise<PlaceAnswer | undefined> {
    const shares = sharesOf(wait);
    const hasRoom = shares.every(({ name, max }) => (this.#counts.get(name) ?? 0) < max);
    if (!hasRoom || this.#waiting.size >= MAX_WAITING || limit.aborted) return undefined;
    for (const { name } of shares) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    try {
      return await this.#answerTo(wait, limit);
    } finally {
      for (const { name } of shares) {
        const others = (this.#counts.get(name) ?? 1) - 1;
        if (others === 0) this.#counts.delete(name);
        else this.#counts.set(name, others);
      }
    }
  }

  #answerTo(wait: PlaceWait, limit: AbortSignal): Promise<PlaceAnswer> {
    return new Promise((resolve) => {
      const waiter: Waiter = {
        ...wait,
        end: (answer) => {
          this.#waiting.delete(waiter);
          limit.removeEventListener("abort", onLimit);
          resolve(answer);
        },
      };
      const onLimit = (): void => waiter.end({ admission: "wait" });
      limit.addEventListener("abort", onLimit, { once: true });
      this.#waiting.add(waiter);
      if (!this.#isAsking) void this.#askUntilEmpty();
    });
  }

  async #askUntilEmpty(): Promise<void> {
    const { signal } = this.#modules;
    this.#isAsking = true;
    while (this.#waiting.size > 0 && !signal.aborted) {
      await pause(REST_MS, signal);
      const waiters = [...this.#waiting].slice(0, MAX_ASKED);
      await Promise.all(waiters.map((waiter) => this.#ask(waiter)));
    }
    this.#isAsking = false;
    for (const waiter of this.#waiting) waiter.end({ admission: "wait" });
  }

  /** Never rejects. */
  async #ask(waiter: Waiter): Promise<void> {
    const { ask, log } = this.#modules;
    const { payment, wallet } = waiter;
    let answer: PlaceAnswer = { admission: "wait" };
    try {
      answer = await ask(payment, wallet);
    } catch (error) {
      log.warn({ settlementId: payment.id, code: failureCode(error) }, "wallet payment not admitted");
      // While the ledger does not answer, a request that waits on would hold its place for nothing.
      waiter.end(answer);
      return;
    }
    if (answer.admission !== "wait") waiter.end(answer);
    // Behind all others, unless it has left meanwhile.
    else if (this.#waiting.delete(waiter)) this.#waiting.add(waiter);
  }
}

interface Share {
  readonly name: string;
  readonly max: number;
}

function sharesOf({ payment, bound, client }: PlaceWait): readonly Share[] {
  const payer = `payer:${payment.key.from.toLowerCase()}`;
  const boundShare = bound && { name: bound.subject, max: WAITS_PER_PLACE * bound.places };
  return [
    ...(client === undefined ? [] : clientKeys(client)).map(({ name, shares }) => ({
      name: `client:${name}`,
      max: MAX_WAITING_OF_CLIENT * Math.min(shares, MAX_SITE_SHARES),
    })),
    ...(boundShare === undefined ? [] : [boundShare]),
    // A payer with more than one place waits for its own places alone.
    ...(boundShare?.name === payer ? [] : [{ name: payer, max: WAITS_PER_PLACE }]),
  ];
}
