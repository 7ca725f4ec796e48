import { type Clock, clientKeys, type ErrorCode } from "@turnpike/base";
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

/** There is no token for so long. */
interface NoToken {
  readonly ok: false;
  readonly waitSeconds: number;
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
  /** Attempts that have a token each. */
  underWay: number;
  /** Tokens that came by time while those under way, put back, would have filled the bucket. */
  early: number;
}

/** What a pending settlement has cost, and whose bucket gets it back. */
interface PendingCost {
  readonly key: string;
  readonly bucket: Bucket;
  readonly cost: number;
}

/** Tokens that paid calls can earn: a buyer of many calls may have as many fail at once, or be under way. */
const MOST_EARNED = 10_000;
/** Longest wait for a token, however much was spent. */
const LONGEST_WAIT_SECONDS = 60;
const MAX_KEYS = 100_000;
const MAX_PENDING = 50_000;
const PENDING_MS = 3_600_000;

/**
 * Bounds what does not pay, and never what does, by a bucket of tokens for each key: a client's address, or a payer's
 * account. A key that is evicted, since 50,000 others came after it, begins anew. Clients of one /48 have a bucket together as
 * well, of four times the size; each process has its own of these.
 */
export class UnpaidLimit {
  readonly #rule: () => UnpaidRule;
  readonly #clock: Clock;
  readonly #shared: SharedTokens | undefined;
  // Two maps that alternate: what was not used since they last did is dropped with the older one, at no cost for each.
  #recent = new Map<string, Bucket>();
  #older = new Map<string, Bucket>();
  readonly #pending = new BoundedMap<string, PendingCost>({ maxEntries: MAX_PENDING, ttlMs: PENDING_MS });
  /** Limits of sites; created for the first of them. */
  #sites: UnpaidLimit | undefined;

