import type { Clock } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { RpcType } from "@turnpike/protocol";
import { DEFAULT_CROSS_CHECK } from "./cross-check.ts";
import { filterIdHash, firstParam, untagFilterId } from "./filters.ts";
import type { Flights } from "./flights.ts";
import type { Job } from "./job.ts";
import { DEFAULT_LOG_RANGES } from "./log-ranges.ts";
import type { DirectSuppliers } from "./options.ts";
import { neededHeight, orderTargets } from "./selection.ts";
import type { Target } from "./target.ts";

/** What a {@link SupplierSet} works with. */
export interface SupplierSetModules {
  readonly service: Service;
  readonly config: DirectSuppliers;
  readonly targets: ReadonlyMap<RpcType, readonly Target[]>;
  readonly flights: Flights;
  readonly clock: Clock;
  /** A number of [0, 1). */
  readonly random: () => number;
}

/** The suppliers of one service, and in which order they are asked. */
export class SupplierSet {
  readonly service: Service;
  readonly config: Required<DirectSuppliers>;
  readonly targets: ReadonlyMap<RpcType, readonly Target[]>;
  readonly flights: Flights;
  readonly #modules: SupplierSetModules;

  constructor(modules: SupplierSetModules) {
    this.service = modules.service;
    this.config = { crossCheck: DEFAULT_CROSS_CHECK, logRanges: DEFAULT_LOG_RANGES, ...modules.config };
    this.targets = modules.targets;
    this.flights = modules.flights;
    this.#modules = modules;
  }

  /** All suppliers, of every way of speaking. */
  all(): readonly Target[] {
    return [...this.targets.values()].flat();
  }

  /** Suppliers that a call of this kind may go to. */
  usable(rpcType: RpcType): readonly Target[] {
    return (this.targets.get(rpcType) ?? []).filter((target) => !target.isWrongChain);
  }

  /** Suppliers for a job, the best first; of a call that uses a filter, the one that holds it. The caller's own list. */
  order({ call, operation }: Pick<Job, "call" | "operation">): Target[] {
    const usable = this.usable(call.rpcType);
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
      neededHeightBlocks: neededHeight(usable, this.service.syncAllowanceBlocks),
      nowMs: this.#modules.clock.monotonicMs(),
      random: this.#modules.random,
    });
  }
}
