import type { AppError } from "@turnpike/base";
import type { PaymentRecord, StoredAnswer } from "../types.ts";

/** A payment that waits for its transaction. */
export interface QueueItem {
  readonly payment: PaymentRecord;
  readonly answer: StoredAnswer;
  /** Monotonic milliseconds. */
  readonly queuedAtMs: number;
  /**
   * True when it must not share a transaction: it is a contract wallet's, its account was seen with code, or it failed in
   * a shared transaction before.
   */
  alone: boolean;
  /** True when nodes refused a transaction that carried it. */
  readonly suspect?: boolean;
  /** True when its caller waits no more: its claim may have been released, and the payment claimed again. */
  isLeft?: boolean;
  /** The answer and the signed transaction are on disk. */
  commit(): void;
  /** Not committed: nothing was sent. */
  reject(error: AppError): void;
}

/** Payments of one network in the order of their arrival. */
export interface SettleQueue {
  readonly size: number;
  /** When the oldest arrived that may be taken; undefined when there is none. */
  oldestMs(loners?: boolean): number | undefined;
  push(item: QueueItem): void;
  /** Puts items back in front. */
  unshift(items: readonly QueueItem[]): void;
  /** True when it was still waiting. */
  remove(item: QueueItem): boolean;
  /**
   * The next transaction's payments, with answers of {@link MAX_BATCH_BYTES} at most: up to `max` that may share it, or
   * one that must be alone, since its payer's code may burn the gas of everything that shares its transaction. With
   * `loners` false, those that must be alone wait, and those behind them go first.
   */
  take(max: number, loners?: boolean): readonly QueueItem[];
  /** The payments that {@link take} would remove; they stay. */
  peek(max: number, loners?: boolean): readonly QueueItem[];
  /** Takes out what arrived before this time (monotonic milliseconds). */
  takeBefore(timeMs: number): readonly QueueItem[];
  /** How many one transaction would take now; `max` when no more fit into it. */
  takeable(max: number, loners?: boolean): number;
}

/** Most bytes of answers that are journaled together; a larger answer is journaled by itself. */
export const MAX_BATCH_BYTES = 8 * 1_024 * 1_024;

/** Creates an empty queue. */
export function createSettleQueue(): SettleQueue {
  let items: QueueItem[] = [];

  const firstOf = (loners = true): QueueItem | undefined => (loners ? items[0] : items.find(({ alone }) => !alone));

  /** Those of the next transaction, when its first payment may share it. */
  const next = (max: number): { readonly taken: ReadonlySet<QueueItem>; readonly full: boolean } => {
    const taken = new Set<QueueItem>();
    let bytes = 0;
    for (const item of items) {
      if (item.alone) continue;
      bytes += item.answer.body.length;
      if (taken.size >= max || (taken.size > 0 && bytes > MAX_BATCH_BYTES)) return { taken, full: true };
      taken.add(item);
    }
    return { taken, full: taken.size >= max };
  };

  const peek = (max: number, loners?: boolean): readonly QueueItem[] => {
    const first = firstOf(loners);
    if (first === undefined) return [];
    return first.alone ? [first] : [...next(max).taken];
  };

  return {
    get size() {
      return items.length;
    },
    oldestMs: (loners) => firstOf(loners)?.queuedAtMs,
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
    take(max, loners) {
      const taken = new Set(peek(max, loners));
      items = items.filter((item) => !taken.has(item));
      return [...taken];
    },
    peek,
    takeBefore(timeMs) {
      const old = items.filter(({ queuedAtMs }) => queuedAtMs < timeMs);
      if (old.length > 0) items = items.filter(({ queuedAtMs }) => queuedAtMs >= timeMs);
      return old;
    },
    takeable(max, loners) {
      const first = firstOf(loners);
      if (first?.alone === true) return max;
      const { taken, full } = next(max);
      return full ? max : taken.size;
    },
  };
}
