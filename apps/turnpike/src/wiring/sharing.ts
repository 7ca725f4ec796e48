import { randomUUID } from "node:crypto";
import { type Bus, joinBuses, noBus } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  type LimitStore,
  type Port,
  PortStore,
  RedisBus,
  type ReloadResult,
  WorkerBus,
  withFallback,
} from "@turnpike/gateway";
import { UnpaidSharing } from "@turnpike/payment";
import { Gossip, gossipDefaults, type RelayEngine, SharedControl } from "@turnpike/relay";
import { createLimitStore } from "./limits.ts";
import type { PartModules } from "./modules.ts";
import { workersOf } from "./worker-share.ts";

/** What makes a gateway one of several workers. */
export interface WorkerPart {
  /** Its id among all processes. */
  readonly id: string;
  /** Name of the workers of this machine. */
  readonly group: string;
  /** To the primary. */
  readonly port: Port;
  /** Asks the primary to reload all workers. */
  readonly reload: () => Promise<ReloadResult>;
}

/** Longest wait for the counts that the primary holds. It does little else, so it answers within a millisecond or is gone. */
const COUNTS_TIMEOUT_MS = 1_000;

/** The bus to the other processes of the deployment: workers of this machine, and all processes on the same Redis. */
export function openBus(
  config: Config,
  modules: PartModules,
  stack: AsyncDisposableStack,
  worker: WorkerPart | undefined,
): Bus {
  const { url, keyPrefix, timeoutMs } = config.redis;
  const id = worker?.id ?? randomUUID();
  const local = worker === undefined ? undefined : new WorkerBus({ id }, { ...modules, port: worker.port });
  if (url === undefined) return local ?? noBus;
  const group = worker === undefined ? {} : { group: worker.group };
  const remote = stack.use(new RedisBus({ url, keyPrefix, id, timeoutMs, ...group }, modules));
  return local === undefined ? remote : joinBuses(local, remote);
}

/** The store that limits are shared through: Redis, the primary, or Redis with the primary behind it. Undefined: none. */
export function openLimitStore(
  config: () => Config,
  modules: PartModules,
  stack: AsyncDisposableStack,
  worker: WorkerPart | undefined,
): LimitStore | undefined {
  const redis = createLimitStore(config(), modules, stack);
  if (worker === undefined) return redis;
  const counts = stack.use(new PortStore({ timeoutMs: COUNTS_TIMEOUT_MS }, { ...modules, port: worker.port }));
  if (redis === undefined) return counts;
  const isLocal = (): boolean => {
    const { perClient, perEndpoint } = config().limits;
    return perClient.onStoreFailure === "local" && perEndpoint.onStoreFailure === "local";
  };
  return withFallback(redis, counts, isLocal);
}

/** Shares tokens of payments that do not pay with the other machines of a Redis; undefined without one. */
export function openUnpaidSharing(
  config: Config,
  bus: Bus,
  stack: AsyncDisposableStack,
  worker: WorkerPart | undefined,
): UnpaidSharing | undefined {
  if (config.redis.url === undefined) return undefined;
  const workers = worker === undefined ? 1 : workersOf(config);
  return stack.use(new UnpaidSharing({ group: worker?.group ?? bus.id, workers }, { bus }));
}

/** Shares what the relay learns and what operators change, while it runs. */
export interface RelaySharing {
  readonly control: SharedControl;
  readonly gossip: Gossip;
}

/** Begins to share. `relay` is the one in effect: a reload replaces it. */
export function openRelaySharing(
  relay: () => RelayEngine,
  modules: PartModules & { readonly bus: Bus },
  stack: AsyncDisposableStack,
): RelaySharing {
  // A reload's relay goes on with the memory of the one before.
  const { memory } = relay();
  const gossip = stack.use(new Gossip(gossipDefaults, { ...modules, source: memory }));
  memory.listener = gossip;
  const { refreshMs } = gossipDefaults;
  const control = stack.use(new SharedControl({ refreshMs }, { ...modules, control: relay }));
  gossip.start();
  control.start();
  return { control, gossip };
}
