import type { FailureReason } from "../families/family.ts";
import type { Blame } from "../types.ts";

/**
 * Why something is held against a supplier. `hedge_lost`: another was asked because this one took long, and was quicker;
 * `minority`: the other suppliers agree on another answer; `oversized`: its answer was too large, and another one's was not.
 */
export type QualityReason = FailureReason | "hedge_lost" | "minority" | "oversized";

/**
 * How much a failure weighs: one stands for one failed call. A wrong answer weighs more than none, and none in time more
 * than an error that was said at once. 0: not the supplier's fault.
 */
export const SEVERITY: Readonly<Record<QualityReason, number>> = {
  wrong_id: 4,
  both_or_neither: 4,
  not_json: 4,
  other_request: 4,
  wrong_chain: 4,
  minority: 4,
  bad_signature: 4,
  no_jsonrpc: 2,
  bad_error: 2,
  schema: 2,
  empty: 2,
  timeout: 1.5,
  connection: 1.5,
  refused: 1,
  http_status: 1,
  error: 1,
  behind: 1,
  hedge_lost: 0.25,
  // Little: a supplier that leaves out half of a long list would otherwise push out those that answer all of it.
  oversized: 0.25,
  rate_limited: 0.25,
  unsupported: 0,
  too_much: 0,
  too_large: 0,
  state_unavailable: 0,
  overloaded: 0,
  aborted: 0,
  over_limit: 0,
};

/** True when a failed attempt counts against its supplier: a client's fault, or the chain's, does not. */
export function isHeldAgainst(blame: Blame, reason: QualityReason): boolean {
  return (blame === "supplier" || blame === "wire") && SEVERITY[reason] > 0;
}

/** Weights of bad and of all observations. */
export interface Evidence {
  readonly bad: number;
  readonly all: number;
}

/** What a score is made of. `fast` counts calls, `chronic` seconds. */
export interface ScoreEvidence {
  readonly fast: Evidence;
  readonly chronic: Evidence;
}

/** How a score is made. */
export interface ScoreOptions {
  readonly fastHalfLifeMs: number;
  readonly chronicHalfLifeMs: number;
  /** What is believed of a supplier before anything is known of it. */
  readonly prior: ScoreEvidence;
}

/**
 * A supplier that nothing is known of has 81. Two failures of the last calls show at once; a chronic rate takes minutes
 * to get, and minutes to lose.
 */
export const DEFAULT_SCORE: ScoreOptions = {
  fastHalfLifeMs: 15_000,
  chronicHalfLifeMs: 600_000,
  prior: { fast: { bad: 0, all: 5 }, chronic: { bad: 3, all: 30 } },
};

/** Two weights that halve together. */
export class Decaying {
  readonly #halfLifeMs: number;
  #bad = 0;
  #all = 0;
  #atMs = 0;

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs;
  }

  /** Adds what was seen at a time, which may be before the last addition. */
  add(atMs: number, bad: number, all: number): void {
    if (atMs > this.#atMs) {
      const factor = this.#factor(atMs - this.#atMs);
      this.#bad = this.#bad * factor + bad;
      this.#all = this.#all * factor + all;
      this.#atMs = atMs;
      return;
    }
    const factor = this.#factor(this.#atMs - atMs);
    this.#bad += bad * factor;
    this.#all += all * factor;
  }

  /** What is left of it. */
  at(nowMs: number): Evidence {
    const factor = this.#factor(Math.max(0, nowMs - this.#atMs));
    return { bad: this.#bad * factor, all: this.#all * factor };
  }

  #factor(ageMs: number): number {
    return 2 ** (-ageMs / this.#halfLifeMs);
  }
}

const SLOT_MS = 1_000;
const NOTHING: Evidence = { bad: 0, all: 0 };
const NO_EVIDENCE: ScoreEvidence = { fast: NOTHING, chronic: NOTHING };

/**
 * What others say counts for an eighth of what was seen here at most; where little was seen, for as much as the prior.
 */
