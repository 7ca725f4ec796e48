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
  /** True until the ledger admits what its payer, or its payer's code, may lose: others go first. */
  isHeld?: boolean;
  /** True when nodes refused a transaction that carried it. */
  readonly suspect?: boolean;
  /** True when its caller waits no more: its claim may have been released, and the payment claimed again. */
  isLeft?: boolean;
  /** The answer and the signed transaction are on disk. */
  commit(): void;
  /** Not committed: nothing was sent. */
  reject(error: AppError): void;
}

/** Most bytes of answers that are journaled together; a larger answer is journaled by itself. */
export const MAX_BATCH_BYTES = 8 * 1_024 * 1_024;

/** Payments of one network in the order of their arrival. */
export class SettleQueue {
  #items: QueueItem[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** When the oldest arrived that may be taken; undefined when there is none. `unshared` as in {@link SettleQueue.take}. */
  oldestMs(unshared?: boolean): number | undefined {
    return this.#first(unshared)?.queuedAtMs;
  }

  push(item: QueueItem): void {
    this.#items.push(item);
  }

  /** Puts items back in front. */
  unshift(back: readonly QueueItem[]): void {
    this.#items = [...back, ...this.#items];
  }

  /** True when it was still waiting. */
  remove(item: QueueItem): boolean {
    const at = this.#items.indexOf(item);
    if (at < 0) return false;
    this.#items.splice(at, 1);
    return true;
  }

  /**
   * Removes the next transaction's payments, with answers of {@link MAX_BATCH_BYTES} at most: up to `max` that may share
   * it, or one that must be alone, since its payer's code may burn the gas of everything that shares its transaction.
   * With `unshared` false, those that must be alone wait, and those behind them go first.
   */
  take(max: number, unshared?: boolean): readonly QueueItem[] {
    const taken = new Set(this.peek(max, unshared));
    this.#items = this.#items.filter((item) => !taken.has(item));
    return [...taken];
  }

  /** The payments that {@link SettleQueue.take} would remove; they stay. */
  peek(max: number, unshared?: boolean): readonly QueueItem[] {
    const first = this.#first(unshared);
    if (first === undefined) return [];
    return first.alone ? [first] : [...this.#nextShared(max).taken];
  }

  /** Payments that wait to be admitted, in their order. */
  held(): readonly QueueItem[] {
    return this.#items.filter(({ isHeld }) => isHeld === true);
  }

  /** Removes what arrived before this time (monotonic milliseconds). */
  takeBefore(timeMs: number): readonly QueueItem[] {
    const old = this.#items.filter(({ queuedAtMs }) => queuedAtMs < timeMs);
    if (old.length > 0) this.#items = this.#items.filter(({ queuedAtMs }) => queuedAtMs >= timeMs);
    return old;
  }

  /** How many one transaction would take now; `max` when no more fit into it. */
  takeable(max: number, unshared?: boolean): number {
    if (this.#first(unshared)?.alone === true) return max;
    const { taken, full } = this.#nextShared(max);
    return full ? max : taken.size;
  }

  #first(unshared = true): QueueItem | undefined {
    return this.#items.find(({ alone, isHeld }) => isHeld !== true && (unshared || !alone));
  }

  /** Those of the next transaction, when its first payment may share it. */
  #nextShared(max: number): { readonly taken: ReadonlySet<QueueItem>; readonly full: boolean } {
    const taken = new Set<QueueItem>();
    let bytes = 0;
    for (const item of this.#items) {
      if (item.alone || item.isHeld === true) continue;
      bytes += item.answer.body.length;
      if (taken.size >= max || (taken.size > 0 && bytes > MAX_BATCH_BYTES)) return { taken, full: true };
      taken.add(item);
    }
    return { taken, full: taken.size >= max };
  }
}
