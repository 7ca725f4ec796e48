import { type Clock, Deadlines, type Log, type Metrics, parseJson } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import {
  type AttemptResult,
  type FailedAttempt,
  failedAttempt,
  type UpstreamAnswer,
} from "../answers/upstream-answer.ts";
import { findMembers, replaceSpan } from "../members.ts";
import { relayAttemptDurationSeconds, relayAttemptsTotal } from "../metrics.ts";
import { isHeldAgainst } from "../quality/score.ts";
import { retryAfterMsOf, type SendHandle, type SendPurpose } from "../transport/transport.ts";
import { checkAgainstChain, learnFromFailure } from "./chain-check.ts";
import { bodyForCreator, tagFilterId } from "./filters.ts";
import type { Job } from "./job.ts";
import { methodKey } from "./service-context.ts";
import type { Target } from "./target.ts";

interface AttemptsModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Probes a supplier now. */
  readonly probe: (target: Target) => Promise<void>;
}

/** Attempts at one supplier each: sent, checked, and held for or against it. */
export class Attempts {
  readonly #modules: AttemptsModules;

  constructor(modules: AttemptsModules) {
    this.#modules = modules;
  }

  /** Sends a job to one supplier. Never rejects. */
  async attempt(
    target: Target,
    job: Job,
    purpose: SendPurpose,
    shareMs: number,
    handle: SendHandle,
  ): Promise<AttemptResult | "wrong_chain"> {
    const { clock } = this.#modules;
    const { call, filter, isFree, mayStream, signal } = job;
    const startMs = clock.monotonicMs();
    let leftMs = shareMs;
    if (!target.isVerified) {
      const unverified = await this.verify(target, shareMs);
      if (unverified === "wrong_chain") return unverified;
      if (unverified !== undefined) return this.record(target, call, startMs, unverified);
      if (handle.isOver === true) return { ok: false, blame: "client", reason: "aborted", isNotSent: true };
      leftMs = shareMs - (clock.monotonicMs() - startMs);
    }
    const body = filter === "use" ? bodyForCreator(call, job.client) : call.body;
    const span = job.span?.child("relay.attempt", "client", { operator: target.operator });
    // A newest block is compared with the chain's height before it is passed on.
    const stream = mayStream && job.traits?.tipOf === undefined ? target.streaming(call) : undefined;
    const response = await target.send(call, { purpose, body, timeoutMs: leftMs, signal, handle, stream });
    let result = target.read(call, response, { isFree });
    const nowMs = clock.monotonicMs();
    if (result.ok) {
      if (filter === "create" && !result.isError) result = withTaggedFilter(target, job.client, result);
      else result = checkAgainstChain(target, job, result, nowMs);
    } else {
      const pauseMs = response.ok ? retryAfterMsOf(response) : undefined;
      if (pauseMs !== undefined) target.quality.pause(nowMs, pauseMs);
      if (result.reason === "state_unavailable") learnFromFailure(target, job, nowMs);
      span?.fail(result.reason);
    }
    span?.end();
    if (!result.ok && result.reason === "aborted") return result;
    return this.record(target, call, startMs, result);
  }

  /** An attempt was ended because another was quicker. */
  lost(target: Target, { call, context }: Job, startMs: number): void {
    const nowMs = this.#modules.clock.monotonicMs();
    target.quality.failed(nowMs, "hedge_lost", nowMs - startMs);
    // Without the losers slow answers would vanish from the histogram, and hedges come ever earlier.
    context.memory.latency.add(call.operation, nowMs, nowMs - startMs);
  }

  /** An attempt brought more than we take, and another supplier answered the same call within the limit. */
  oversized(target: Target, startMs: number): void {
    const nowMs = this.#modules.clock.monotonicMs();
    target.quality.failed(nowMs, "oversized", nowMs - startMs);
  }

  /** Probes a supplier that no call may go to before; undefined when calls may. */
  async verify(target: Target, timeoutMs: number): Promise<FailedAttempt | "wrong_chain" | undefined> {
    if (target.isVerified) return undefined;
    const isProbed = await within(this.#modules.probe(target), timeoutMs, this.#modules.clock);
    if (target.isWrongChain) return "wrong_chain";
    if (target.isVerified) return undefined;
    return { ok: false, blame: "wire", reason: isProbed ? "connection" : "timeout", isNotSent: true };
  }

  /** Holds how an attempt ended for or against its supplier. */
  record(target: Target, call: BackendCall, startMs: number, result: AttemptResult): AttemptResult {
    const { clock, metrics, log } = this.#modules;
    const nowMs = clock.monotonicMs();
    const service = target.serviceId;
    const outcome = outcomeOf(result);
    const blame = result.ok ? "none" : result.blame;
    const reason = result.ok ? "none" : result.reason;
    metrics.count(relayAttemptsTotal, { service, outcome, blame, reason });
    metrics.observe(relayAttemptDurationSeconds, (nowMs - startMs) / 1_000, { service, outcome });
    const latencyMs = nowMs - startMs;
    if (result.ok) {
      target.quality.good(nowMs, latencyMs);
      target.latency.add(call.operation, nowMs, latencyMs);
      target.health.markUp();
    } else {
      const { blame, reason } = result;
      if (reason === "unsupported") target.quality.lacks(methodKey(call), nowMs);
      else if (isHeldAgainst(blame, reason)) target.quality.failed(nowMs, reason, latencyMs);
      log.debug({ service, operator: target.operator, operation: call.operation, blame, reason }, "attempt failed");
    }
    return result;
  }
}

/** The answer with a filter id that names its supplier and its owner. */
function withTaggedFilter(target: Target, client: string, answer: UpstreamAnswer): AttemptResult {
  const { body } = answer;
  const span = findMembers(body)?.get("result");
  const own = span === undefined ? undefined : parseJson(body.subarray(span.start, span.end));
  const id = own?.ok === true ? tagFilterId(target.tag, client, own.value) : undefined;
  if (id === undefined || span === undefined) return failedAttempt("supplier", "schema");
  return { ...answer, body: replaceSpan(body, span, JSON.stringify(id)), idAt: undefined, resultAt: undefined };
}

/** Label of an attempt's outcome. */
function outcomeOf(result: AttemptResult): "good" | "error" | "bad" {
  if (!result.ok) return "bad";
  return result.isError ? "error" : "good";
}

/** A third of the time that {@link within} may be late. */
const STEP_MS = 10;

/** True when the task ends within the time of the clock; false when the time is over first. */
export async function within(task: Promise<void>, timeoutMs: number, clock: Clock): Promise<boolean> {
  const deadlines = new Deadlines({ stepMs: STEP_MS }, { clock });
  const { promise, resolve } = Promise.withResolvers<false>();
  const deadline = deadlines.after(timeoutMs, () => resolve(false));
  try {
    return await Promise.race([task.then(() => true), promise]);
  } finally {
    deadlines.cancel(deadline);
  }
}
