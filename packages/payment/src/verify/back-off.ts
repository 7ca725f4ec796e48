import type { Clock } from "@turnpike/base";
import type { PaymentKey } from "../types.ts";

/** Who pays: an account of one chain. */
export type PayerName = Pick<PaymentKey, "network" | "from">;

/** Remembers payers whose settlements failed: each cost a call that nobody paid for, and often gas. */
export interface BackOff {
  /**
   * A settlement failed by its payer's own doing. One claim counts once, however often its settlement was tried; the
   * same authorization presented again is another claim, and cost another call.
   */
  failed(payment: { readonly id: string; readonly key: PayerName }): void;
  /** True while too many have failed lately. */
  refuses(payer: PayerName): boolean;
}

interface Failure {
  readonly id: string;
  readonly atMs: number;
}

const MAX_FAILURES = 3;
const WINDOW_MS = 600_000;
const MAX_PAYERS = 10_000;

/** Refuses a payer after three failures within ten minutes, while they are that young. Holds 10,000 payers by default. */
export function createBackOff(modules: { readonly clock: Clock; readonly maxPayers?: number }): BackOff {
  const { clock } = modules;
  const maxPayers = modules.maxPayers ?? MAX_PAYERS;
  const failures = new Map<string, readonly Failure[]>();
  const nameOf = ({ network, from }: PayerName): string => `${network} ${from.toLowerCase()}`;
  const recent = (name: string): readonly Failure[] =>
    (failures.get(name) ?? []).filter(({ atMs }) => atMs > clock.monotonicMs() - WINDOW_MS);
  return {
    failed({ id, key }) {
      const name = nameOf(key);
      const others = recent(name).filter((failure) => failure.id !== id);
      const times = [...others, { id, atMs: clock.monotonicMs() }].slice(-MAX_FAILURES);
      failures.delete(name);
      failures.set(name, times);
      if (failures.size <= maxPayers) return;
      for (const oldest of failures.keys()) {
        failures.delete(oldest);
        break;
      }
    },
    refuses: (payer) => recent(nameOf(payer)).length >= MAX_FAILURES,
  };
}
