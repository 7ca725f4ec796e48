import type { Clock, Log, Metrics } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import type { BadAnswer } from "../answer.ts";
import { findMembers, replaceSpan } from "../members.ts";
import { ATTEMPT_DURATION, ATTEMPTS, BREAKER_OPEN } from "../metrics.ts";
import type { AttemptHandle } from "./exchange.ts";
import { outcomeOf, within } from "./failure.ts";
import { bodyForMaker, tagFilterId } from "./filters.ts";
import type { Job } from "./job.ts";
import type { AttemptResult, Target } from "./target.ts";

/** What {@link Attempts} work with. */
export interface AttemptsModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Fires when the relay ends. */
  readonly closing: AbortSignal;
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
    shareMs: number,
    handle: AttemptHandle,
  ): Promise<AttemptResult | "wrong_chain"> {
    const { clock } = this.#modules;
    const { call, operation, isFree, mayStream, signal } = job;
    const startMs = clock.monotonicMs();
    if (!target.isVerified) {
      const unverified = await this.verify(target, shareMs);
      if (unverified === "wrong_chain") return unverified;
      if (unverified !== undefined) return this.record(target, call, startMs, unverified);
    }
    const body = operation?.filter === "use" ? bodyForMaker(call) : call.body;
    const leftMs = shareMs - (clock.monotonicMs() - startMs);
    let result = await target.attempt(call, body, leftMs, signal, { isFree, mayStream }, handle);
    if (result.kind === "good" && operation?.filter === "create" && !result.good.isError) {
      result = withTaggedFilter(target, result);
    }
    if (result.kind === "bad" && result.retryAfterMs !== undefined) {
      target.quality.restUntil(clock.monotonicMs(), result.retryAfterMs);
    }
    if (result.kind === "bad" && result.reason === "aborted") return result;
    return this.record(target, call, startMs, result);
  }

  /** Probes a supplier that no call may go to before; undefined when calls may. */
  async verify(target: Target, timeoutMs: number): Promise<BadAnswer | "wrong_chain" | undefined> {
    if (target.isVerified) return undefined;
    const isProbed = await within(target.probe(this.#modules.closing), timeoutMs);
    if (target.isWrongChain) return "wrong_chain";
    if (target.isVerified) return undefined;
    return { kind: "bad", blame: "wire", reason: isProbed ? "connection" : "timeout", isUnsent: true };
  }

  /** Holds how an attempt ended for or against its supplier. */
  record(target: Target, call: BackendCall, startMs: number, result: AttemptResult): AttemptResult {
    const { clock, metrics, log } = this.#modules;
    const nowMs = clock.monotonicMs();
    const service = target.serviceId;
    const outcome = outcomeOf(result);
    const blame = result.kind === "bad" ? result.blame : "none";
    const reason = result.kind === "bad" ? result.reason : "none";
    metrics.count(ATTEMPTS, { service, outcome, blame, reason });
    metrics.observe(ATTEMPT_DURATION, (nowMs - startMs) / 1_000, { service, outcome });
    if (result.kind === "good") {
      target.quality.good(nowMs, nowMs - startMs);
      target.markUp();
    } else {
      if (reason === "unsupported") target.quality.lacks(call.operation, nowMs);
      else if ((blame === "supplier" && reason !== "too_large") || blame === "wire") target.quality.failed(nowMs);
      log.debug({ service, operator: target.operator, operation: call.operation, blame, reason }, "attempt failed");
    }
    metrics.set(BREAKER_OPEN, target.quality.isOpen(nowMs) ? 1 : 0, {
      service,
      operator: target.operator,
      rpc_type: target.rpcType,
    });
    return result;
  }
}

/** The answer with a filter id that names its supplier. */
function withTaggedFilter(target: Target, result: Extract<AttemptResult, { kind: "good" }>): AttemptResult {
  const { good } = result;
  const id = tagFilterId(target.tag, good.result);
  const span = findMembers(good.body)?.get("result");
  if (id === undefined || span === undefined) return { kind: "bad", blame: "supplier", reason: "schema" };
  const { idAt: _, resultAt: __, ...rest } = good;
  return { ...result, good: { ...rest, body: replaceSpan(good.body, span, JSON.stringify(id)) } };
}
