import type { BreakerState } from "../types.ts";
import { Breaker, type BreakerOptions, DEFAULT_BREAKER } from "./breaker.ts";
import { Peers, type QualitySnapshot } from "./peers.ts";
import { DEFAULT_SCORE, type QualityReason, Score, type ScoreOptions, SEVERITY, slownessOf } from "./score.ts";

interface QualityOptions {
  readonly score: ScoreOptions;
  readonly breaker: BreakerOptions;
  /** Time for which it gets no calls when it wants fewer and names no time; each next time in a row is twice as long. */
  readonly firstPauseMs: number;
  /** It is never paused for longer, whatever it asks for. */
  readonly maxPauseMs: number;
  /** Time for which it is remembered that an operation is not served. */
  readonly lackMs: number;
  readonly maxLacks: number;
}

/** Bounds that suit one process. */
export const DEFAULT_QUALITY: QualityOptions = {
  score: DEFAULT_SCORE,
  breaker: DEFAULT_BREAKER,
  firstPauseMs: 1_000,
  maxPauseMs: 60_000,
  lackMs: 300_000,
  maxLacks: 256,
};

interface QualityModules {
  /** Called when its breaker has changed, for logs and metrics. */
  onBreaker?(state: BreakerState, openForMs: number): void;
}

/** How a supplier stands now. */
export interface QualityView {
  /** 0 (worst) to 100. */
  readonly score: number;
  readonly breaker: BreakerState;
  /** Smoothed; 0: not known. */
  readonly latencyMs: number;
  /** Time until calls may go to it again; 0: now. */
  readonly openForMs: number;
}

/** How soon a supplier should be probed: `soon` when it fails or nothing is known, `rare` when calls show its health, or there are no calls. */
export type ProbeNeed = "soon" | "normal" | "rare";

/** A good call of this time outweighs another gateway's hint. */
const RECENT_GOOD_MS = 5_000;
/** Calls of this time show health. */
const BUSY_MS = 10_000;
/** Without calls for this time a supplier is idle. */
const IDLE_MS = 120_000;
/** A probe's latency counts when no call's was seen for this time: probes are light calls. */
const PROBE_LATENCY_AFTER_MS = 30_000;

/**
 * All that is held for or against one (service, operator, rpc type): score, breaker, pauses that it asked for, what it
 * does not serve, latency. Times are monotonic milliseconds of one clock.
 */
export class SupplierQuality {
  readonly #options: QualityOptions;
  readonly #modules: QualityModules;
  readonly #score: Score;
  readonly #breaker: Breaker;
  readonly #peers: Peers;
  readonly #lacks = new Map<string, number>();
  #shown: BreakerState = "closed";
  #downMs = 0;
  #latencyMs = 0;
  #medianMs = 0;
  #pausedUntilMs = 0;
  #pauses = 0;
  #knownMs = Number.NEGATIVE_INFINITY;
  #goodCallMs = Number.NEGATIVE_INFINITY;
  #callMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;

  constructor(options: QualityOptions, modules: QualityModules = {}) {
    this.#options = options;
    this.#modules = modules;
    this.#score = new Score(options.score);
    this.#breaker = new Breaker(options.breaker);
    this.#peers = new Peers(options.score);
  }

  /** A call was answered well, after `latencyMs`. */
  good(nowMs: number, latencyMs: number): void {
    this.#callMs = nowMs;
    this.#goodCallMs = nowMs;
    this.#pauses = 0;
    this.#smooth(latencyMs);
    this.#good(nowMs, latencyMs, false);
  }

  /**
   * A call failed, after `latencyMs`. What is not the supplier's fault is ignored (see `isHeldAgainst`). Leave out
   * `latencyMs` only where the failure is not about a call that was sent.
   */
  failed(nowMs: number, reason: QualityReason, latencyMs = 0): void {
    if (SEVERITY[reason] === 0) return;
    this.#callMs = nowMs;
    if (reason === "hedge_lost" && this.#latencyMs > 0) {
      this.#latencyMs = Math.max(this.#latencyMs, this.#latencyMs * 0.8 + latencyMs * 0.2);
    }
    this.#failed(nowMs, reason, latencyMs);
  }

