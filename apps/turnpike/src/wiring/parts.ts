import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { ServiceId } from "@turnpike/base";
import { type Catalogue, type RegisteredService, withRegistered, withSale } from "@turnpike/catalogue";
import type { Config } from "@turnpike/config";
import type { GatewayParts, LimitStore, OfferedOptions } from "@turnpike/gateway";
import type { RelayEngine, SessionSuppliers, Subscriptions } from "@turnpike/relay";
import { createLimits } from "./limits.ts";
import { createRelay, createSockets, type RelayModules } from "./relay.ts";

/** Longest wait for the first probes of new suppliers. */
const PROBE_WAIT_MS = 3_000;

/** Replaced configurations that requests may still use; another reload waits until there are fewer. */
const MAX_OLD = 8;

/** So many of them may come from changes on the chain, so that a reload by the operator finds room. */
const MAX_OLD_REFRESHED = 4;

/** The parts of one configuration. */
export interface LiveParts extends GatewayParts {
  readonly relay: RelayEngine;
  readonly subscriptions: Subscriptions;
  /** The catalogue without what is only registered on the chain. */
  readonly base: Catalogue;
  /** What the chain had registered. */
  readonly registered: readonly RegisteredService[];
}

/** The parts that a running gateway uses, over its configurations. Owns relays and subscriptions. */
export interface PartsOwner extends AsyncDisposable {
  readonly current: LiveParts;
  /** False while requests use so many replaced configurations that only a reload may replace one more. */
  readonly canRefresh: boolean;
  /**
   * Builds the parts of another configuration, and of the services that are registered now; what neither changes is used
   * again. New suppliers are probed first. Waits while too many replaced ones are in use; none is ended for that.
   * @throws AppError CONFIG_INVALID, with nothing changed.
   */
  prepare(config: Config, catalogue: Catalogue): Promise<LiveParts>;
  /** Puts prepared parts in the place of the current ones, which end once `released` has resolved. */
  put(parts: LiveParts, config: Config, released: Promise<void>): void;
  /** Ends prepared parts that are not put into place. */
  drop(parts: LiveParts): Promise<void>;
}

export interface PartsModules extends RelayModules {
  readonly store: LimitStore | undefined;
  readonly options: OfferedOptions;
  /** Services that only the chain has, and those whose owners the rule of sale names; another list each time that they have changed. */
  readonly registered?: () => readonly RegisteredService[];
}

const NOTHING_REGISTERED: readonly RegisteredService[] = [];

const same = (a: Config, b: Config, read: (config: Config) => unknown): boolean => isDeepStrictEqual(read(a), read(b));

function withServices(base: Catalogue, registered: readonly RegisteredService[], config: Config): Catalogue {
  const { catalogue, protocol } = config;
  const own = new Set([...Object.keys(catalogue.services), ...protocol.refuseServices]);
  const all = registered.length === 0 ? base : withRegistered(base, registered, { own });
  if (protocol.sell === "all") return all;
  const services = new Set<string>(protocol.sellServices);
  const owners = new Set<string>(protocol.sellOwners);
  for (const { id, ownerAddress } of registered) if (owners.has(ownerAddress)) services.add(id);
  return withSale(all, (id) => services.has(id));
}

const rules = ({ protocol: { refuseServices, sell, sellServices, sellOwners } }: Config): unknown => [
  refuseServices,
  sell,
  sellServices,
  sellOwners,
];

function operatorsOf({ suppliers }: Config, sessions: SessionSuppliers | undefined): Map<string, ReadonlySet<string>> {
  const found = new Map<string, ReadonlySet<string>>(sessions?.operators());
  for (const [id, { endpoints }] of Object.entries(suppliers)) {
    found.set(id, new Set([...(found.get(id) ?? []), ...endpoints.map(({ operator }) => operator)]));
  }
  return found;
}

