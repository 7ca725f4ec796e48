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

/** Puts payments that their transaction did not settle into further batches, each by itself. */
export class Resender {
  readonly #ledger: Pick<Ledger, "answer">;
  readonly #clock: Clock;
  readonly #push: (item: QueueItem) => void;
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
    tries.count++;
    if (isSuspect) tries.suspect = true;
    // It waits for its batch now.
    tries.notBeforeMs = Number.POSITIVE_INFINITY;
    this.#tried.set(payment.id, tries, nowMs);
    void this.#run(payment, tries);
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

  async #run(payment: PaymentRecord, tries: Tries): Promise<void> {
    try {
      const answer = await this.#ledger.answer(payment.id);
      if (answer !== undefined) {
        const { promise, resolve: commit, reject } = Promise.withResolvers<void>();
        const queuedAtMs = this.#clock.monotonicMs();
        this.#push({ payment, answer, queuedAtMs, alone: true, suspect: tries.suspect, commit, reject });
        await promise;
      }
      tries.notBeforeMs = this.#clock.monotonicMs();
    } catch (error) {
      // The ledger takes a payment into a few further batches only, unless an operator lets it have more.
      const isOver = isAppError(error, "LEDGER_FENCED");
      const pauseMs = isOver ? LONGEST_PAUSE_MS : FIRST_PAUSE_MS * 2 ** (tries.count - 1);
      tries.notBeforeMs = this.#clock.monotonicMs() + Math.min(pauseMs, LONGEST_PAUSE_MS);
    }
  }
}