  /** `rule` is read each time, so that it may change. */
  constructor(rule: () => UnpaidRule, modules: { readonly clock: Clock; readonly shared?: SharedTokens }) {
    this.#rule = rule;
    this.#clock = modules.clock;
    this.#shared = modules.shared;
    this.#shared?.subscribe((key, tokens) => {
      const bucket = this.#refilled(key);
      this.#remember(key, bucket);
      if (tokens > 0) this.#add(bucket, tokens);
      else this.#subtract(bucket, -tokens);
    });
  }

  /** Takes a token, or says how long there is none. An attempt that is not timed costs nothing for the time that it takes. */
  begin(key: string, isTimed = true): UnpaidAttempt | NoToken {
    const attempt = this.#begin(key, isTimed);
    const [, site] = clientKeys(key);
    if (site === undefined || !attempt.ok) return attempt;
    const ofSite = this.#sitesOf(site.shares).#begin(site.name, isTimed);
    if (!ofSite.ok) {
      attempt.excused();
      return ofSite;
    }
    const endBoth = (end: (one: UnpaidAttempt) => void): void => {
      end(attempt);
      end(ofSite);
    };
    return {
      ok: true,
      paid: () => endBoth((one) => one.paid()),
      excused: () => endBoth((one) => one.excused()),
      unpaid: (pendingId) => endBoth((one) => one.unpaid(pendingId)),
    };
  }

  #sitesOf(shares: number): UnpaidLimit {
    this.#sites ??= new UnpaidLimit(
      () => {
        const { burst, perSecond } = this.#rule();
        return { burst: burst * shares, perSecond: perSecond * shares };
      },
      { clock: this.#clock },
    );
    return this.#sites;
  }

  #begin(key: string, isTimed: boolean): UnpaidAttempt | NoToken {
    const bucket = this.#refilled(key);
    this.#remember(key, bucket);
    const waitSeconds = this.#waitOf(bucket);
    if (waitSeconds > 0) return { ok: false, waitSeconds };
    bucket.tokens--;
    bucket.underWay++;
    const sinceMs = bucket.atMs;
    let isEnded = false;
    const once = (end: () => void): void => {
      if (isEnded) return;
      isEnded = true;
      end();
      bucket.underWay--;
      bucket.early = Math.min(bucket.early, bucket.underWay);
    };
    return {
      ok: true,
      paid: () => once(() => this.#earn(key, bucket)),
      excused: () => once(() => this.#return(bucket)),
      unpaid: (pendingId) => once(() => this.#spend(key, bucket, isTimed ? sinceMs : undefined, pendingId)),
    };
  }

  /** Time until there is a token; 0 when there is one. Takes none. */
  waitSeconds(key: string): number {
    return this.#waitOf(this.#refilled(key));
  }

  /** A payment is settled. True when it was pending here: what it cost is given back. */
  settled(pendingId: string): boolean {
    this.#sites?.settled(pendingId);
    const known = this.#pending.get(pendingId, this.#clock.monotonicMs());
    if (known === undefined) return false;
    this.#pending.delete(pendingId);
    this.#add(known.bucket, known.cost);
    this.#shared?.changed(known.key, known.cost);
    return true;
  }

  #refilled(key: string): Bucket {
    const { burst, perSecond } = this.#rule();
    const nowMs = this.#clock.monotonicMs();
    const bucket = this.#recent.get(key) ??
      this.#older.get(key) ?? {
        tokens: burst,
        atMs: nowMs,
        underWay: 0,
        early: 0,
      };
    const fresh = (Math.max(0, nowMs - bucket.atMs) / 1_000) * perSecond;
    if (bucket.tokens < burst) {
      const come = Math.min(burst - bucket.tokens, fresh);
      const missing = burst - (bucket.tokens + bucket.underWay - bucket.early);
      bucket.early += Math.max(0, come - Math.max(0, missing));
      bucket.tokens += come;
    }
    bucket.atMs = nowMs;
    return bucket;
  }

  #remember(key: string, bucket: Bucket): void {
    if (this.#recent.size >= MAX_KEYS / 2 && !this.#recent.has(key)) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(key, bucket);
  }

  #waitOf({ tokens }: Bucket): number {
    return tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - tokens) / this.#rule().perSecond));
  }

  /** What time put back of a token while it was out: at its end, however it ends, no other attempt's token is that. */
  #takeEarly(bucket: Bucket): number {
    const early = Math.min(1, bucket.early);
    bucket.early -= early;
    return early;
  }

  /** Puts a token back, unless time did so while it was out: attempts that end in nothing would earn tokens. */
  #return(bucket: Bucket): void {
    this.#add(bucket, 1 - this.#takeEarly(bucket));
  }

  #add(bucket: Bucket, tokens: number): void {
    bucket.tokens = Math.min(Math.max(MOST_EARNED, this.#rule().burst), bucket.tokens + tokens);
  }

  /** Takes tokens, as long as the wait for the next one stays bounded. Returns how many were taken. */
  #subtract(bucket: Bucket, tokens: number): number {
    const least = 1 - LONGEST_WAIT_SECONDS * this.#rule().perSecond;
    const before = bucket.tokens;
    bucket.tokens = Math.max(Math.min(before, least), before - tokens);
    return before - bucket.tokens;
  }

  #earn(key: string, bucket: Bucket): void {
    this.#add(bucket, 2 - this.#takeEarly(bucket));
    this.#shared?.changed(key, 1);
  }

  #spend(key: string, bucket: Bucket, sinceMs: number | undefined, pendingId: string | undefined): void {
    const nowMs = this.#clock.monotonicMs();
    this.#takeEarly(bucket);
    const spent = 1 + this.#subtract(bucket, (nowMs - (sinceMs ?? nowMs)) / 1_000);
    this.#shared?.changed(key, -spent);
    if (pendingId === undefined) return;
    const known = this.#pending.get(pendingId, nowMs);
    const cost = spent + (known?.bucket === bucket ? known.cost : 0);
    this.#pending.set(pendingId, { key, bucket, cost }, nowMs);
  }
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