  /** A probe was answered well. */
  probeGood(nowMs: number, latencyMs: number): void {
    if (nowMs - this.#goodCallMs > PROBE_LATENCY_AFTER_MS) this.#smooth(latencyMs);
    this.#good(nowMs, latencyMs, true);
  }

  /** A probe failed. */
  probeFailed(nowMs: number, reason: QualityReason, latencyMs = 0): void {
    if (SEVERITY[reason] > 0) this.#failed(nowMs, reason, latencyMs);
  }

  /** It asked for a pause (`Retry-After`). */
  pause(nowMs: number, pauseMs: number): void {
    if (!(pauseMs > 0)) return;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + Math.min(pauseMs, this.#options.maxPauseMs));
    this.#look(nowMs);
  }

  /** Score, breaker, pauses and lacking methods start anew. Its latency stays. */
  reset(nowMs: number): void {
    this.#look(nowMs);
    this.#score.clear();
    this.#breaker.reset(nowMs);
    this.#peers.clear();
    this.#lacks.clear();
    this.#pausedUntilMs = 0;
    this.#pauses = 0;
    this.#isFailing = false;
    this.#look(nowMs);
  }

  /** It does not serve an operation that we list. */
  lacks(operation: string, nowMs: number): void {
    this.#lacks.delete(operation);
    this.#lacks.set(operation, nowMs + this.#options.lackMs);
    if (this.#lacks.size <= this.#options.maxLacks) return;
    for (const oldest of this.#lacks.keys()) {
      this.#lacks.delete(oldest);
      return;
    }
  }

  isLacking(operation: string, nowMs: number): boolean {
    if (this.#lacks.size === 0) return false;
    const untilMs = this.#lacks.get(operation);
    if (untilMs === undefined) return false;
    if (untilMs > nowMs) return true;
    this.#lacks.delete(operation);
    return false;
  }

  /** `open` while its breaker is, and while it is paused. */
  state(nowMs: number): BreakerState {
    if (nowMs < this.#pausedUntilMs) return "open";
    return this.#breaker.state(nowMs);
  }

  /** The last thing that was seen of it, by a call or a probe, was a failure. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** 0 (worst) to 100. */
  score(nowMs: number): number {
    this.#look(nowMs);
    return this.#score.value(nowMs, this.#peers.evidence(nowMs), slownessOf(this.#latencyMs, this.#medianMs));
  }

  /** Smoothed; that which other gateways see while none was seen here; 0: not known. */
  get latencyMs(): number {
    return this.#latencyMs > 0 ? this.#latencyMs : this.#peers.latencyMs;
  }

  /** The pool's median latency, which slowness is measured by. */
  compare(medianMs: number): void {
    this.#medianMs = medianMs;
  }

  view(nowMs: number): QualityView {
    this.#look(nowMs);
    const openForMs = Math.max(0, this.#pausedUntilMs - nowMs, this.#breaker.openForMs(nowMs));
    return { score: this.score(nowMs), breaker: this.state(nowMs), latencyMs: this.latencyMs, openForMs };
  }

  probeNeed(nowMs: number): ProbeNeed {
    if (nowMs < this.#pausedUntilMs) return "rare";
    if (this.#isFailing || this.#knownMs === Number.NEGATIVE_INFINITY) return "soon";
    if (this.#breaker.state(nowMs) !== "closed") return "soon";
    const isRare = nowMs - this.#goodCallMs < BUSY_MS || nowMs - this.#callMs > IDLE_MS;
    return isRare ? "rare" : "normal";
  }

  /** What was seen here, for other gateways; nothing that they reported. */
  snapshot(nowMs: number): QualitySnapshot {
    this.#look(nowMs);
    const { fast, chronic } = this.#score.evidence(nowMs);
    return { fast, chronic, breaker: this.#breaker.state(nowMs), latencyMs: this.#latencyMs };
  }

  /**
   * Takes another gateway's snapshot, in place of its last. It counts for an eighth of what was seen here at most, or
   * for as much as the prior. When its breaker is open, and no call was good here a short time ago, ours goes to probation.
   */
  absorb(snapshot: QualitySnapshot, fromId: string, nowMs: number): void {
    this.#look(nowMs);
    const isHint = this.#peers.update(snapshot, fromId, nowMs);
    if (isHint && nowMs - this.#goodCallMs > RECENT_GOOD_MS) this.#breaker.suspect(nowMs);
    this.#look(nowMs);
  }

  #good(nowMs: number, latencyMs: number, isProbe: boolean): void {
    this.#knownMs = nowMs;
    this.#isFailing = false;
    this.#look(nowMs);
    this.#score.good(nowMs);
    this.#breaker.good(nowMs, nowMs - latencyMs, isProbe);
    this.#look(nowMs);
  }

  #failed(nowMs: number, reason: QualityReason, latencyMs: number): void {
    this.#knownMs = nowMs;
    this.#look(nowMs);
    this.#score.failed(nowMs, reason);
    if (reason === "rate_limited") this.#limited(nowMs, latencyMs);
    else {
      if (SEVERITY[reason] >= 1) this.#isFailing = true;
      const isUnreached = reason === "timeout" || reason === "connection";
      this.#breaker.failed(nowMs, nowMs - latencyMs, Math.min(1, SEVERITY[reason]), isUnreached);
    }
    this.#look(nowMs);
  }

  /** It lives and wants fewer calls. Many refusals at once are one. */
  #limited(nowMs: number, latencyMs: number): void {
    if (nowMs - latencyMs < this.#pausedUntilMs) return;
    const { firstPauseMs, maxPauseMs } = this.#options;
    this.pause(nowMs, Math.min(maxPauseMs, firstPauseMs * 2 ** this.#pauses));
    this.#pauses = Math.min(this.#pauses + 1, 16);
  }

  #smooth(latencyMs: number): void {
    this.#latencyMs = this.#latencyMs === 0 ? latencyMs : this.#latencyMs * 0.8 + latencyMs * 0.2;
  }

  /** Adds the time that the breaker was open since the last call to the score, and reports a changed state. */
  #look(nowMs: number): void {
    const state = this.#breaker.state(nowMs);
    const { changedMs } = this.#breaker;
    if (this.#shown === "open") {
      const toMs = state === "open" ? nowMs : changedMs;
      this.#score.down(this.#downMs, toMs);
      this.#downMs = toMs;
    }
    if (state === this.#shown) return;
    if (state === "open") this.#downMs = changedMs;
    this.#shown = state;
    this.#modules.onBreaker?.(state, this.#breaker.openForMs(nowMs));
  }
}
