import type { Clock } from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import type { PaymentKey } from "../types.ts";

/** Who pays: an account of one chain. */
export type PayerName = Pick<PaymentKey, "network" | "from">;

interface Failure {
  readonly id: string;
  readonly atMs: number;
}

const MAX_FAILURES = 3;
const WINDOW_MS = 600_000;
const MAX_PAYERS = 10_000;

/**
 * Refuses a payer after three failed settlements within ten minutes: each cost a call that was not paid for, and often gas.
 * Holds 10,000 payers by default.
 */
export class BackOff {
  readonly #clock: Clock;
  readonly #failures: BoundedMap<string, readonly Failure[]>;

  constructor({ maxPayers = MAX_PAYERS }: { readonly maxPayers?: number }, { clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#failures = new BoundedMap({ maxEntries: maxPayers, ttlMs: WINDOW_MS });
  }

  /**
   * A settlement failed by its payer's own doing. One claim counts once, however often its settlement was tried; the
   * same authorization presented again is another claim, and cost another call.
   */
  failed({ id, key }: { readonly id: string; readonly key: PayerName }): void {
    const atMs = this.#clock.monotonicMs();
    const others = this.#recent(key, atMs).filter((failure) => failure.id !== id);
    this.#failures.set(nameOf(key), [...others, { id, atMs }].slice(-MAX_FAILURES), atMs);
  }

  /** True while too many have failed lately. */
  refuses(payer: PayerName): boolean {
    return this.#recent(payer, this.#clock.monotonicMs()).length >= MAX_FAILURES;
  }

  #recent(payer: PayerName, nowMs: number): readonly Failure[] {
    return (this.#failures.get(nameOf(payer), nowMs) ?? []).filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
  }
}

function nameOf({ network, from }: PayerName): string {
  return `${network} ${from.toLowerCase()}`;
}
