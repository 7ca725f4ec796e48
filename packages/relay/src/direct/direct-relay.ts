import { AppError, type Clock, type ErrorCode, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Operation, Service } from "@turnpike/catalogue";
import type { BackendCall, FreeRequest, PaidRequest, RpcType } from "@turnpike/protocol";
import { mintRelayed } from "@turnpike/protocol";
import { Pool } from "undici";
import type { BadAnswer } from "../answer.ts";
import { findMembers, replaceSpan } from "../members.ts";
import { ATTEMPT_DURATION, ATTEMPTS, BREAKER_OPEN, IN_FLIGHT, IN_FLIGHT_BYTES, RELAYS } from "../metrics.ts";
import type { Relay, RelayFailure, RelayResult } from "../types.ts";
import { type EarlierAttempt, relayBatch } from "./batch-relay.ts";
import type { ByteBudget } from "./exchange.ts";
import { failureCode, outcomeOf, type Tally, within } from "./failure.ts";
import { bodyForMaker, filterIdHash, firstParam, tagFilterId, untagFilterId } from "./filters.ts";
import { Flights, flightKey } from "./flights.ts";
import type { DirectRelayOptions, DirectSuppliers } from "./options.ts";
import { createProber, type Prober } from "./prober.ts";
import { DEFAULT_QUALITY } from "./quality.ts";
import { neededHeight, orderTargets, takeNext } from "./selection.ts";
import { errorOf, isSentOnce, mayBatch, removeWhere } from "./sending.ts";
import { type AttemptResult, Target } from "./target.ts";

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

interface SupplierSet {
  readonly service: Service;
  readonly config: DirectSuppliers;
  readonly targets: ReadonlyMap<RpcType, readonly Target[]>;
  readonly flights: Flights;
}

const MIN_SHARE_MS = 250;

/**
 * The supplier set of operator-given URLs. Each call goes to one supplier after another, by cause, until a good answer
 * is there or attempts or time run out; a free call then gets the last error that a supplier gave, if one did. Filter calls and calls that the catalogue does not declare (they may write) are
 * sent once.
 *
 * @throws AppError CONFIG_INVALID for a URL that is none, or a service that the catalogue does not have
 */
export function createDirectRelay(options: DirectRelayOptions, modules: DirectRelayModules): DirectRelay {
  return new SupplierSets(options, modules);
}

class SupplierSets implements DirectRelay {
  readonly #options: DirectRelayOptions;
  readonly #modules: DirectRelayModules;
  readonly #pools = new Map<string, Pool>();
  readonly #sets = new Map<ServiceId, SupplierSet>();
  readonly #prober: Prober;
  readonly #closing = new AbortController();
  readonly #budget: ByteBudget;
  #inFlight = 0;
  #heldBytes = 0;