function rate(own: Evidence, others: Evidence, prior: Evidence): number {
  const limit = Math.max(prior.all, own.all / 8);
  const trust = others.all > limit ? limit / others.all : 1;
  return (own.bad + others.bad * trust + prior.bad) / (own.all + others.all * trust + prior.all);
}

/** Makes a score of 0 to 100 of what was seen here and what others say. `slowness`: see {@link slownessOf}. */
export function scoreOf(options: ScoreOptions, own: ScoreEvidence, others = NO_EVIDENCE, slowness = 0): number {
  const { prior } = options;
  const fast = 1 - rate(own.fast, others.fast, prior.fast);
  const chronic = 1 - rate(own.chronic, others.chronic, prior.chronic);
  return Math.min(100, Math.max(0, 100 * fast ** 2 * chronic ** 2 * (1 - slowness)));
}

/** What a score loses to latency: nothing up to twice the pool's median, a fifth from sixteen times on. */
export function slownessOf(latencyMs: number, medianMs: number): number {
  if (latencyMs <= 0 || medianMs <= 0) return 0;
  return 0.2 * Math.min(1, Math.max(0, Math.log2(latencyMs / (2 * medianMs)) / 3));
}

/**
 * The failure rates of one supplier. The fast rate is by calls. The chronic rate is by time: one second weighs the same
 * whether it had one call or a thousand, and a second out of service is a bad one, so that few calls lost at each of many
 * outages add up.
 */
export class Score {
  readonly #options: ScoreOptions;
  #fast: Decaying;
  #chronic: Decaying;
  #slot = 0;
  #slotBad = 0;
  #slotAll = 0;

  constructor(options: ScoreOptions) {
    this.#options = options;
    this.#fast = new Decaying(options.fastHalfLifeMs);
    this.#chronic = new Decaying(options.chronicHalfLifeMs);
  }

  good(nowMs: number): void {
    this.#roll(nowMs);
    this.#slotAll += 1;
  }

  failed(nowMs: number, reason: QualityReason): void {
    const severity = SEVERITY[reason];
    this.#roll(nowMs);
    this.#slotBad += severity;
    this.#slotAll += severity;
  }

  /** It was out of service in this time. */
  down(fromMs: number, toMs: number): void {
    if (toMs <= fromMs) return;
    const halfLifeMs = this.#options.chronicHalfLifeMs;
    const seconds = (halfLifeMs / Math.LN2 / 1_000) * (1 - 2 ** ((fromMs - toMs) / halfLifeMs));
    this.#chronic.add(toMs, seconds, seconds);
  }

  /** What was seen here. */
  evidence(nowMs: number): ScoreEvidence {
    this.#roll(nowMs);
    const fast = this.#fast.at(nowMs);
    const chronic = this.#chronic.at(nowMs);
    const weight = this.#slotWeight();
    return {
      fast: { bad: fast.bad + this.#slotBad, all: fast.all + this.#slotAll },
      chronic: { bad: chronic.bad + this.#slotBad * weight, all: chronic.all + this.#slotAll * weight },
    };
  }

  /** 0 (worst) to 100. */
  value(nowMs: number, others?: ScoreEvidence, slowness?: number): number {
    return scoreOf(this.#options, this.evidence(nowMs), others, slowness);
  }

  /** As new. */
  clear(): void {
    this.#fast = new Decaying(this.#options.fastHalfLifeMs);
    this.#chronic = new Decaying(this.#options.chronicHalfLifeMs);
    this.#slotBad = 0;
    this.#slotAll = 0;
  }

  #slotWeight(): number {
    return this.#slotAll > 1 ? 1 / this.#slotAll : 1;
  }

  #roll(nowMs: number): void {
    const slot = Math.floor(nowMs / SLOT_MS);
    if (slot <= this.#slot) return;
    if (this.#slotAll > 0) {
      const atMs = this.#slot * SLOT_MS;
      const weight = this.#slotWeight();
      this.#fast.add(atMs, this.#slotBad, this.#slotAll);
      this.#chronic.add(atMs, this.#slotBad * weight, this.#slotAll * weight);
    }
    this.#slot = slot;
    this.#slotBad = 0;
    this.#slotAll = 0;
  }
}
