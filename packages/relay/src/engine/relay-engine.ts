import {
  AppError,
  type Clock,
  Deadlines,
  type ErrorCode,
  type Log,
  type Metrics,
  type ServiceId,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import {
  type BackendCall,
  type FreeRequest,
  mintRelayed,
  type PaidRequest,
  type Relayed,
  type RpcType,
} from "@turnpike/protocol";
import type { UpstreamAnswer, UpstreamOutcome } from "../answers/upstream-answer.ts";
import type { BlockRef } from "../families/method-traits.ts";
import { familyOf } from "../families/registry.ts";
import { RelayMemory } from "../memory.ts";
import { relayInFlight, relaysTotal } from "../metrics.ts";
import { DEFAULT_PROBER, Prober } from "../quality/prober.ts";
import { DEFAULT_QUALITY } from "../quality/supplier-quality.ts";
import type { SupplierSet } from "../suppliers/supplier-set.ts";
import type { SendPurpose, SupplierEndpoint } from "../transport/transport.ts";
import type { Relay, RelayControl, RelayFailure, RelayFlag, RelayOutcome, ServiceView } from "../types.ts";
import { Attempts } from "./attempts.ts";
import { forwardBatch } from "./client-batch.ts";
import { bodyForCreator, filterRole } from "./filters.ts";
import { Forwarder } from "./forwarder.ts";
import type { ProbeSeen } from "./health.ts";
import { Hedging } from "./hedging.ts";
import { isSentOnce, type Job, mayHaveNews } from "./job.ts";
import { MethodSurvey } from "./method-survey.ts";
import type { EngineOptions } from "./options.ts";
import { ServiceContext } from "./service-context.ts";
import { Target } from "./target.ts";

export interface EngineModules {
  readonly catalogue: ReadonlyMap<ServiceId, Service>;
  /** The suppliers of each service. They outlive the engine, unless `resources` end them. */
  readonly suppliers: ReadonlyMap<ServiceId, SupplierSet>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** A number of [0, 1). */
  readonly random: () => number;
  /** What an engine before this one has learned; without it, this one begins with nothing. */
  readonly memory?: RelayMemory;
  /** Ended with the engine. */
  readonly resources?: AsyncDisposable;
}

/** Hedges come so late at most. */
const DEADLINE_STEP_MS = 10;

/** Shorter than `lackMs`, after which a lacking method would be offered again without being asked for. */
const SURVEY_AGAIN_MS = DEFAULT_QUALITY.lackMs * 0.8;
const NONE: ReadonlySet<string> = new Set();

/** Share of the calls in flight that free ones may be. */
const FREE_SHARE = 0.9;

/**
 * Relays calls to the suppliers of each service, whatever set they come from. Each call goes to one supplier after
 * another, by cause, until a good answer is there or attempts or time run out; a free call then gets the last error that
 * a supplier gave, if one did. Filter calls, and calls that may write, are sent once.
 */
export class RelayEngine implements Relay, RelayControl {
  /** What it learns, for the engine that follows it. */
  readonly memory: RelayMemory;
  readonly #options: EngineOptions;
  readonly #modules: EngineModules;
  readonly #contexts = new Map<ServiceId, ServiceContext>();
  readonly #prober: Prober<ProbeSeen>;
  readonly #survey: MethodSurvey;
  readonly #closing = new AbortController();
  readonly #attempts: Attempts;
  readonly #forwarder: Forwarder;
  readonly #unsubscribe = new Map<ServiceId, () => void>();
  #inFlight = 0;

  /** @throws AppError CONFIG_INVALID for a service that the catalogue does not have. */
  constructor(options: EngineOptions, modules: EngineModules) {
    const { clock, metrics, random } = modules;
    this.#options = options;
    this.#modules = modules;
    this.memory = modules.memory ?? new RelayMemory(options, modules);
    for (const [id, suppliers] of modules.suppliers) this.#addService(modules.catalogue, id, suppliers);
    this.#prober = new Prober<ProbeSeen>(
      { ...DEFAULT_PROBER, intervalMs: options.probeIntervalMs, maxAtOnce: options.maxProbes },
      { targets: this.#targets().filter(hasProbe), clock, random, signal: this.#closing.signal },
    );
    this.#survey = new MethodSurvey(
      { intervalMs: options.probeIntervalMs, againMs: SURVEY_AGAIN_MS, maxAtOnce: options.maxProbes },
      { suppliers: () => this.#targets(), clock, signal: this.#closing.signal },
    );
    this.#attempts = new Attempts({ ...modules, probe: (target) => this.#prober.probe(target) });
    const hedging = new Hedging(options, { clock, flags: this.memory.flags, isBusy: () => this.#isHalfFull() });
    this.#forwarder = new Forwarder({
      clock,
      metrics,
      log: modules.log,
      flags: this.memory.flags,
      maxAnswerBytes: options.maxAnswerBytes,
      retries: {
        clock,
        metrics,
        closing: this.#closing.signal,
        deadlines: new Deadlines({ stepMs: DEADLINE_STEP_MS }, { clock }),
        order: (job) => job.context.order(job),
        attempt: (...attempt) => this.#attempts.attempt(...attempt),
        lost: (target, job, startMs) => this.#attempts.lost(target, job, startMs),
        oversized: (target, startMs) => this.#attempts.oversized(target, startMs),
        hedgeDelayMs: (job) => hedging.delayMs(job),
        acquireHedge: () => hedging.acquire(),
      },
    });
  }

  #addService(catalogue: ReadonlyMap<ServiceId, Service>, id: ServiceId, suppliers: SupplierSet): ServiceContext {
    const { clock, random } = this.#modules;
    const service = catalogue.get(id);
    if (service === undefined) {
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: the catalogue has no such service.` });
    }
    const { rules: given, defaultRules } = this.#options;
    const rules = { ...defaultRules, ...(Object.hasOwn(given, id) ? given[id] : undefined) };
    const { maxOperatorShare } = this.#options;
    const memory = this.memory.of(service);
    const target = (endpoint: SupplierEndpoint): Target => this.#targetOf(service, endpoint, suppliers);
    const context = new ServiceContext(
      { service, rules, maxOperatorShare },
      { suppliers, target, memory, clock, random },
    );
    this.#contexts.set(id, context);
    this.#unsubscribe.set(
      id,
      suppliers.onChange(() => this.#follow(context)),
    );
    return context;
  }

  /**
   * Serves further services beside those that it has, which go on as they are.
   * @throws AppError CONFIG_INVALID for a service that the catalogue does not have.
   */
  add(catalogue: ReadonlyMap<ServiceId, Service>, suppliers: ReadonlyMap<ServiceId, SupplierSet>): void {
    if (this.#closing.signal.aborted) return;
    for (const [id, set] of suppliers) {
      if (this.#contexts.has(id)) continue;
      const context = this.#addService(catalogue, id, set);
      for (const target of context.all().filter(hasProbe)) this.#prober.add(target);
    }
  }

  /** Serves these services alone; calls of others that are under way end as they would. */
  keepOnly(services: { has(id: ServiceId): boolean }): void {
    for (const [id, context] of this.#contexts) {
      if (services.has(id)) continue;
      this.#unsubscribe.get(id)?.();
      this.#unsubscribe.delete(id);
      for (const target of context.all()) this.#prober.remove(target);
      this.#contexts.delete(id);
    }
  }

  #targetOf(service: Service, endpoint: SupplierEndpoint, suppliers: SupplierSet): Target {
    const { maxAnswerBytes, maxCheckedBytes, probeTimeoutMs } = this.#options;
    const { streamAfterBytes: afterBytes, maxStreamedBytes: maxBytes, streamTimeoutMs: timeoutMs } = this.#options;
    const streaming = { afterBytes, maxBytes, timeoutMs };
    return new Target(
      { service, endpoint, maxAnswerBytes, maxCheckedBytes, probeTimeoutMs, streaming },
      {
        ...this.#modules,
        memory: this.memory.of(service),
        quality: this.memory.quality(service, endpoint.operator, endpoint.rpcType),
        drop: (one, reason) => suppliers.drop(one, reason),
      },
    );
  }

  /** Takes over who the suppliers of a service are now. */
  #follow(context: ServiceContext): void {
    if (this.#closing.signal.aborted) return;
    const { added, removed } = context.refresh();
    for (const target of removed) this.#prober.remove(target);
    for (const target of added.filter(hasProbe)) this.#prober.add(target);
  }

  #targets(): readonly Target[] {
    return [...this.#contexts.values()].flatMap((context) => context.all());
  }

  /** Begins to probe the suppliers; resolves when each was probed once. Without it, each is probed at its first call. */
  start(): Promise<void> {
    return this.#prober.start();
  }

  /** Begins to ask suppliers, once they were probed, which of the declared methods they have. */
  survey(): void {
    if (!this.#closing.signal.aborted) this.#survey.start();
  }

  served(): readonly ServiceId[] {
    return [...this.#contexts].filter(([, context]) => context.whyEmpty() !== "not_configured").map(([id]) => id);
  }

  hasSupplier(id: ServiceId, rpcType: RpcType): boolean {
    const targets = this.#contexts.get(id)?.all() ?? [];
    return targets.some((target) => target.rpcType === rpcType && !target.isDrained && !target.isWrongChain);
  }

  missing(id: ServiceId): readonly string[] | undefined {
    const context = this.#contexts.get(id);
    const targets = context?.all() ?? [];
    if (targets.length === 0) return context?.whyEmpty() === "no_session" ? ["a session with suppliers"] : undefined;
    if (targets.some(({ health, isDrained }) => health.isHealthy && !isDrained)) return [];
    if (targets.every(({ isDrained }) => isDrained)) return ["a supplier that is not drained"];
    return [targets.every((target) => target.isWrongChain) ? "a supplier of the right chain" : "a healthy supplier"];
  }

  missingMethods(id: ServiceId): ReadonlySet<string> {
    return this.#contexts.get(id)?.missingMethods(this.#modules.clock.monotonicMs()) ?? NONE;
  }

  inspect(id?: ServiceId): readonly ServiceView[] {
    const contexts = id === undefined ? [...this.#contexts.values()] : [this.#contexts.get(id)];
    const nowMs = this.#modules.clock.monotonicMs();
    return contexts.flatMap((context) => (context === undefined ? [] : [context.inspect(nowMs)]));
  }

  setDrained(id: ServiceId, operator: string, isDrained: boolean): boolean {
    const context = this.#contexts.get(id);
    if (context?.all().some((target) => target.operator === operator) !== true) return false;
    if (isDrained) context.memory.drained.add(operator);
    else context.memory.drained.delete(operator);
    return true;
  }

  resetScore(id: ServiceId, operator: string): boolean {
    const nowMs = this.#modules.clock.monotonicMs();
    const targets = (this.#contexts.get(id)?.all() ?? []).filter((target) => target.operator === operator);
    for (const { quality } of targets) quality.reset(nowMs);
    return targets.length > 0;
  }

  flags(): Readonly<Record<RelayFlag, boolean>> {
    return { ...this.memory.flags };
  }

  setFlag(flag: RelayFlag, isOn: boolean): void {
    this.memory.flags[flag] = isOn;
    if (flag === "cache" && !isOn) this.memory.cache.clear();
  }

  clearCache(id?: ServiceId): void {
    this.memory.cache.clear(id);
  }

  #isHalfFull(): boolean {
    return this.#inFlight > this.#options.maxInFlight / 2;
  }

  async send(request: PaidRequest | FreeRequest, signal?: AbortSignal): Promise<RelayOutcome> {
    const { serviceId } = request.request;
    const context = this.#admit(serviceId, isFree(request));
    if (!("service" in context)) return context;
    this.#countInFlight(1);
    try {
      const outcome = this.#forwarder.forward(this.#job(context, request, signal));
      return this.#finish(request, outcome instanceof Promise ? await outcome : outcome);
    } finally {
      this.#countInFlight(-1);
    }
  }

  async sendBatch(requests: readonly FreeRequest[], signal?: AbortSignal): Promise<readonly RelayOutcome[]> {
    const [first] = requests;
    if (first === undefined) return [];
    const context = this.#admit(first.request.serviceId, true);
    if (!("service" in context)) return requests.map(() => context);
    this.#countInFlight(1);
    try {
      const jobs = requests.map((request) => this.#job(context, request, signal));
      const outcomes = await forwardBatch(jobs, {
        context,
        clock: this.#modules.clock,
        signal,
        closing: this.#closing.signal,
        attempts: this.#attempts,
        forwarder: this.#forwarder,
      });
      let good = 0;
      const relayed = requests.map((request, at) => {
        const outcome = outcomes[at];
        if (outcome?.ok !== true) return this.#failed(first.request.serviceId, outcome);
        good++;
        return relayedOf(request, outcome);
      });
      if (good > 0) this.#modules.metrics.count(relaysTotal, { service: first.request.serviceId, result: "ok" }, good);
      return relayed;
    } finally {
      this.#countInFlight(-1);
    }
  }

  async notify(request: FreeRequest, signal?: AbortSignal): Promise<void> {
    const { serviceId, call } = request.request;
    const context = this.#admit(serviceId, true);
    if (!("service" in context)) return;
    const { clock } = this.#modules;
    this.#countInFlight(1);
    const job = this.#job(context, request, signal);
    const body = job.filter === "use" ? bodyForCreator(call, job.client) : call.body;
    try {
      const ordered = context.order({ ...job, refs: undefined }).slice(0, context.rules.maxAttempts);
      let purpose: SendPurpose = "client";
      for (const target of ordered) {
        const leftMs = Math.min(context.rules.timeoutMs, request.deadlineMs - clock.monotonicMs());
        if (leftMs <= 0 || signal?.aborted === true) return;
        if ((await this.#attempts.verify(target, leftMs)) !== undefined) continue;
        const response = await target.send(call, { purpose, body, timeoutMs: leftMs, signal });
        if (response.ok || !response.isNotSent) return;
        purpose = "retry";
      }
    } finally {
      if (mayHaveNews(job, undefined)) context.wrote();
      this.#countInFlight(-1);
    }
  }

  #job(context: ServiceContext, request: PaidRequest | FreeRequest, signal: AbortSignal | undefined): Job {
    const { call, client, span } = request.request;
    const operation = context.service.operations.get(call.operation);
    const traits = familyOf(context.service, call.rpcType).traits?.(call);
    return {
      context,
      call,
      operation,
      traits,
      refs: refsOf(traits, call),
      filter: filterRole(call, operation, traits),
      client,
      isFree: isFree(request),
      isOnce: isSentOnce(context.service, call, operation, traits),
      mayStream: isFree(request) && request.mayStream === true,
      deadlineMs: request.deadlineMs,
      signal,
      span,
    };
  }

  /** The service's suppliers; or why nothing is sent now. */
  #admit(serviceId: ServiceId, isForFree: boolean): ServiceContext | RelayFailure {
    const context = this.#contexts.get(serviceId);
    if (this.#closing.signal.aborted) return this.#refuse(serviceId, "SHUTTING_DOWN");
    if (context === undefined) return this.#refuse(serviceId, "NO_SUPPLIERS");
    const most = isForFree ? this.#options.maxInFlight * FREE_SHARE : this.#options.maxInFlight;
    return this.#inFlight >= most ? this.#refuse(serviceId, "OVERLOADED") : context;
  }

  #countInFlight(change: 1 | -1): void {
    this.#inFlight += change;
    this.#modules.metrics.set(relayInFlight, this.#inFlight);
  }

  #finish(request: PaidRequest | FreeRequest, outcome: UpstreamOutcome): RelayOutcome {
    const { serviceId } = request.request;
    if (!outcome.ok) return this.#failed(serviceId, outcome);
    this.#modules.metrics.count(relaysTotal, { service: serviceId, result: "ok" });
    return relayedOf(request, outcome);
  }

  #failed(service: ServiceId, outcome: RelayFailure | undefined): RelayFailure {
    const { code, attempts } = outcome ?? { code: "INTERNAL", attempts: 0 };
    this.#modules.metrics.count(relaysTotal, { service, result: code });
    return { ok: false, code, attempts };
  }

  #refuse(serviceId: ServiceId, code: ErrorCode): RelayFailure {
    // An id that is not served must not become a label.
    this.#modules.metrics.count(relaysTotal, {
      service: this.#contexts.has(serviceId) ? serviceId : "unknown",
      result: code,
    });
    return { ok: false, code, attempts: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AppError("SHUTTING_DOWN"));
    for (const end of this.#unsubscribe.values()) end();
    await this.#prober[Symbol.asyncDispose]();
    await this.#survey[Symbol.asyncDispose]();
    await this.#modules.resources?.[Symbol.asyncDispose]();
  }
}

/** A good answer, bound to its request. */
function relayedOf(request: PaidRequest | FreeRequest, answer: UpstreamAnswer): Relayed {
  const { status, contentType, body, schemaCheck, operator, stream, consensusVersion } = answer;
  const plain = { ok: true, request, status, contentType, body, schemaCheck, operator } as const;
  // Almost all have neither.
  if (stream === undefined && consensusVersion === undefined) return mintRelayed(plain);
  return mintRelayed({
    ...plain,
    ...(stream === undefined ? {} : { stream }),
    ...(consensusVersion === undefined ? {} : { consensusVersion }),
  });
}

function isFree(request: PaidRequest | FreeRequest): request is FreeRequest {
  return !("settlementId" in request);
}

function refsOf(traits: Job["traits"], { params }: BackendCall): readonly BlockRef[] | undefined {
  return traits?.cache.by === "block" ? traits.cache.blocks(params) : undefined;
}

function hasProbe({ health }: Target): boolean {
  return health.hasProbe;
}
