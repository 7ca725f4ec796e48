import type { Clock, ErrorCode } from "@turnpike/base";
import { BoundedMap } from "./bounded-map.ts";
import type { Outcome } from "./types.ts";

/** How many presented payments may end without paying. */
export interface UnpaidRule {
  /** Tokens of a key that is new. */
  readonly burst: number;
  /** Tokens that come back in a second, up to `burst`. */
  readonly perSecond: number;
}

/** One presented payment, from its token to its end. Only the first end counts. */
export interface UnpaidAttempt {
  readonly ok: true;
  /** It paid: its token comes back with one more. */
  paid(): void;
  /** That it did not pay is our doing: its token comes back. */
  excused(): void;
  /**
   * It did not pay: its token is spent, and one more for each second that it took. With the id of a pending settlement,
   * {@link UnpaidLimit.settled} gives them back.
   */
  unpaid(pendingId?: string): void;
}

/** A bucket of tokens for each key: a client's address, or a payer's account. */
export interface UnpaidLimit {
  /** Takes a token, or says how long there is none. */
  begin(key: string): UnpaidAttempt | { readonly ok: false; readonly waitSeconds: number };
  /** Time until there is a token; 0 when there is one. Takes none. */
  waitSeconds(key: string): number;
  /** A payment is settled. True when it was pending here: what it cost is given back. */
  settled(pendingId: string): boolean;
}

/** Tokens of a limit that other machines have too. */
export interface SharedTokens {
  /** What an attempt spent (below 0) or earned at its end. */
  changed(key: string, tokens: number): void;
  /** What attempts at other machines spent or earned. */
  subscribe(apply: (key: string, tokens: number) => void): void;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Tokens that paid calls can earn: a buyer of many calls may have as many fail at once, or be under way. */
const MOST_EARNED = 10_000;
/** Longest wait for a token, however much was spent. */
const LONGEST_WAIT_SECONDS = 60;
const MAX_KEYS = 100_000;
const MAX_PENDING = 10_000;
const PENDING_MS = 3_600_000;

/**
 * Bounds what does not pay, and never what does. A key that is forgotten, since 50,000 others came after it, begins
 * anew. `rule` is read each time, so that it may change.
 */
export function createUnpaidLimit(
  rule: () => UnpaidRule,
  modules: { readonly clock: Clock; readonly shared?: SharedTokens },
): UnpaidLimit {
  const { clock, shared } = modules;
  // Two maps that take turns: what was not used since the last turn is dropped with the older one, at no cost for each.
  let [recent, older] = [new Map<string, Bucket>(), new Map<string, Bucket>()];
  const pending = new BoundedMap<string, { readonly key: string; readonly bucket: Bucket; readonly cost: number }>({
    maxEntries: MAX_PENDING,
    ttlMs: PENDING_MS,
  });

  const add = (bucket: Bucket, tokens: number): void => {
    bucket.tokens = Math.min(Math.max(MOST_EARNED, rule().burst), bucket.tokens + tokens);
  };

  const refilled = (key: string): Bucket => {
    const { burst, perSecond } = rule();
    const nowMs = clock.monotonicMs();
    const bucket = recent.get(key) ?? older.get(key) ?? { tokens: burst, atMs: nowMs };
    const fresh = (Math.max(0, nowMs - bucket.atMs) / 1_000) * perSecond;
    if (bucket.tokens < burst) bucket.tokens = Math.min(burst, bucket.tokens + fresh);
    bucket.atMs = nowMs;
    return bucket;
  };

  const remember = (key: string, bucket: Bucket): void => {
    if (recent.size >= MAX_KEYS / 2 && !recent.has(key)) [recent, older] = [new Map(), recent];
    recent.set(key, bucket);
  };

  const waitOf = ({ tokens }: Bucket): number =>
    tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - tokens) / rule().perSecond));

  /** Takes tokens, as long as the wait for the next one stays bounded. Returns how many were taken. */
  const subtract = (bucket: Bucket, tokens: number): number => {
    const least = 1 - LONGEST_WAIT_SECONDS * rule().perSecond;
    const before = bucket.tokens;
    bucket.tokens = Math.max(Math.min(before, least), before - tokens);
    return before - bucket.tokens;
  };

  const spend = (key: string, bucket: Bucket, sinceMs: number, pendingId: string | undefined): void => {
    const nowMs = clock.monotonicMs();
    const spent = 1 + subtract(bucket, (nowMs - sinceMs) / 1_000);
    shared?.changed(key, -spent);
    if (pendingId === undefined) return;
    const known = pending.get(pendingId, nowMs);
    const cost = spent + (known?.bucket === bucket ? known.cost : 0);
    pending.set(pendingId, { key, bucket, cost }, nowMs);
  };

  shared?.subscribe((key, tokens) => {
    const bucket = refilled(key);
    remember(key, bucket);
    if (tokens > 0) add(bucket, tokens);
    else subtract(bucket, -tokens);
  });

  const earn = (key: string, bucket: Bucket): void => {
    add(bucket, 2);
    shared?.changed(key, 1);
  };

  return {
    begin(key) {
      const bucket = refilled(key);
      remember(key, bucket);
      const waitSeconds = waitOf(bucket);
      if (waitSeconds > 0) return { ok: false, waitSeconds };
      bucket.tokens--;
      const sinceMs = bucket.atMs;
      let isEnded = false;
      const once = (end: () => void): void => {
        if (!isEnded) end();
        isEnded = true;
      };
      return {
        ok: true,
        paid: () => once(() => earn(key, bucket)),
        excused: () => once(() => add(bucket, 1)),
        unpaid: (pendingId) => once(() => spend(key, bucket, sinceMs, pendingId)),
      };
    },
    waitSeconds: (key) => waitOf(refilled(key)),
    settled(pendingId) {
      const known = pending.get(pendingId, clock.monotonicMs());
      if (known === undefined) return false;
      pending.delete(pendingId);
      add(known.bucket, known.cost);
      shared?.changed(known.key, known.cost);
      return true;
    },
  };
}

/** What is wrong with our own parts, whatever was asked. */
const OURS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "LEDGER_UNAVAILABLE",
  "NOT_READY",
  "OVERLOADED",
  "SETTLEMENT_UNAVAILABLE",
  "SETTLEMENT_UNPROFITABLE",
  "SHUTTING_DOWN",
]);

/** Ends an attempt by a refusal. */
export function endRefused(attempt: UnpaidAttempt, code: ErrorCode): void {
  if (OURS.has(code)) attempt.excused();
  else attempt.unpaid();
}

/**
 * Ends an attempt by an outcome. `isOwn`: it is of the call that this attempt ran; else it is that of an earlier one, and
 * to fetch a stored answer once more pays nothing.
 */
export function endOutcome(limit: UnpaidLimit, attempt: UnpaidAttempt, outcome: Outcome, isOwn: boolean): void {
  switch (outcome.kind) {
    case "settled": {
      const wasPending = limit.settled(outcome.settlementId);
      if (isOwn || wasPending) attempt.paid();
      else attempt.unpaid();
      break;
    }
    case "pending":
      attempt.unpaid(outcome.settlementId);
      break;
    case "released":
      endRefused(attempt, outcome.code);
      break;
    case "expired":
    case "failed":
      attempt.unpaid();
      break;
  }
}
