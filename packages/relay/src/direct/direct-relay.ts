import { AppError, type Clock, type ErrorCode, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { type BackendCall, type FreeRequest, mintRelayed, type PaidRequest, type RpcType } from "@turnpike/protocol";
import { Pool } from "undici";
import { familyOf } from "../families.ts";
import { IN_FLIGHT, IN_FLIGHT_BYTES, RELAYS } from "../metrics.ts";
import type { Relay, RelayFailure, RelayFlag, RelayResult } from "../types.ts";
import { Answering } from "./answering.ts";
import { Attempts } from "./attempts.ts";
import { relayBatch } from "./batch-relay.ts";
import type { ByteBudget } from "./exchange.ts";
import { Flights } from "./flights.ts";
import type { Finding } from "./found.ts";
import type { Job } from "./job.ts";
import type { DirectRelayOptions, DirectSuppliers } from "./options.ts";
import { createProber, type Prober } from "./prober.ts";
import type { PursuitTools } from "./pursuit.ts";
import { DEFAULT_QUALITY } from "./quality.ts";
import { isSentOnce, mayBatch } from "./sending.ts";
import { SupplierSet } from "./supplier-set.ts";
import { Target } from "./target.ts";

/** What `createDirectRelay` works with. */
export interface DirectRelayModules {
  readonly catalogue: ReadonlyMap<ServiceId, Service>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** A number of [0, 1). */
  readonly random: () => number;
}

/** A relay whose probes run once it was started. */
export interface DirectRelay extends Relay {
  /** Begins to probe the suppliers; resolves when each was probed once. Without it, each is probed at its first call. */
  start(): Promise<void>;
}

/**
 * The supplier sets of operator-given URLs. Each call goes to one supplier after another, by cause, until a good answer
 * is there or attempts or time run out; a free call then gets the last error that a supplier gave, if one did. Filter
 * calls, and calls that may write, are sent once.
 *
 * @throws AppError CONFIG_INVALID for a URL that is none, or a service that the catalogue does not have
 */
export function createDirectRelay(options: DirectRelayOptions, modules: DirectRelayModules): DirectRelay {
  return new SupplierSets(options, modules);
}

/** Share of the calls in flight that free ones may be. */
const FREE_SHARE = 0.9;

class SupplierSets implements DirectRelay {
  readonly #options: DirectRelayOptions;
  readonly #modules: DirectRelayModules;
  readonly #pools = new Map<string, Pool>();
  readonly #sets = new Map<ServiceId, SupplierSet>();
  readonly #prober: Prober;
  readonly #closing = new AbortController();
  readonly #budget: ByteBudget;
  readonly #attempts: Attempts;
  readonly #answering: Answering;
  readonly #pursuit: PursuitTools;
  readonly #flags: Record<RelayFlag, boolean> = {
    cache: true,
    hedging: true,
    cross_validation: true,
    log_splitting: true,
  };
  #inFlight = 0;
  #heldBytes = 0;

  constructor(options: DirectRelayOptions, modules: DirectRelayModules) {
    const { clock, metrics } = modules;
    this.#options = options;
    this.#modules = modules;
    this.#budget = {
      take: (bytes) => {
        if (this.#heldBytes + bytes > options.maxInFlightBytes) return false;
        this.#heldBytes += bytes;
        metrics.set(IN_FLIGHT_BYTES, this.#heldBytes);
        return true;
      },
      give: (bytes) => {
        if (bytes === 0) return;
        this.#heldBytes -= bytes;
        metrics.set(IN_FLIGHT_BYTES, this.#heldBytes);
      },
    };
    this.#attempts = new Attempts({ ...modules, closing: this.#closing.signal });
    for (const [id, config] of Object.entries(options.suppliers)) this.#addSet(id as ServiceId, config);
    this.#pursuit = {
      clock,
      metrics,
      closing: this.#closing.signal,
      order: (job) => job.set.order(job),
      attempt: (target, job, shareMs, handle) => this.#attempts.attempt(target, job, shareMs, handle),
      lost: () => undefined,
      hedgeDelayMs: () => undefined,
      takeHedge: () => false,
    };
    this.#answering = new Answering({
      pursuit: this.#pursuit,
      metrics,
      flags: this.#flags,
      maxAnswerBytes: options.maxAnswerBytes,
      tip: () => undefined,
      contradicted: () => undefined,
    });
    const targets = [...this.#sets.values()].flatMap((set) => set.all());
    this.#prober = createProber(
      { intervalMs: options.probeIntervalMs, maxAtOnce: options.maxProbes },
      { targets, random: modules.random, signal: this.#closing.signal },
    );
  }

  #addSet(id: ServiceId, config: DirectSuppliers): void {
    const service = this.#modules.catalogue.get(id);
    if (service === undefined) {
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: the catalogue has no such service.` });
    }
    const targets = new Map<RpcType, Target[]>();
    for (const { operator, urls, headers = {} } of config.endpoints) {
      for (const [rpcType, url] of Object.entries(urls) as [RpcType, string][]) {
        const list = targets.get(rpcType) ?? [];
        targets.set(rpcType, list);
        const { maxAnswerBytes, maxCheckedBytes, probeTimeoutMs } = this.#options;
        const { streamAfterBytes: afterBytes, maxStreamedBytes: maxBytes, streamTimeoutMs: timeoutMs } = this.#options;
        const streaming = { afterBytes, maxBytes, timeoutMs };
        const bounds = { maxAnswerBytes, maxCheckedBytes, probeTimeoutMs, streaming, quality: DEFAULT_QUALITY };
        const modules = { ...this.#modules, pool: this.#poolOf(id, url), budget: this.#budget };
        list.push(new Target({ service, operator, rpcType, url, headers, ...bounds }, modules));
      }
    }
    const { clock, random } = this.#modules;
    this.#sets.set(id, new SupplierSet({ service, config, targets, flights: new Flights(), clock, random }));
  }

  #poolOf(id: ServiceId, url: string): Pool {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      // The URL is not shown: it may hold a key.
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: a URL is not an http or https URL.` });
    }
    const { origin } = new URL(url);
    const known = this.#pools.get(origin);
    if (known !== undefined) return known;
    const pool = new Pool(origin, {
      connections: this.#options.maxConnectionsPerOrigin,
      pipelining: 1,
      connect: { timeout: this.#options.connectTimeoutMs },
    });
    this.#pools.set(origin, pool);
    return pool;
  }

  start(): Promise<void> {
    return this.#prober.start();
  }

  served(): readonly ServiceId[] {
    return [...this.#sets].filter(([, set]) => set.targets.size > 0).map(([id]) => id);
  }

  missing(id: ServiceId): readonly string[] | undefined {
    const targets = this.#sets.get(id)?.all() ?? [];
    if (targets.length === 0) return undefined;
    if (targets.some((target) => target.isHealthy)) return [];
    return [targets.every((target) => target.isWrongChain) ? "a supplier of the right chain" : "a healthy supplier"];
  }

  async send(request: PaidRequest | FreeRequest, signal?: AbortSignal): Promise<RelayResult> {
    const { serviceId } = request.request;
    const set = this.#admit(serviceId, isFree(request));
    if (!("service" in set)) return set;
    this.#countInFlight(1);
    try {
      return this.#finish(request, await this.#answering.answer(this.#job(set, request, signal)));
    } finally {
      this.#countInFlight(-1);
    }
  }

  async sendBatch(requests: readonly FreeRequest[], signal?: AbortSignal): Promise<readonly RelayResult[]> {
    const [first] = requests;
    if (first === undefined) return [];
    const set = this.#admit(first.request.serviceId, true);
    if (!("service" in set)) return requests.map(() => set);
    this.#countInFlight(1);
    try {
      const { clock } = this.#modules;
      const attempts = this.#attempts;
      const jobs = requests.map((request) => this.#job(set, request, signal));
      const findings = await relayBatch(jobs, {
        timeoutMs: set.config.timeoutMs,
        maxAttempts: set.config.maxAttempts,
        clock,
        mayBatch,
        ended: () => signal?.aborted === true || this.#closing.signal.aborted,
        closing: () => (this.#closing.signal.aborted ? this.#closing.signal : signal),
        order: (job) => set.order(job).filter(({ family }) => !family.isLegacyRpc),
        single: (job, before) =>
          this.#answering.pursue(job, before && { asked: new Set([before.operator]), last: before.error }),
        verify: (target, timeoutMs) => attempts.verify(target, timeoutMs),
        exchange: (target, call, body, timeoutMs, scale) => target.exchange(call, body, timeoutMs, signal, scale),
        record: (target, call, startMs, result) => void attempts.record(target, call, startMs, result),
      });
      return requests.map((request, at) => {
        const finding = findings[at];
        return this.#finish(request, finding ?? { ok: false, code: "INTERNAL", attempts: 0 });
      });
    } finally {
      this.#countInFlight(-1);
    }
  }

  async notify(request: FreeRequest, signal?: AbortSignal): Promise<void> {
    const { serviceId, call } = request.request;
    const set = this.#admit(serviceId, true);
    if (!("service" in set)) return;
    const { clock } = this.#modules;
    this.#countInFlight(1);
    try {
      const job = this.#job(set, request, signal);
      for (const target of set.order({ ...job, operation: undefined }).slice(0, set.config.maxAttempts)) {
        const leftMs = Math.min(set.config.timeoutMs, request.deadlineMs - clock.monotonicMs());
        if (leftMs <= 0 || signal?.aborted === true) return;
        if ((await this.#attempts.verify(target, leftMs)) !== undefined) continue;
        const result = await target.exchange(call, call.body, leftMs, signal);
        if (result.ok || !result.isUnsent) return;
      }
    } finally {
      this.#countInFlight(-1);
    }
  }

  #job(set: SupplierSet, request: PaidRequest | FreeRequest, signal: AbortSignal | undefined): Job {
    const { call } = request.request;
    const operation = set.service.operations.get(call.operation);
    const traits = traitsOf(set.service, call);
    return {
      set,
      call,
      operation,
      traits,
      isFree: isFree(request),
      isOnce: isSentOnce(call, operation, traits),
      mayStream: isFree(request) && request.mayStream === true,
      deadlineMs: request.deadlineMs,
      signal,
    };
  }

  /** The service's suppliers; or why nothing is sent now. */
  #admit(serviceId: ServiceId, isForFree: boolean): SupplierSet | RelayFailure {
    const set = this.#sets.get(serviceId);
    if (this.#closing.signal.aborted) return this.#refuse(serviceId, "SHUTTING_DOWN");
    if (set === undefined) return this.#refuse(serviceId, "NO_SUPPLIERS");
    const most = isForFree ? this.#options.maxInFlight * FREE_SHARE : this.#options.maxInFlight;
    return this.#inFlight >= most ? this.#refuse(serviceId, "OVERLOADED") : set;
  }

  #countInFlight(change: 1 | -1): void {
    this.#inFlight += change;
    this.#modules.metrics.set(IN_FLIGHT, this.#inFlight);
  }

  #finish(request: PaidRequest | FreeRequest, finding: Finding): RelayResult {
    const { metrics } = this.#modules;
    const service = request.request.serviceId;
    metrics.count(RELAYS, { service, result: finding.ok ? "ok" : finding.code });
    if (!finding.ok) return { ok: false, code: finding.code, attempts: finding.attempts };
    const { status, contentType, body, schemaCheck, operator, stream } = finding.found;
    const relayed = { request, status, contentType, body, schemaCheck, operator };
    return { ok: true, relayed: mintRelayed(stream === undefined ? relayed : { ...relayed, stream }) };
  }

  #refuse(serviceId: ServiceId, code: ErrorCode): RelayFailure {
    // An id that is not served must not become a label.
    this.#modules.metrics.count(RELAYS, { service: this.#sets.has(serviceId) ? serviceId : "unknown", result: code });
    return { ok: false, code, attempts: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AppError("SHUTTING_DOWN"));
    await this.#prober[Symbol.asyncDispose]();
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }
}

function isFree(request: PaidRequest | FreeRequest): request is FreeRequest {
  return !("settlementId" in request);
}

function traitsOf(service: Service, call: BackendCall): Job["traits"] {
  return familyOf(service, call.rpcType).traits?.(call);
}
