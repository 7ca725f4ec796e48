import type { Clock } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import { historyKindOf, neededHeights } from "../chain-view/archive.ts";
import type { ViewMember } from "../chain-view/chain-view.ts";
import { UNDECLARED } from "../families/free-call.ts";
import type { BlockRef } from "../families/method-traits.ts";
import type { ServiceMemory } from "../memory.ts";
import { DEFAULT_SELECTION, type SelectionOptions, SupplierPool } from "../quality/selection.ts";
import type { EmptyReason, SupplierSet } from "../suppliers/supplier-set.ts";
import type { SupplierEndpoint } from "../transport/transport.ts";
import type { ServiceView } from "../types.ts";
import { firstParam, untagFilterId } from "./filters.ts";
import { Multiplexer } from "./multiplexer.ts";
import type { ServiceRules } from "./options.ts";
import type { Target } from "./target.ts";

interface ServiceContextOptions {
  readonly service: Service;
  readonly rules: Required<ServiceRules>;
  /** Part of the first attempts that one operator gets at most. */
  readonly maxOperatorShare: number;
}

interface ServiceContextModules {
  readonly suppliers: SupplierSet;
  /** Makes the target of an endpoint. */
  readonly target: (endpoint: SupplierEndpoint) => Target;
  readonly memory: ServiceMemory;
  readonly clock: Clock;
  /** A number of [0, 1). */
  readonly random: () => number;
}

/** What decides which suppliers a call may go to. */
export interface SupplierQuery {
  readonly call: BackendCall;
  /** The blocks that it names; undefined where its family does not say. */
  readonly refs: readonly BlockRef[] | undefined;
  /** What it does with a filter. */
  readonly filter: "create" | "use" | undefined;
  /** The owner of its filters. */
  readonly client: string;
}

/** Targets that have come and gone. */
export interface TargetChange {
  readonly added: readonly Target[];
  readonly removed: readonly Target[];
}

/** The suppliers of one service, what is known of them and their chain, and in which order they are asked. */
export class ServiceContext {
  readonly service: Service;
  readonly rules: Required<ServiceRules>;
  readonly memory: ServiceMemory;
  readonly multiplexer = new Multiplexer();
  readonly #modules: ServiceContextModules;
  readonly #selection: SelectionOptions;
  readonly #clock: Clock;
  #targets: readonly Target[] = [];
  #pools = new Map<RpcType, SupplierPool<Target>>();

  constructor(options: ServiceContextOptions, modules: ServiceContextModules) {
    const { service, rules, maxOperatorShare } = options;
    this.service = service;
    this.rules = rules;
    this.memory = modules.memory;
    this.#modules = modules;
    this.#clock = modules.clock;
    this.#selection = { ...DEFAULT_SELECTION, maxOperatorShare };
    this.refresh();
  }

