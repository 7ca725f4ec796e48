import type { Clock, Log, Metrics } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { AttemptResult } from "../answers/upstream-answer.ts";
import type { ChainView } from "../chain-view/chain-view.ts";
import type { Probe, ProbeReading, ProbeStep } from "../families/family.ts";
import { relayProbesTotal, relaySupplierHealthy } from "../metrics.ts";
import { probeKey } from "../quality/prober.ts";
import type { ProbeNeed, SupplierQuality } from "../quality/supplier-quality.ts";
import { isDropReason } from "../suppliers/supplier-set.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";

/** What was asked of a back-end, and what came back. */
export type ProbeSeen = readonly {
  readonly step: number;
  readonly isInstead: boolean;
  readonly result: AttemptResult;
  readonly latencyMs: number;
}[];

interface HealthOptions {
  readonly service: Service;
  readonly endpoint: SupplierEndpoint;
}

interface HealthModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Undefined: there is nothing to ask; calls alone show health. */
  readonly probe: Probe | undefined;
  readonly quality: SupplierQuality;
  readonly view: ChainView;
  /** It was seen to serve another chain: what it answered before may be about that. */
  readonly onWrongChain: () => void;
  /** Asks the back-end. Never rejects. */
  readonly ask: (call: BackendCall, signal: AbortSignal) => Promise<AttemptResult>;
}

type StepOutcome = { readonly kind: "read"; readonly reading: ProbeReading } | { readonly kind: "bad" };

/** Whether a supplier lives and serves the right chain, as its family's own questions show. */
export class Health {
  /** Those with equal keys share their probes. */
  readonly probeKey: string;
  readonly #options: HealthOptions;
  readonly #modules: HealthModules;
  #chain: "unknown" | "right" | "wrong" = "unknown";
  #isUp: boolean | undefined;
  #round = 0;

  constructor(options: HealthOptions, modules: HealthModules) {
    this.#options = options;
    this.#modules = modules;
    const { backendKey, rpcType } = options.endpoint;
    const calls = (modules.probe?.steps ?? []).map(({ call }) => call);
    this.probeKey = probeKey({ backendKey, rpcType, calls });
  }

  get hasProbe(): boolean {
    return this.#modules.probe !== undefined;
  }

  /** It was seen to serve another chain: no call may go to it. */
  get isWrongChain(): boolean {
    return this.#chain === "wrong";
  }

  /** Calls may go to it without a probe before. */
  get isVerified(): boolean {
    return this.#modules.probe?.isRequired !== true || this.#chain === "right";
  }

