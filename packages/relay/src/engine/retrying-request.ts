import { type Clock, type Deadline, type Deadlines, type ErrorCode, isAppError, type Metrics } from "@turnpike/base";
import type { AttemptResult, FailedAttempt, UpstreamAnswer, UpstreamOutcome } from "../answers/upstream-answer.ts";
import type { FailureReason } from "../families/family.ts";
import { relayHedgesTotal } from "../metrics.ts";
import type { SendHandle, SendPurpose } from "../transport/transport.ts";
import type { Job } from "./job.ts";
import type { Target } from "./target.ts";

export interface RetryTools {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Fires when the relay ends. */
  readonly closing: AbortSignal;
  readonly deadlines: Deadlines;
  /** Suppliers for a job, the best first. The list is the caller's own. */
  order(job: Job): Target[];
  /** Never rejects. */
  attempt(
    target: Target,
    job: Job,
    purpose: SendPurpose,
    shareMs: number,
    handle: SendHandle,
  ): Promise<AttemptResult | "wrong_chain">;
  /** An attempt was ended because another was quicker. */
  lost(target: Target, job: Job, startMs: number): void;
  /** An attempt brought too large an answer, and another supplier's was not. */
  oversized(target: Target, startMs: number): void;
  /** After how long another supplier is asked beside; undefined: not at all. */
  hedgeDelayMs(job: Job): number | undefined;
  /** False when the load allows no hedge now. */
  acquireHedge(job: Job): boolean;
}

/** How a call is asked for beside others for the same job. */
export interface RetryOptions {
  /** What the first attempt is sent for; `client` by default. */
  readonly purpose?: SendPurpose;
  /** Operators that were asked already; those asked here are added. */
  readonly asked?: Set<string>;
  /** True: no operator is asked twice. */
  readonly freshOnly?: boolean;
  /** What the client gets when no supplier has anything better. */
  readonly last?: UpstreamAnswer | undefined;
  /** Shared by all requests for the job. */
  readonly oversized?: OversizedAnswers;
}

/** How many attempts one call had, and how they failed. */
export interface Tally {
  attempts: number;
  readonly failures: FailedAttempt[];
}

/** The code of a call that got no good answer. `signal` is that which may have ended it. */
export function callFailureCode(tally: Tally, isLate: boolean, signal: AbortSignal | undefined): ErrorCode {
  const { failures } = tally;
  const has = (reason: FailedAttempt["reason"]): boolean => failures.some((failure) => failure.reason === reason);
  if (signal?.aborted === true && !isLate) return isAppError(signal.reason) ? signal.reason.code : "SHUTTING_DOWN";
  if (has("overloaded")) return "OVERLOADED";
  if (has("too_large")) return "ANSWER_TOO_LARGE";
  if (isLate) return "DEADLINE_EXCEEDED";
  if (failures.length === 0) return "NO_SUPPLIERS";
  if (failures.every((failure) => failure.reason === "timeout")) return "DEADLINE_EXCEEDED";
  return failures.every((failure) => failure.blame === "wire") ? "SUPPLIERS_UNREACHABLE" : "SUPPLIERS_FAILED";
}

interface Running {
  readonly target: Target;
  readonly handle: SendHandle;
  readonly startMs: number;
  readonly isHedge: boolean;
}

/**
 * Attempts at one call that brought more than we take. Clients choose how large answers are and the limit is ours, so that
 * only another supplier's answer to the same call shows that it was their suppliers' doing.
 */
export class OversizedAnswers {
  readonly #tools: Pick<RetryTools, "oversized">;
  #attempts: Pick<Running, "target" | "startMs">[] = [];
  #isNeedless = false;

  constructor(tools: Pick<RetryTools, "oversized">) {
    this.#tools = tools;
  }

  add(attempt: Pick<Running, "target" | "startMs">): void {
    this.#attempts.push(attempt);
    if (this.#isNeedless) this.#flush();
  }

  /** A supplier answered within the limit. */
  answered(): void {
    this.#isNeedless = true;
    this.#flush();
  }

  #flush(): void {
    for (const { target, startMs } of this.#attempts) this.#tools.oversized(target, startMs);
    this.#attempts = [];
  }
}

const MIN_SHARE_MS = 250;

/**
 * Asks one supplier after another, by cause, until a good answer is there or attempts or time run out. A read that takes
 * longer than most gets a second supplier beside the first, and the quicker answer wins. A free call that no supplier answers
 * well gets the last error that a supplier gave, if one did.
 */
export function requestWithRetries(job: Job, tools: RetryTools, options: RetryOptions = {}): Promise<UpstreamOutcome> {
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamOutcome>();
  new RetryingRequest(job, tools, options, resolve, reject).start();
  return promise;
}

class RetryingRequest {
  readonly #job: Job;
  readonly #tools: RetryTools;
  readonly #options: RetryOptions;
  readonly #resolve: (outcome: UpstreamOutcome) => void;
  readonly #reject: (fault: unknown) => void;
  readonly #asked: Set<string>;
  readonly #tally: Tally = { attempts: 0, failures: [] };
  readonly #running = new Set<Running>();
  readonly #oversized: OversizedAnswers;
  #ordered: Target[] = [];
  #last: UpstreamAnswer | undefined;
  #mayGoRound: boolean;
  #hedge: Deadline | undefined;
  #isOver = false;
  #mayAskMore = true;

