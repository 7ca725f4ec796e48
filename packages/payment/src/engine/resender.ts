import { type Clock, isAppError } from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { QueueItem } from "./queue.ts";

interface Tries {
  count: number;
  /** Monotonic milliseconds; not tried before. */
  notBeforeMs: number;
  suspect: boolean;
}

const FIRST_PAUSE_MS = 1_000;
const REFUSED_PAUSE_MS = 10_000;
const LONGEST_PAUSE_MS = 60_000;
/** Longer than any payment's window. */
const REMEMBERED_MS = 86_400_000;
const MAX_REMEMBERED = 10_000;

/** Maximum number of payments of one payer that wait for another one of it. */
const MAX_BEHIND = 500;

/**
 * Puts payments that their transaction did not settle into further batches, each by itself. One payment of a payer at a time
 * waits for its batch.
 */
export class Resender {
  readonly #ledger: Pick<Ledger, "answer">;
  readonly #clock: Clock;
  readonly #push: (item: QueueItem) => void;
  /** Payers with a payment that waits for its batch, and others of theirs. */
  readonly #behind = new Map<string, Map<string, { readonly payment: PaymentRecord; readonly isSuspect: boolean }>>();
  readonly #tried = new BoundedMap<string, Tries>({ maxEntries: MAX_REMEMBERED, ttlMs: REMEMBERED_MS });

  /** `push` puts an item into the queue of its network. */
  constructor(modules: {
    readonly ledger: Pick<Ledger, "answer">;
    readonly clock: Clock;
    readonly push: (item: QueueItem) => void;
  }) {
    this.#ledger = modules.ledger;
    this.#clock = modules.clock;
    this.#push = modules.push;
  }

  /**
   * Does nothing while the payment waits for a batch already, or was tried a short time ago. `isSuspect`: nodes refused a
   * transaction that carried it. Never throws.
   */
  resend(payment: PaymentRecord, isSuspect = false): void {
    const nowMs = this.#clock.monotonicMs();
    const tries = this.#tried.get(payment.id, nowMs) ?? { count: 0, notBeforeMs: nowMs, suspect: false };
    if (nowMs < tries.notBeforeMs) return;
    const { from } = payment.key;
    const behind = this.#behind.get(from);
    if (behind !== undefined) {
      if (behind.size < MAX_BEHIND) behind.set(payment.id, { payment, isSuspect });
      return;
    }
    this.#behind.set(from, new Map());
    tries.count++;
    if (isSuspect) tries.suspect = true;
    // It waits for its batch now.
    tries.notBeforeMs = Number.POSITIVE_INFINITY;
    this.#tried.set(payment.id, tries, nowMs);
    void this.#run(payment, tries).then((isSent) => this.#next(from, isSent));
  }

  /** The payer's payment waits no more. What is behind one that was not sent is looked at by the next reconciliation. */
  #next(payer: string, isSent: boolean): void {
    const behind = this.#behind.get(payer);
    this.#behind.delete(payer);
    if (!isSent) return;
    for (const { payment, isSuspect } of behind?.values() ?? []) this.resend(payment, isSuspect);
  }

  /**
   * Nodes refused its own transaction: another one waits. `isSingled`: they accept the transactions of other payments, so
   * that it is this one that they refuse, and each further try would only hold up what is behind it.
   */
  postpone(payment: PaymentRecord, isSingled: boolean): void {
    const nowMs = this.#clock.monotonicMs();
    const count = this.#tried.get(payment.id, nowMs)?.count ?? 0;
    const pauseMs = isSingled ? LONGEST_PAUSE_MS : REFUSED_PAUSE_MS;
    this.#tried.set(payment.id, { count, notBeforeMs: nowMs + pauseMs, suspect: true }, nowMs);
  }

  /** True when it is in a batch now. Never rejects. */
  async #run(payment: PaymentRecord, tries: Tries): Promise<boolean> {
    try {
      const answer = await this.#ledger.answer(payment.id);
      if (answer !== undefined) {
        const { promise, resolve: commit, reject } = Promise.withResolvers<void>();
        const queuedAtMs = this.#clock.monotonicMs();
        this.#push({ payment, answer, queuedAtMs, alone: true, suspect: tries.suspect, commit, reject });
        await promise;
      }
      tries.notBeforeMs = this.#clock.monotonicMs();
      return true;
    } catch (error) {
      // The ledger takes a payment into a few further batches only, unless an operator lets it have more.
      const isOver = isAppError(error, "LEDGER_FENCED");
      const pauseMs = isOver ? LONGEST_PAUSE_MS : FIRST_PAUSE_MS * 2 ** (tries.count - 1);
      tries.notBeforeMs = this.#clock.monotonicMs() + Math.min(pauseMs, LONGEST_PAUSE_MS);
      return false;
    }
  }
}
