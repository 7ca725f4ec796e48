import type { Clock } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { RpcType } from "@turnpike/protocol";
import { historyKindOf, neededHeights } from "../chain-view/archive.ts";
import type { ServiceMemory } from "../memory.ts";
import { DEFAULT_SELECTION, SupplierPool } from "../quality/selection.ts";
import type { ServiceView } from "../types.ts";
import { DEFAULT_CROSS_CHECK } from "./cross-check.ts";
import { firstParam, untagFilterId } from "./filters.ts";
import { Flights } from "./flights.ts";
import { type Job, rememberedName } from "./job.ts";
import { DEFAULT_LOG_RANGES } from "./log-ranges.ts";
import type { ServiceSuppliers } from "./options.ts";
import type { Target } from "./target.ts";

/** Options of a {@link ServiceContext}. */
export interface ServiceContextOptions {
  readonly service: Service;
  readonly config: ServiceSuppliers;
  /** Part of the first attempts that one operator gets at most. */
  readonly maxOperatorShare: number;
}

/** What a {@link ServiceContext} works with. */
export interface ServiceContextModules {
  readonly targets: ReadonlyMap<RpcType, readonly Target[]>;
  readonly memory: ServiceMemory;
  readonly clock: Clock;
  /** A number of [0, 1). */
  readonly random: () => number;
}

/** The suppliers of one service, what is known of them and their chain, and in which order they are asked. */
export class ServiceContext {
  readonly service: Service;
  readonly config: Required<ServiceSuppliers>;
  readonly memory: ServiceMemory;
  readonly flights = new Flights();
  readonly #pools = new Map<RpcType, SupplierPool<Target>>();
  readonly #clock: Clock;

  constructor(options: ServiceContextOptions, modules: ServiceContextModules) {
    const { targets, memory, clock, random } = modules;
    this.service = options.service;
    this.config = { crossCheck: DEFAULT_CROSS_CHECK, logRanges: DEFAULT_LOG_RANGES, ...options.config };
    this.memory = memory;
    this.#clock = clock;
    const selection = { ...DEFAULT_SELECTION, maxOperatorShare: options.maxOperatorShare };
    for (const [rpcType, members] of targets) {
      this.#pools.set(rpcType, new SupplierPool({ ...selection, members }, { random }));
    }
  }

  /** All suppliers, of every way of speaking. */
  all(): readonly Target[] {
    return [...this.#pools.values()].flatMap(({ members }) => members);
  }

  /** Suppliers for a job, the best first; of a call that uses a filter, the one that holds it. The caller's own list. */
  order(job: Pick<Job, "call" | "filter" | "client" | "refs">): Target[] {
    const { call, filter, refs } = job;
    const pool = this.#pools.get(call.rpcType);
    if (pool === undefined) return [];
    if (filter === "use") return makerOf(job, pool.members);
    const nowMs = this.#clock.monotonicMs();
    const ordered = pool.order(rememberedName(call), nowMs);
    if (refs === undefined || ordered.length < 2) return ordered;
    const { view, archive } = this.memory;
    const tip = view.newest(nowMs);
    const needed = tip === undefined ? undefined : neededHeights(refs, tip);
    if (tip === undefined || needed === undefined) return ordered;
    const { lowestBlocks, highestBlocks } = needed;
    const isOld = archive.isOld(lowestBlocks, tip);
    if (!isOld && highestBlocks >= tip && !refs.some((ref) => "height" in ref)) return ordered;
    const kind = historyKindOf(rememberedName(call));
    const rankOf = ({ operator }: Target): number => {
      if (view.isBeyond(operator, highestBlocks, nowMs)) return 2;
      if (!isOld) return 0;
      const holding = archive.holding(operator, kind, lowestBlocks, nowMs);
      return holding === "has" ? 0 : holding === "unknown" ? 1 : 2;
    };
    const ranks = new Map(ordered.map((target) => [target, rankOf(target)]));
    return ordered.sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
  }

  /** Declared operations that no supplier has: each that could be asked has said so of late. */
  missingMethods(nowMs: number): ReadonlySet<string> {
    const names = new Set<string>();
    for (const { name, rpcType } of this.service.operations.values()) {
      const members = this.#pools.get(rpcType)?.members ?? [];
      const usable = members.filter(({ isDrained, isWrongChain }) => !isDrained && !isWrongChain);
      if (usable.length > 0 && usable.every(({ quality }) => quality.isLacking(name, nowMs))) names.add(name);
    }
    return names;
  }

  /** What is known of it, for its operator. */
  inspect(nowMs: number): ServiceView {
    const { view } = this.memory;
    return {
      id: this.service.id,
      tipBlocks: view.tip(nowMs),
      finalBlocks: view.final(nowMs),
      suppliers: this.all().map(({ operator, rpcType, host, quality, health, isDrained }) => {
        const { score, breaker, latencyMs } = quality.view(nowMs);
        const { isHealthy, isWrongChain } = health;
        const heightBlocks = view.heightOf(operator, nowMs);
        return { operator, rpcType, host, score, breaker, isDrained, isHealthy, isWrongChain, latencyMs, heightBlocks };
      }),
    };
  }

  /** Operators that a job may go to with good hope. */
  fit({ call }: Pick<Job, "call">): number {
    return this.#pools.get(call.rpcType)?.fit(rememberedName(call), this.#clock.monotonicMs()) ?? 0;
  }

  /** Something was written: what is asked from now on must not get an answer from before. */
  wrote(): void {
    this.flights.forget();
    this.memory.view.wrote();
  }
}

/** The supplier that holds a filter of this client: never another, whose filter of the same id would be somebody else's. */
function makerOf({ call, client }: Pick<Job, "call" | "client">, members: readonly Target[]): Target[] {
  const tagged = untagFilterId(client, firstParam(call));
  const maker = members.find(({ tag, isWrongChain }) => tag === tagged?.tag && !isWrongChain);
  return maker === undefined || maker.isDrained ? [] : [maker];
}
