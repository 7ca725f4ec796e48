import type { AppError } from "@turnpike/base";
import type { PaymentRecord, StoredAnswer } from "../types.ts";

/** A payment that waits for its transaction. */
export interface QueueItem {
  readonly payment: PaymentRecord;
  readonly answer: StoredAnswer;
  /** Monotonic milliseconds. */
  readonly queuedAtMs: number;
  /** The answer and the signed transaction are on disk. */
  commit(): void;
  /** Not committed: nothing was sent. */
  reject(error: AppError): void;
}

/** Payments of one network in the order of their arrival. */
export interface SettleQueue {
  readonly size: number;
  /** When the oldest arrived; undefined when empty. */
  readonly oldestMs: number | undefined;
  push(item: QueueItem): void;
  /** Puts items back in front. */
  unshift(items: readonly QueueItem[]): void;
  /** True when it was still waiting. */
  remove(item: QueueItem): boolean;
  /**
   * The next transaction's payments: up to `max` of externally owned accounts, or one contract wallet by itself, since
   * a wallet's code may burn the gas of everything that shares its transaction.
   */
  take(max: number): readonly QueueItem[];
  /** Takes out what arrived before this time (monotonic milliseconds). */
  takeBefore(timeMs: number): readonly QueueItem[];
  /** How many one transaction would take now. */
  takeable(max: number): number;
}

/** Creates an empty queue. */
export function createSettleQueue(): SettleQueue {
  let items: QueueItem[] = [];
  return {
    get size() {
      return items.length;
    },
    get oldestMs() {
      return items[0]?.queuedAtMs;
    },
    push(item) {
      items.push(item);
    },
    unshift(back) {
      items = [...back, ...items];
    },
    remove(item) {
      const at = items.indexOf(item);
      if (at < 0) return false;
      items.splice(at, 1);
      return true;
    },
    take(max) {
      const first = items[0];
      if (first === undefined) return [];
      if (first.payment.kind !== "eoa") {
        items = items.slice(1);
        return [first];
      }
      const taken = new Set(items.filter(({ payment }) => payment.kind === "eoa").slice(0, max));
      items = items.filter((item) => !taken.has(item));
      return [...taken];
    },
    takeBefore(timeMs) {
      const old = items.filter(({ queuedAtMs }) => queuedAtMs < timeMs);
      if (old.length > 0) items = items.filter(({ queuedAtMs }) => queuedAtMs >= timeMs);
      return old;
    },
    takeable(max) {
      if (items[0] !== undefined && items[0].payment.kind !== "eoa") return max;
      let count = 0;
      for (const { payment } of items) if (payment.kind === "eoa" && ++count >= max) break;
      return count;
    },
  };
}
