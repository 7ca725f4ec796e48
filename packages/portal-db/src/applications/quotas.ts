import { type Interval, type Period, periodOf } from "./periods.ts";

/** Calls of an application or an account in the current period. */
export interface Counter {
  readonly interval: Interval;
  used: number;
  period: Period;
}

/** At most so many calls in a counter's period. */
export interface Quota {
  readonly counter: Counter;
  readonly limit: number;
}

/** A quota as it stands. */
export interface Standing {
  readonly limit: number;
  readonly used: number;
  readonly windowSeconds: number;
  readonly resetSeconds: number;
}

/** A counter that has counted `used` calls. */
export function createCounter(interval: Interval, used: number, nowMs: number): Counter {
  return { interval, used, period: periodOf(interval, nowMs) };
}

/** Begins the next period when the old one is over. */
function roll(counter: Counter, nowMs: number): void {
  if (nowMs < counter.period.endMs) return;
  counter.used = 0;
  counter.period = periodOf(counter.interval, nowMs);
}

function standingOf({ counter, limit }: Quota, nowMs: number): Standing {
  const { used, period } = counter;
  return {
    limit,
    used,
    windowSeconds: (period.endMs - period.startMs) / 1_000,
    resetSeconds: Math.max(1, Math.ceil((period.endMs - nowMs) / 1_000)),
  };
}

/** The verdict of {@link consumeQuotas}: `standing` is of the quota that refuses, else of the one with the least left. */
export type QuotaVerdict =
  | { readonly ok: true; readonly standing: Standing | undefined }
  | { readonly ok: false; readonly standing: Standing };

/** Counts calls against all quotas or against none. No two of them have the same counter. */
export function consumeQuotas(quotas: readonly Quota[], items: number, nowMs: number): QuotaVerdict {
  for (const quota of quotas) {
    roll(quota.counter, nowMs);
    if (quota.counter.used + items > quota.limit) return { ok: false, standing: standingOf(quota, nowMs) };
  }
  let least: Quota | undefined;
  for (const quota of quotas) {
    quota.counter.used += items;
    const left = quota.limit - quota.counter.used;
    if (least === undefined || left < least.limit - least.counter.used) least = quota;
  }
  return { ok: true, standing: least && standingOf(least, nowMs) };
}

/** Releases calls that were consumed and refused after that. */
export function releaseQuotas(quotas: readonly Quota[], items: number): void {
  for (const { counter } of quotas) counter.used = Math.max(0, counter.used - items);
}