  constructor(
    job: Job,
    tools: RetryTools,
    options: RetryOptions,
    resolve: (outcome: UpstreamOutcome) => void,
    reject: (fault: unknown) => void,
  ) {
    this.#job = job;
    this.#tools = tools;
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#asked = options.asked ?? new Set();
    this.#last = options.last;
    this.#oversized = options.oversized ?? new OversizedAnswers(tools);
    const { isOnce, context } = job;
    this.#mayGoRound =
      !isOnce && context.rules.maxAttempts > 1 && options.freshOnly !== true && this.#last === undefined;
  }

  start(): void {
    this.#ordered = this.#tools.order(this.#job);
    if (this.#last !== undefined) {
      this.#ordered = this.#ordered.filter(({ operator }) => !this.#asked.has(operator));
      this.#preferNewest();
    }
    if (this.#ordered.length === 0 && this.#last === undefined) {
      this.#resolve({ ok: false, code: "NO_SUPPLIERS", attempts: 0 });
    } else if (this.#askNext(false)) this.#planHedge();
    else this.#fail();
  }

  /** Asks the next supplier; false when there is none, or nothing more may be asked. */
  #askNext(isHedge: boolean): boolean {
    const { job } = this;
    const { clock, closing } = this.#tools;
    const { rules } = job.context;
    if (!this.#mayAskMore || this.#tally.attempts >= rules.maxAttempts) return false;
    if (job.signal?.aborted === true || closing.aborted) return false;
    const nowMs = clock.monotonicMs();
    const leftMs = job.deadlineMs - nowMs;
    if (leftMs <= 0) return false;
    const target = this.#take(isHedge);
    if (target === undefined) return false;
    this.#asked.add(target.operator);
    const attemptsLeft = job.isOnce ? 1 : Math.min(rules.maxAttempts - this.#tally.attempts, this.#ordered.length + 1);
    const shareMs = Math.min(rules.timeoutMs, leftMs, Math.max(MIN_SHARE_MS, leftMs / attemptsLeft));
    const first = this.#options.purpose ?? "client";
    const purpose = isHedge ? "hedge" : this.#tally.attempts === 0 ? first : "retry";
    this.#tally.attempts++;
    const running: Running = { target, handle: {}, startMs: nowMs, isHedge };
    this.#running.add(running);
    this.#tools.attempt(target, job, purpose, shareMs, running.handle).then(
      (result) => this.#ended(running, result),
      (fault: unknown) => this.#reject(fault),
    );
    return true;
  }

  #take(isHedge: boolean): Target | undefined {
    const ordered = this.#ordered;
    const isFreshOnly = isHedge || this.#options.freshOnly === true;
    const fresh = ordered.findIndex((target) => this.#isFresh(target, isHedge));
    if (fresh !== -1) return ordered.splice(fresh, 1)[0];
    if (isFreshOnly) return undefined;
    if (ordered.length > 0) return ordered.shift();
    // A kept connection may have been closed as the call was sent: one more round, after failures on the wire only.
    if (!this.#mayGoRound || this.#tally.failures.at(-1)?.reason !== "connection") return undefined;
    this.#mayGoRound = false;
    this.#asked.clear();
    this.#ordered = this.#tools.order(this.#job);
    return this.#ordered.shift();
  }

  get job(): Job {
    return this.#job;
  }

  #planHedge(): void {
    if (this.#job.isOnce || this.#isOver || this.#ordered.length === 0) return;
    const delayMs = this.#tools.hedgeDelayMs(this.#job);
    if (delayMs === undefined) return;
    this.#hedge = this.#tools.deadlines.after(delayMs, () => {
      if (this.#isOver || this.#running.size !== 1 || !this.#hasFresh() || !this.#tools.acquireHedge(this.#job)) return;
      this.#askNext(true);
    });
  }

  #hasFresh(): boolean {
    return this.#ordered.some((target) => this.#isFresh(target, true));
  }