  /** Follows its supplier set. A target stays for as long as its back-end is there, with all that is known of it. */
  refresh(): TargetChange {
    const { suppliers, target, random } = this.#modules;
    const known = new Map(this.#targets.map((one) => [keyOf(one.endpoint), one]));
    const added: Target[] = [];
    const members = new Map<RpcType, Target[]>();
    for (const endpoint of suppliers.endpoints()) {
      // WebSockets are what subscriptions use.
      if (endpoint.rpcType === "websocket") continue;
      const key = keyOf(endpoint);
      let one = known.get(key);
      if (one === undefined) {
        one = target(endpoint);
        added.push(one);
      } else {
        one.endpoint = endpoint;
        known.delete(key);
      }
      const list = members.get(endpoint.rpcType);
      if (list === undefined) members.set(endpoint.rpcType, [one]);
      else list.push(one);
    }
    this.#targets = [...members.values()].flat();
    // While a session is followed by another there may be no supplier, which says nothing of the chain.
    if (this.#targets.length > 0) this.memory.view.setMembers(viewMembers(this.#targets));
    this.#pools = new Map(
      [...members].map(([rpcType, list]) => [
        rpcType,
        new SupplierPool({ ...this.#selection, members: list }, { random }),
      ]),
    );
    return { added, removed: [...known.values()] };
  }

  /** All suppliers, of every way of speaking. */
  all(): readonly Target[] {
    return this.#targets;
  }

  /** Why there is no supplier for a way of speaking, or for any; undefined when there is one. */
  whyEmpty(rpcType?: RpcType): EmptyReason | undefined {
    return this.#modules.suppliers.whyEmpty(rpcType);
  }

  /** Suppliers for a job, the best first; of a call that uses a filter, the one that holds it. The caller's own list. */
  order(query: SupplierQuery): Target[] {
    const { call, filter, refs } = query;
    const pool = this.#pools.get(call.rpcType);
    if (pool === undefined) return [];
    if (filter === "use") return creatorOf(query, pool.members);
    const nowMs = this.#clock.monotonicMs();
    const ordered = pool.order(methodKey(call), nowMs);
    if (refs === undefined || ordered.length < 2) return ordered;
    const { view, archive } = this.memory;
    const tip = view.newest(nowMs);
    const needed = tip === undefined ? undefined : neededHeights(refs, tip);
    if (tip === undefined || needed === undefined) return ordered;
    const { lowestBlocks, highestBlocks } = needed;
    const isOld = archive.isOld(lowestBlocks, tip);
    if (!isOld && highestBlocks >= tip && !refs.some((ref) => "height" in ref)) return ordered;
    const kind = historyKindOf(methodKey(call));
    const rankOf = ({ operator, isReserve }: Target): number => {
      if (view.isBeyond(operator, highestBlocks, nowMs)) return 2;
      if (!isOld) return 0;
      const holding = archive.holding(operator, kind, lowestBlocks, nowMs);
      // One in reserve goes before those that do not have it, not before those that may.
      if (holding === "has") return isReserve ? 1 : 0;
      return holding === "unknown" ? 1 : 2;
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
      suppliers: this.all().map(({ operator, rpcType, label, quality, health, isDrained }) => {
        const { score, breaker, latencyMs } = quality.view(nowMs);
        const { isHealthy, isWrongChain } = health;
        const heightBlocks = view.heightOf(operator, nowMs);
        return {
          operator,
          rpcType,
          host: label,
          score,
          breaker,
          isDrained,
          isHealthy,
          isWrongChain,
          latencyMs,
          heightBlocks,
        };
      }),
    };
  }

  /** Operators that are likely to answer a job. */
  fit({ call }: Pick<SupplierQuery, "call">): number {
    return this.#pools.get(call.rpcType)?.fit(methodKey(call), this.#clock.monotonicMs()) ?? 0;
  }

  /** After a write: later reads must not get an older answer. */
  wrote(): void {
    this.multiplexer.clear();
    this.memory.view.wrote();
  }
}

/** Operators of some targets, as they agree on heights. */
function viewMembers(targets: readonly Target[]): readonly ViewMember[] {
  const members = new Map<string, ViewMember>();
  for (const { operator, health } of targets) {
    const earlier = members.get(operator);
    members.set(operator, { operator, isProbed: health.hasProbe || earlier?.isProbed === true });
  }
  return [...members.values()];
}

/** Equal for endpoints of the same back-end, operator and RPC type. */
function keyOf({ operator, rpcType, backendKey }: SupplierEndpoint): string {
  return JSON.stringify([operator, rpcType, backendKey]);
}

/** The supplier that created this client's filter: at another one the id would be another client's filter. */
function creatorOf({ call, client }: Pick<SupplierQuery, "call" | "client">, members: readonly Target[]): Target[] {
  const tagged = untagFilterId(client, firstParam(call));
  const maker = members.find(({ tag, isWrongChain }) => tag === tagged?.tag && !isWrongChain);
  return maker === undefined || maker.isDrained ? [] : [maker];
}

/** Longer names are not recorded. */
const MAX_NAME_LENGTH = 64;

/**
 * The name under which it is recorded whether a supplier has a call's method. Undeclared methods have their own, since one
 * that a client made up says nothing about the others.
 */
export function methodKey({ method, operation }: Pick<BackendCall, "method" | "operation">): string {
  const isNamed = operation === UNDECLARED && method !== undefined && method.length <= MAX_NAME_LENGTH;
  return isNamed ? method : operation;
}
