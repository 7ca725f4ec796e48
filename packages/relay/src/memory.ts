import type { Clock, Log, Metrics, ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { RpcType } from "@turnpike/protocol";
import { AnswerCache } from "./cache/answer-cache.ts";
import type { ServiceCache } from "./cache/service-cache.ts";
import { Archive } from "./chain-view/archive.ts";
import { ChainView } from "./chain-view/chain-view.ts";
import { relayBreakerOpen, relaySupplierHealthy } from "./metrics.ts";
import type { GossipSource, SharedHeight, SharedQuality } from "./quality/gossip.ts";
import { DEFAULT_LATENCY, LatencyTracker } from "./quality/latency.ts";
import { DEFAULT_QUALITY, SupplierQuality } from "./quality/supplier-quality.ts";
import type { RelayFlag } from "./types.ts";

interface RelayMemoryOptions {
  /** Bytes of kept answers; 0 keeps none. */
  readonly maxCacheBytes: number;
  /** Longest time for which an answer about the newest block is kept; 0: not at all. */
  readonly maxHeadAgeMs: number;
}

interface RelayMemoryModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What was learned of one service. */
export interface ServiceMemory {
  readonly view: ChainView;
  readonly archive: Archive;
  readonly latency: LatencyTracker;
  readonly cache: ServiceCache;
  /** Operators that were taken out by hand. */
  readonly drained: Set<string>;
  readonly qualities: Map<string, SupplierQuality>;
}

/** Notified of what other processes should know at once. A `Gossip` is one. */
export interface MemoryListener {
  /** A client was shown a higher block than any before. */
  heightServed(serviceId: ServiceId, heightBlocks: number): void;
  /** A breaker has changed. */
  publishSoon(): void;
}

/**
 * What a relay has learned, and what its operator has set while it runs. It outlives the relay: after a change of the
 * configuration the next one goes on from here.
 */
export class RelayMemory implements GossipSource {
  /** Undefined: this process is alone. */
  listener: MemoryListener | undefined;
  readonly cache: AnswerCache;
  readonly flags: Record<RelayFlag, boolean> = {
    cache: true,
    hedging: true,
    cross_validation: true,
    log_splitting: true,
  };
  readonly #modules: RelayMemoryModules;
  readonly #services = new Map<string, { readonly identity: string; readonly memory: ServiceMemory }>();

  constructor(options: RelayMemoryOptions, modules: RelayMemoryModules) {
    this.#modules = modules;
    const { maxCacheBytes: maxBytes, maxHeadAgeMs: headAgeMs } = options;
    this.cache = new AnswerCache({ maxBytes, headAgeMs }, modules);
  }

  /** What was learned of a service. When it has become another chain, everything begins anew. */
  of(service: Service): ServiceMemory {
    const { id, evmChainId, chainId, families, syncAllowanceBlocks } = service;
    const identity = JSON.stringify([families, evmChainId, chainId, syncAllowanceBlocks]);
    const known = this.#services.get(id);
    if (known?.identity === identity) return known.memory;
    const view = new ChainView(syncAllowanceBlocks === undefined ? {} : { syncAllowanceBlocks }, (heightBlocks) =>
      this.listener?.heightServed(id, heightBlocks),
    );
    const memory: ServiceMemory = {
      view,
      archive: new Archive(),
      latency: new LatencyTracker(DEFAULT_LATENCY),
      cache: this.cache.open(id, view),
      drained: new Set(),
      qualities: new Map(),
    };
    this.#services.set(id, { identity, memory });
    return memory;
  }

  /** All that is held for or against an operator's way of speaking to a service. */
  quality(service: Service, operator: string, rpcType: RpcType): SupplierQuality {
    const { qualities } = this.of(service);
    const key = `${rpcType} ${operator}`;
    const known = qualities.get(key);
    if (known !== undefined) return known;
    const { metrics, log } = this.#modules;
    const labels = { service: service.id, operator, rpc_type: rpcType };
    metrics.set(relayBreakerOpen, 0, labels);
    const made = new SupplierQuality(DEFAULT_QUALITY, {
      onBreaker: (state, openForMs) => {
        this.listener?.publishSoon();
        metrics.set(relayBreakerOpen, state === "open" ? 1 : 0, labels);
        const fields = { service: service.id, operator, rpcType, breaker: state, openForMs: Math.round(openForMs) };
        if (state === "open") log.warn(fields, "a supplier's breaker has opened");
        else log.info(fields, "a supplier's breaker has changed");
      },
    });
    qualities.set(key, made);
    return made;
  }

  /** What is shared with other processes about suppliers. */
  *qualities(): Iterable<SharedQuality> {
    for (const [id, { memory }] of this.#services) {
      for (const [name, quality] of memory.qualities) {
        yield {
          key: JSON.stringify([id, name]),
          snapshot: (nowMs) => quality.snapshot(nowMs),
          absorb: (snapshot, fromId, nowMs) => quality.absorb(snapshot, fromId, nowMs),
        };
      }
    }
  }

  /** What is shared with other processes about chains. */
  *heights(): Iterable<SharedHeight> {
    for (const [id, { memory }] of this.#services) {
      const { view } = memory;
      yield {
        serviceId: id as ServiceId,
        served: (nowMs) => view.served(nowMs),
        wasServed: (heightBlocks, nowMs) => view.wasServed(heightBlocks, nowMs),
      };
    }
  }

  /** True for an operator that was taken out of a service by hand. */
  isDrained(id: string, operator: string): boolean {
    return this.#services.get(id)?.memory.drained.has(operator) ?? false;
  }

  /** Removes services and operators that are not configured any more, and their metrics. */
  keepOnly(services: ReadonlyMap<string, ReadonlySet<string>>): void {
    for (const [id, { memory }] of this.#services) {
      const operators = services.get(id);
      for (const key of memory.qualities.keys()) {
        const [rpcType, operator] = splitKey(key);
        if (operators?.has(operator) === true) continue;
        memory.qualities.delete(key);
        const labels = { service: id, operator, rpc_type: rpcType };
        for (const gauge of [relayBreakerOpen, relaySupplierHealthy]) this.#modules.metrics.remove?.(gauge, labels);
      }
      for (const operator of memory.drained) if (operators?.has(operator) !== true) memory.drained.delete(operator);
      if (operators !== undefined) continue;
      memory.cache.close();
      this.#services.delete(id);
    }
  }

  /** Removes services that are not there any more; of the others all operators are kept. */
  keepServices(services: { has(id: ServiceId): boolean }): void {
    const operators = new Map<string, ReadonlySet<string>>();
    for (const [id, { memory }] of this.#services) {
      if (!services.has(id as ServiceId)) continue;
      const known = [...memory.qualities.keys()].map((key) => splitKey(key)[1]);
      operators.set(id, new Set([...known, ...memory.drained]));
    }
    this.keepOnly(operators);
  }
}

/** Way of speaking and operator, of a key of `qualities`. */
function splitKey(key: string): readonly [rpcType: string, operator: string] {
  const at = key.indexOf(" ");
  return [key.slice(0, at), key.slice(at + 1)];
}