  /** One in reserve is neither asked beside another nor to confirm it. */
  #isFresh({ operator, isReserve }: Target, isHedge: boolean): boolean {
    if (isReserve && (isHedge || this.#options.purpose === "comparison")) return false;
    return !this.#asked.has(operator);
  }

  #ended(running: Running, result: AttemptResult | "wrong_chain"): void {
    this.#running.delete(running);
    if (this.#isOver) return;
    const { job } = this;
    if (result === "wrong_chain") this.#tally.attempts--;
    else if (result.ok) {
      this.#win(running, result);
      return;
    } else if (running.isHedge && result.reason === "overloaded" && result.isNotSent === true) {
      // A hedge that we had no means for was never sent: the call goes on as without it, and its supplier is still to be asked.
      this.#tally.attempts--;
      this.#asked.delete(running.target.operator);
      this.#ordered.unshift(running.target);
      if (this.#running.size > 0) return;
    } else {
      this.#tally.failures.push(result);
      if (result.reason === "too_large") this.#oversized.add(running);
      const { fallback } = result;
      if (fallback?.isError === false) this.#keepStale(fallback);
      else if (fallback !== undefined && !this.#hasBetterThan(result.reason)) this.#last = fallback;
      if (result.reason === "overloaded" || (job.isOnce && result.isNotSent !== true)) this.#mayAskMore = false;
    }
    if (!this.#askNext(false) && this.#running.size === 0) this.#fail();
  }

  /** An answer from behind is better than an error, and that a call is too much says more than another's trouble. */
  #hasBetterThan(reason: FailureReason): boolean {
    const last = this.#last;
    return last !== undefined && (!last.isError || (last.lastResort === "too_much" && reason !== "too_much"));
  }

  /**
   * Keeps the first answer from behind, or a newer one that can be true. While no height can be distinguished from a lie, the lowest:
   * it is a block that exists when fewer than all lie.
   */
  #keepStale(stale: UpstreamAnswer): void {
    const last = this.#last;
    const tipOf = ({ tipBlocks = -1 }: UpstreamAnswer): number => tipBlocks;
    const isBetter = (): boolean => {
      if (last === undefined || last.isError) return true;
      const nowMs = this.#tools.clock.monotonicMs();
      const { view } = this.#job.context.memory;
      if (view.isOpen(nowMs)) return tipOf(stale) < tipOf(last);
      if (view.isTooHigh(tipOf(last), nowMs)) return true;
      return tipOf(stale) > tipOf(last) && !view.isTooHigh(tipOf(stale), nowMs);
    };
    if (isBetter()) this.#last = stale;
    this.#preferNewest();
  }

  /** Few have the newest block: they are asked next. */
  #preferNewest(): void {
    const nowMs = this.#tools.clock.monotonicMs();
    const { view } = this.#job.context.memory;
    const hasIt = ({ operator }: Target): number => Number(view.mayServe(view.heightOf(operator, nowMs) ?? -1, nowMs));
    if (this.#last?.lastResort === "behind") this.#ordered.sort((a, b) => hasIt(b) - hasIt(a));
  }

  #win(running: Running, answer: UpstreamAnswer): void {
    this.#countHedge(running.isHedge ? "won" : "lost");
    // An error is short whatever was asked.
    if (!answer.isError) this.#oversized.answered();
    this.#over(answer, running.startMs);
  }

  #countHedge(result: "won" | "lost"): void {
    if (result === "won" || (this.#running.size > 0 && [...this.#running].some(({ isHedge }) => isHedge)))
      this.#tools.metrics.count(relayHedgesTotal, { service: this.#job.context.service.id, result });
  }

  #fail(): void {
    const { job } = this;
    const { clock, closing } = this.#tools;
    // Before a quorum was heard, it could not be distinguished from the chain's.
    const { view } = job.context.memory;
    if (this.#last?.tipBlocks !== undefined && view.isTooHigh(this.#last.tipBlocks, clock.monotonicMs())) {
      this.#last = undefined;
    }
    // What is sold may be older than another's answer, but nothing else that was held to be wrong.
    if (this.#last !== undefined && (job.isFree || this.#last.lastResort === "behind")) {
      this.#over(this.#last);
      return;
    }
    const isLate = clock.monotonicMs() >= job.deadlineMs;
    const code = callFailureCode(this.#tally, isLate, closing.aborted ? closing : job.signal);
    const reasons: readonly FailureReason[] = this.#tally.failures.map(({ reason }) => reason);
    this.#over({ ok: false, code, attempts: this.#tally.attempts, reasons });
  }

  /** Ends what still runs. Who was asked after the winner, at `wonMs`, has not lost: it had less time. */
  #over(outcome: UpstreamOutcome, wonMs = Number.NEGATIVE_INFINITY): void {
    this.#isOver = true;
    if (this.#hedge !== undefined) this.#tools.deadlines.cancel(this.#hedge);
    for (const { target, handle, startMs } of this.#running) {
      if (startMs < wonMs) this.#tools.lost(target, this.#job, startMs);
      handle.isOver = true;
      handle.cancel?.();
    }
    this.#resolve(outcome);
  }
}
