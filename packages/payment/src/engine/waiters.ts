import type { Log, SettlementId } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { Evidence, PaymentRecord } from "../types.ts";

/** Requests that wait for a payment of this process to be resolved. */
export class Waiters {
  readonly #waiting = new Map<SettlementId, Set<(evidence?: Evidence) => void>>();

  /**
   * Resolves when {@link Waiters.resolved} is called for the payment, with its evidence, or `signal` fires. Never rejects.
   */
  wait(id: SettlementId, signal: AbortSignal): Promise<Evidence | undefined> {
    if (signal.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const all = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, all);
      const done = (evidence?: Evidence): void => {
        signal.removeEventListener("abort", onAbort);
        all.delete(done);
        if (all.size === 0 && this.#waiting.get(id) === all) this.#waiting.delete(id);
        resolve(evidence);
      };
      const onAbort = (): void => done();
      all.add(done);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** `evidence` only when this process has committed that the payment is settled by it. */
  resolved(id: SettlementId, evidence?: Evidence): void {
    for (const done of this.#waiting.get(id) ?? []) done(evidence);
  }
}

/** Resolves after a time, or at once when the signal fires; never rejects. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, delayMs);
    signal.addEventListener("abort", done, { once: true });
  });
}

/** Waits for `work`, but no longer than `graceMs` after the signal fired. True when it ended; throws what it throws. */
export async function within(work: Promise<void>, signal: AbortSignal, graceMs: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    timer = setTimeout(() => resolve(false), graceMs);
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

const LEDGER_LOOK_MS = 500;

/**
 * Waits until the ledger says that a payment has come to its end, or the signal fires. Another process may be the one
 * that settles it, so the ledger is asked again now and then. Never rejects.
 */
export async function waitForEnd(
  payment: PaymentRecord,
  signal: AbortSignal,
  { ledger, waiters, log }: { readonly ledger: Ledger; readonly waiters: Waiters; readonly log: Log },
): Promise<void> {
  while (!signal.aborted) {
    const look = new AbortController();
    const either = AbortSignal.any([signal, look.signal]);
    const woken = waiters.wait(payment.id, either);
    try {
      const now = await ledger.get(payment.id);
      if (now === undefined || (now.state !== "signed" && now.state !== "submitted")) return look.abort();
    } catch {
      log.warn({ settlementId: payment.id }, "the ledger could not be asked");
    }
    await Promise.race([woken, pause(LEDGER_LOOK_MS, either)]);
    look.abort();
  }
}