  constructor(options: DirectRelayOptions, modules: DirectRelayModules) {
    this.#options = options;
    this.#modules = modules;
    this.#budget = {
      take: (bytes) => {
        if (this.#heldBytes + bytes > options.maxInFlightBytes) return false;
        this.#heldBytes += bytes;
        modules.metrics.set(IN_FLIGHT_BYTES, this.#heldBytes);
        return true;
      },
      give: (bytes) => {
        if (bytes === 0) return;
        this.#heldBytes -= bytes;
        modules.metrics.set(IN_FLIGHT_BYTES, this.#heldBytes);
      },
    };
    for (const [id, config] of Object.entries(options.suppliers)) this.#addSet(id as ServiceId, config);
    const targets = [...this.#sets.values()].flatMap((set) => [...set.targets.values()].flat());
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
        list.push(
          new Target(
            {
              service,
              operator,
              rpcType,
              url,
              headers,
              maxAnswerBytes,
              maxCheckedBytes,
              probeTimeoutMs,
              quality: DEFAULT_QUALITY,
            },
            { ...this.#modules, pool: this.#poolOf(id, url), budget: this.#budget },
          ),
        );
      }
    }
    this.#sets.set(id, { service, config, targets, flights: new Flights() });
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
    const targets = [...(this.#sets.get(id)?.targets.values() ?? [])].flat();
    if (targets.length === 0) return undefined;
    if (targets.some((target) => target.isHealthy)) return [];
    return [targets.every((target) => target.isWrongChain) ? "a supplier of the right chain" : "a healthy supplier"];
  }

  async send(request: PaidRequest | FreeRequest, signal?: AbortSignal): Promise<RelayResult> {
    const { serviceId } = request.request;
    const admitted = this.#admit(serviceId);
    if (!("targets" in admitted)) return admitted;
    this.#countInFlight(1);
    try {
      return this.#counted(serviceId, await this.#shared(admitted, request, signal));
    } finally {
      this.#countInFlight(-1);
    }
  }

  async sendBatch(requests: readonly FreeRequest[], signal?: AbortSignal): Promise<readonly RelayResult[]> {
    const [first] = requests;
    if (first === undefined) return [];
    const { serviceId } = first.request;
    const admitted = this.#admit(serviceId);
    if (!("targets" in admitted)) return requests.map(() => admitted);
    this.#countInFlight(1);
    try {
      const { config, service } = admitted;
      const results = await relayBatch(requests, {
        timeoutMs: config.timeoutMs,
        maxAttempts: config.maxAttempts,
        clock: this.#modules.clock,
        mayBatch: (call) => mayBatch(call, service),
        ended: () => signal?.aborted === true || this.#closing.signal.aborted,
        closing: () => (this.#closing.signal.aborted ? this.#closing.signal : signal),
        order: (call) => {
          const usable = this.#usable(admitted, call.rpcType);
          return this.#candidates(admitted, usable, call, undefined).filter(({ family }) => !family.isLegacyRpc);
        },
        single: (request, before) => this.#relay(admitted, request, signal, before),
        verify: (target, timeoutMs) => this.#verify(target, timeoutMs),
        exchange: (target, call, body, timeoutMs, scale) => target.exchange(call, body, timeoutMs, signal, scale),
        record: (target, call, startMs, result) => void this.#record(target, call, startMs, result),
      });
      return results.map((result) => this.#counted(serviceId, result));
    } finally {
      this.#countInFlight(-1);
    }
  }

  async notify(request: FreeRequest, signal?: AbortSignal): Promise<void> {
    const { serviceId, call } = request.request;
    const admitted = this.#admit(serviceId);
    if (!("targets" in admitted)) return;
    const { clock } = this.#modules;
    const ordered = this.#candidates(admitted, this.#usable(admitted, call.rpcType), call, undefined);
    this.#countInFlight(1);
    try {
      for (const target of ordered.slice(0, admitted.config.maxAttempts)) {
        const leftMs = Math.min(admitted.config.timeoutMs, request.deadlineMs - clock.monotonicMs());
        if (leftMs <= 0 || signal?.aborted === true) return;
        if ((await this.#verify(target, leftMs)) !== undefined) continue;
        const result = await target.exchange(call, call.body, leftMs, signal);
        if (result.ok || !result.isUnsent) return;
      }
    } finally {
      this.#countInFlight(-1);
    }
  }

  /** The service's suppliers; or why nothing is sent now. */
  #admit(serviceId: ServiceId): SupplierSet | RelayFailure {
    const set = this.#sets.get(serviceId);
    if (this.#closing.signal.aborted) return this.#refuse(serviceId, "SHUTTING_DOWN");
    if (set === undefined) return this.#refuse(serviceId, "NO_SUPPLIERS");
    return this.#inFlight >= this.#options.maxInFlight ? this.#refuse(serviceId, "OVERLOADED") : set;
  }

  #countInFlight(change: 1 | -1): void {
    this.#inFlight += change;
    this.#modules.metrics.set(IN_FLIGHT, this.#inFlight);
  }

  #counted(service: ServiceId, result: RelayResult): RelayResult {
    this.#modules.metrics.count(RELAYS, { service, result: result.ok ? "ok" : result.code });
    return result;
  }

  #refuse(serviceId: ServiceId, code: ErrorCode): RelayFailure {
    // An id that is not served must not become a label.
    this.#modules.metrics.count(RELAYS, { service: this.#sets.has(serviceId) ? serviceId : "unknown", result: code });
    return { ok: false, code, attempts: 0 };
  }

  async #relay(
    set: SupplierSet,
    request: PaidRequest | FreeRequest,
    signal: AbortSignal | undefined,
    before?: EarlierAttempt,
  ): Promise<RelayResult> {
    const { call } = request.request;
    const { clock, random } = this.#modules;
    const { service, config } = set;
    const isFree = !("settlementId" in request);
    const operation = service.operations.get(call.operation);
    const usable = this.#usable(set, call.rpcType);
    const ordered = this.#candidates(set, usable, call, operation);
    let last = before?.error;
    if (last !== undefined) removeWhere(ordered, (target) => target.operator === before?.operator);
    else if (ordered.length === 0) return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
    const body = operation?.filter === "use" ? bodyForMaker(call) : call.body;
    const isOnce = isSentOnce(call, operation);
    const { maxAttempts } = config;
    const tally: Tally = { attempts: 0, failures: [] };
    const asked = new Set<string>(before === undefined ? [] : [before.operator]);
    let again = usable.length > 0 && !isOnce && maxAttempts > 1 && last === undefined;
    while (tally.attempts < maxAttempts && signal?.aborted !== true && !this.#closing.signal.aborted) {
      const nowMs = clock.monotonicMs();
      if (nowMs >= request.deadlineMs) break;
      if (ordered.length === 0) {
        // A kept connection may have been closed as the call was sent: one more round, after failures on the wire only.
        if (!again || tally.failures.at(-1)?.reason !== "connection") break;
        again = false;
        asked.clear();
        ordered.push(
          ...orderTargets({ targets: usable, operation: call.operation, neededHeightBlocks: undefined, nowMs, random }),
        );
      }
      const target = takeNext(ordered, asked);
      if (target === undefined) break;
      asked.add(target.operator);
      const attemptsLeft = isOnce ? 1 : Math.min(maxAttempts - tally.attempts, ordered.length + 1);
      const leftMs = request.deadlineMs - nowMs;
      const shareMs = Math.min(config.timeoutMs, leftMs, Math.max(MIN_SHARE_MS, leftMs / attemptsLeft));
      const result = await this.#attempt(target, call, operation, body, shareMs, signal, isFree);
      if (result === "wrong_chain") continue;
      tally.attempts++;
      const { operator } = target;
      if (result.kind === "good") {
        const { status, contentType, good } = result;
        const type = call.id === undefined ? contentType : "application/json";
        const answer = { status: call.id === undefined ? status : 200, contentType: type, body: good.body };
        return { ok: true, relayed: mintRelayed({ request, ...answer, schemaCheck: good.schemaCheck, operator }) };
      }
      tally.failures.push(result);
      if (result.errorBody !== undefined) last = errorOf(call, result, result.errorBody, operator);
      if (result.reason === "overloaded" || (isOnce && result.isUnsent !== true)) break;
    }
    if (last !== undefined && isFree) {
      return { ok: true, relayed: mintRelayed({ request, ...last, schemaCheck: "unchecked" }) };
    }
    const isLate = clock.monotonicMs() >= request.deadlineMs;
    const closing = this.#closing.signal.aborted ? this.#closing.signal : signal;
    return { ok: false, code: failureCode(tally, isLate, closing), attempts: tally.attempts };
  }

  /** Relays a call; equal reads of the free relay that are in flight together are one. */
  #shared(set: SupplierSet, request: PaidRequest | FreeRequest, signal: AbortSignal | undefined): Promise<RelayResult> {
    const { call } = request.request;
    const run = (): Promise<RelayResult> => this.#relay(set, request, signal);
    if ("settlementId" in request) return run();
    if (!mayBatch(call, set.service)) return run().finally(() => set.flights.forget());
    const key = flightKey(call);
    return key === undefined ? run() : set.flights.join(key, request, signal, run);
  }

  #usable(set: SupplierSet, rpcType: RpcType): readonly Target[] {
    return (set.targets.get(rpcType) ?? []).filter((target) => !target.isWrongChain);
  }

  #candidates(
    set: SupplierSet,
    usable: readonly Target[],
    call: BackendCall,
    operation: Operation | undefined,
  ): Target[] {
    if (operation?.filter === "use" && usable.length > 0) {
      const id = firstParam(call);
      const tagged = untagFilterId(id);
      // Never another supplier than the maker: its filter of the same id would be somebody else's.
      const maker =
        tagged === undefined
          ? usable[filterIdHash(id) % usable.length]
          : usable.find((target) => target.tag === tagged.tag);
      return maker === undefined ? [] : [maker];
    }
    return orderTargets({
      targets: usable,
      operation: call.operation,
      neededHeightBlocks: neededHeight(usable, set.service.syncAllowanceBlocks),
      nowMs: this.#modules.clock.monotonicMs(),
      random: this.#modules.random,
    });
  }

  async #attempt(
    target: Target,
    call: BackendCall,
    operation: Operation | undefined,
    body: Uint8Array | undefined,
    shareMs: number,
    signal: AbortSignal | undefined,
    isFree: boolean,
  ): Promise<AttemptResult | "wrong_chain"> {
    const { clock } = this.#modules;
    const startMs = clock.monotonicMs();
    const unverified = await this.#verify(target, shareMs);
    if (unverified === "wrong_chain") return unverified;
    if (unverified !== undefined) return this.#record(target, call, startMs, unverified);
    const leftMs = shareMs - (clock.monotonicMs() - startMs);
    let result = await target.attempt(call, body, leftMs, signal, { isFree });
    if (result.kind === "good" && operation?.filter === "create" && !result.good.isError) {
      const id = tagFilterId(target.tag, result.good.result);
      const span = findMembers(result.good.body)?.get("result");
      result =
        id === undefined || span === undefined
          ? { kind: "bad", blame: "supplier", reason: "schema" }
          : { ...result, good: { ...result.good, body: replaceSpan(result.good.body, span, JSON.stringify(id)) } };
    }
    if (result.kind === "bad" && result.retryAfterMs !== undefined) {
      target.quality.restUntil(clock.monotonicMs(), result.retryAfterMs);
    }
    return this.#record(target, call, startMs, result);
  }

  /** Probes a supplier that no call may go to before; undefined when calls may. */
  async #verify(target: Target, timeoutMs: number): Promise<BadAnswer | "wrong_chain" | undefined> {
    if (target.isVerified) return undefined;
    const isProbed = await within(target.probe(this.#closing.signal), timeoutMs);
    if (target.isWrongChain) return "wrong_chain";
    if (target.isVerified) return undefined;
    return { kind: "bad", blame: "wire", reason: isProbed ? "connection" : "timeout", isUnsent: true };
  }

  #record(target: Target, call: BackendCall, startMs: number, result: AttemptResult): AttemptResult {
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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AppError("SHUTTING_DOWN"));
    await this.#prober[Symbol.asyncDispose]();
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }
}