  /** The last probe or call went well; without a probe, its breaker is closed. */
  get isHealthy(): boolean {
    if (this.#chain === "wrong") return false;
    const { probe, quality, clock } = this.#modules;
    if (probe === undefined) return this.#isUp ?? quality.state(clock.monotonicMs()) !== "open";
    return this.#isUp === true;
  }

  /** A call went well. */
  markUp(): void {
    if (this.#isUp !== true) this.#setUp(true);
  }

  /** How soon it should be probed again. */
  probeNeed(nowMs: number): ProbeNeed {
    return this.#chain === "wrong" ? "soon" : this.#modules.quality.probeNeed(nowMs);
  }

  /** Asks the questions of this round, one after the other, until one gets no answer. */
  async exchange(signal: AbortSignal): Promise<ProbeSeen> {
    const { clock, probe, ask } = this.#modules;
    const round = this.#round++;
    const seen: ProbeSeen[number][] = [];
    for (const [at, step] of (probe?.steps ?? []).entries()) {
      if (round % (step.every ?? 1) !== 0) continue;
      for (const isInstead of [false, true]) {
        const asked = isInstead ? step.instead : step;
        if (asked === undefined) break;
        const startMs = clock.monotonicMs();
        const result = await ask(asked.call, signal);
        seen.push({ step: at, isInstead, result, latencyMs: clock.monotonicMs() - startMs });
        if (isUnasked(result)) return seen;
        if (!result.ok && isDropReason(result.reason)) return seen;
        const isLost = !result.ok && result.blame === "wire";
        if (isLost && step.isOptional !== true) return seen;
        if (isLost || outcomeOf(asked, result).kind === "read") break;
      }
    }
    return seen;
  }

  /** Takes what came back, of its own exchange or of another supplier's at the same back-end. */
  read(seen: ProbeSeen): void {
    const { clock, metrics, probe, quality } = this.#modules;
    const service = this.#options.service.id;
    const nowMs = clock.monotonicMs();
    for (const [at, { step, isInstead, result, latencyMs }] of seen.entries()) {
      const own = probe?.steps[step];
      if (isUnasked(result)) {
        // No one waits for a supplier that our own limits keep from being asked.
        this.#modules.view.gaveNoHeight(this.#options.endpoint.operator);
        return;
      }
      const asked = isInstead ? own?.instead : own;
      if (own === undefined || asked === undefined) continue;
      const outcome = outcomeOf(asked, result);
      if (outcome.kind === "read" && outcome.reading.ok) {
        quality.probeGood(nowMs, latencyMs);
        this.#learn(outcome.reading, nowMs);
        continue;
      }
      const isWrong = outcome.kind === "read";
      if (own.isOptional === true && !isWrong) continue;
      // The other question stands behind this one.
      if (!isWrong && !isInstead && seen[at + 1]?.isInstead === true) continue;
      const isUnreached = !result.ok && result.blame === "wire";
      metrics.count(relayProbesTotal, {
        service,
        result: isWrong ? "wrong_chain" : isUnreached ? "unreachable" : "bad",
      });
      if (isWrong) {
        this.#modules.view.isOfOtherChain(this.#options.endpoint.operator);
        this.#setChain("wrong");
      } else quality.probeFailed(nowMs, result.ok ? "error" : result.reason, latencyMs);
      this.#modules.view.gaveNoHeight(this.#options.endpoint.operator);
      this.#setUp(false);
      return;
    }
    this.#modules.view.gaveNoHeight(this.#options.endpoint.operator);
    metrics.count(relayProbesTotal, { service, result: "good" });
    this.#setChain("right");
    this.#setUp(true);
  }

  #learn(reading: Extract<ProbeReading, { ok: true }>, nowMs: number): void {
    const { view } = this.#modules;
    const { operator } = this.#options.endpoint;
    if (reading.heightBlocks !== undefined) view.reported(operator, reading.heightBlocks, nowMs);
    if (reading.head !== undefined) view.sawBlock(operator, reading.head, nowMs);
    if (reading.finalBlocks !== undefined) view.sawFinal(operator, reading.finalBlocks, nowMs);
  }

  #setChain(chain: "right" | "wrong"): void {
    if (chain === this.#chain) return;
    const wasWrong = this.#chain === "wrong";
    this.#chain = chain;
    if (chain === "wrong") {
      this.#modules.onWrongChain();
      this.#modules.log.error(this.#fields(), "supplier serves another chain and is not used");
    } else if (wasWrong) this.#modules.log.info(this.#fields(), "supplier serves the right chain again");
  }

  #setUp(isUp: boolean): void {
    if (isUp === this.#isUp) return;
    const isFirst = this.#isUp === undefined;
    this.#isUp = isUp;
    const { service } = this.#options;
    const { operator, rpcType } = this.#options.endpoint;
    this.#modules.metrics.set(relaySupplierHealthy, isUp ? 1 : 0, { service: service.id, operator, rpc_type: rpcType });
    if (!isUp) this.#modules.log.warn(this.#fields(), "supplier is down");
    else if (!isFirst) this.#modules.log.info(this.#fields(), "supplier is up");
  }

  #fields(): Readonly<Record<string, unknown>> {
    const { operator, rpcType, label } = this.#options.endpoint;
    return { service: this.#options.service.id, operator, rpcType, host: label };
  }
}

/** True when the supplier was not asked, for a reason of ours: that says nothing of it. */
function isUnasked(result: AttemptResult): boolean {
  return !result.ok && result.blame === "client" && !isDropReason(result.reason);
}

/** What a step's answer says: a reading, `ok` or of another chain; or nothing that can be used. */
function outcomeOf(step: ProbeStep, result: AttemptResult): StepOutcome {
  if (!result.ok || result.isError) return { kind: "bad" };
  const reading = step.read(result.result);
  return reading.ok || reading.reason === "wrong_chain" ? { kind: "read", reading } : { kind: "bad" };
}