/** The parts of a gateway's first configuration. @throws AppError CONFIG_INVALID. */
export function createParts(start: Config, base: Catalogue, modules: PartsModules): PartsOwner {
  const { store, options, sessions, registered: readRegistered = () => NOTHING_REGISTERED } = modules;
  const registered = readRegistered();
  const catalogue = withServices(base, registered, start);
  const users = new Map<AsyncDisposable, number>();
  const retiring = new Set<Promise<void>>();
  let config = start;

  const held = new Set<LiveParts>();
  let preparing: Catalogue | undefined;
  /** Services of the parts that are in use or will be. */
  const served = {
    has: (id: ServiceId): boolean => [...held, { catalogue: preparing }].some((one) => one.catalogue?.services.has(id)),
  };

  const hold = (parts: LiveParts): void => {
    held.add(parts);
    for (const part of [parts.relay, parts.subscriptions]) users.set(part, (users.get(part) ?? 0) + 1);
  };
  const release = async (parts: LiveParts): Promise<void> => {
    held.delete(parts);
    for (const part of [parts.subscriptions, parts.relay]) {
      const left = (users.get(part) ?? 1) - 1;
      if (left > 0) users.set(part, left);
      else {
        users.delete(part);
        await part[Symbol.asyncDispose]();
      }
    }
  };
  const first = createRelay(start, catalogue, modules);
  let current: LiveParts = {
    catalogue,
    relay: first,
    subscriptions: createSockets(start, base, modules, first),
    limits: createLimits(start, { ...modules, store }),
    options,
    base,
    registered,
  };
  hold(current);

  return {
    get current() {
      return current;
    },
    get canRefresh() {
      return retiring.size < MAX_OLD_REFRESHED;
    },
    async prepare(next, nextCatalogue) {
      const found = readRegistered();
      while (retiring.size >= MAX_OLD) await Promise.race(retiring);
      const isSame = (read: (one: Config) => unknown): boolean => same(config, next, read);
      const keepsBase = isSame((one) => one.catalogue);
      const keepsCatalogue = keepsBase && found === current.registered && isSame(rules);
      const nextBase = keepsBase ? current.base : nextCatalogue;
      const kept = keepsCatalogue ? current.catalogue : withServices(nextBase, found, next);
      preparing = kept;
      const keepsRelay = keepsBase && isSame((one) => [one.suppliers, one.relay, one.gateway.maxAnswerBytes]);
      const sockets = ({ suppliers }: Config): unknown =>
        Object.entries(suppliers).map(([id, { endpoints }]) => [
          id,
          endpoints.flatMap((one) =>
            one.urls.websocket === undefined ? [] : [[one.operator, one.urls.websocket, one.headers]],
          ),
        ]);
      await using made = new AsyncDisposableStack();
      const relay = keepsRelay ? current.relay : made.use(createRelay(next, kept, modules, current.relay));
      const subscriptions =
        keepsBase && isSame(sockets) ? current.subscriptions : made.use(createSockets(next, nextBase, modules, relay));
      const keepsCounts = isSame(({ limits }) => ({ ...limits, unpaid: undefined }));
      const limits = keepsCounts ? current.limits : createLimits(next, { ...modules, store });
      // What is only registered is added to the relay that runs: another one would probe all suppliers again.
      if (keepsRelay && sessions !== undefined) relay.add(kept.services, sessions.of(kept.services.keys()));
      if (relay !== current.relay) {
        const probed = relay.start().then(() => relay.survey());
        await Promise.race([probed, delay(PROBE_WAIT_MS, undefined, { ref: false })]);
      }
      made.move();
      const served = { catalogue: kept, base: nextBase, registered: found };
      const parts = { ...served, relay, subscriptions, options, ...(limits === undefined ? {} : { limits }) };
      hold(parts);
      preparing = undefined;
      return parts;
    },
    put(parts, nextConfig, released) {
      const before = current;
      const hasNewConfig = nextConfig !== config;
      current = parts;
      config = nextConfig;
      const retired = released
        .then(async () => {
          await release(before);
          current.relay.keepOnly(served);
          sessions?.keepOnly(served);
          if (hasNewConfig) current.relay.memory.keepOnly(operatorsOf(config, sessions));
          else current.relay.memory.keepServices(served);
        })
        .catch((error: unknown) => {
          modules.log.error({ error: String(error) }, "the parts of an old configuration could not be ended");
        });
      retiring.add(retired);
      void retired.finally(() => retiring.delete(retired));
    },
    drop: release,
    async [Symbol.asyncDispose]() {
      await Promise.all(retiring);
      await release(current);
    },
  };
}
