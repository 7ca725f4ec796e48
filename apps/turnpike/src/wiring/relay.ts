import type { Catalogue } from "@turnpike/catalogue";
import { type Config, SUPPLIER_DEFAULTS, type SupplierConfig } from "@turnpike/config";
import {
  createRelayEngine,
  createSubscriptions,
  type RelayEngine,
  relayEngineBounds,
  type ServiceSuppliers,
  type SessionSuppliers,
  type SocketEndpoint,
  type Subscriptions,
} from "@turnpike/relay";
import type { PartModules } from "./modules.ts";

/** What a relay is made with. */
export interface RelayModules extends PartModules {
  /** Suppliers of the chain's sessions; without them there are static ones alone. */
  readonly sessions?: SessionSuppliers | undefined;
}

/** The relay speaks HTTP; WebSocket addresses are for the subscriptions. */
function overHttp(supplier: SupplierConfig): ServiceSuppliers {
  const endpoints = supplier.endpoints.map((endpoint) => {
    const urls = Object.entries(endpoint.urls).filter(([rpcType]) => rpcType !== "websocket");
    return { ...endpoint, urls: Object.fromEntries(urls) };
  });
  return { ...supplier, endpoints };
}

/**
 * The relay of a configuration's suppliers. It keeps what `previous` knows of the suppliers that stay.
 * @throws AppError CONFIG_INVALID.
 */
export function createRelay(
  config: Config,
  catalogue: Catalogue,
  modules: RelayModules,
  previous?: RelayEngine,
): RelayEngine {
  const { sessions, ...parts } = modules;
  const suppliers = Object.fromEntries(Object.entries(config.suppliers).map(([id, one]) => [id, overHttp(one)]));
  return createRelayEngine(
    {
      ...relayEngineBounds,
      ...config.relay,
      suppliers,
      staticFallback: config.protocol.staticFallback,
      maxAnswerBytes: config.gateway.maxAnswerBytes,
      defaultRules: SUPPLIER_DEFAULTS,
    },
    {
      ...parts,
      catalogue: catalogue.services,
      ...(sessions === undefined ? {} : { suppliers: sessions.of(catalogue.services.keys()) }),
      random: () => Math.random(),
      ...(previous === undefined ? {} : { memory: previous.memory }),
    },
  );
}

/** WebSocket addresses of a supplier; those with http count as ws. */
function overSockets(supplier: SupplierConfig): readonly SocketEndpoint[] {
  return supplier.endpoints.flatMap(({ operator, urls, headers }) => {
    const url = urls.websocket?.replace(/^http/i, "ws");
    return url === undefined ? [] : [{ operator, url, ...(headers === undefined ? {} : { headers }) }];
  });
}

/**
 * The subscriptions of a configuration's suppliers; who is drained, and how high a chain is, is what the relay remembers.
 * @throws AppError CONFIG_INVALID.
 */
export function createSockets(
  config: Config,
  catalogue: Catalogue,
  modules: RelayModules,
  { memory }: Pick<RelayEngine, "memory">,
): Subscriptions {
  const { sessions, ...parts } = modules;
  const suppliers = Object.fromEntries(Object.entries(config.suppliers).map(([id, one]) => [id, overSockets(one)]));
  // Now and not at each question: by then the relay may remember another chain under the same name.
  const views = new Map(
    [...Object.keys(suppliers), ...(sessions === undefined ? [] : catalogue.services.keys())].flatMap((id) => {
      const service = catalogue.get(id);
      return service === undefined ? [] : [[id, memory.of(service).view] as const];
    }),
  );
  return createSubscriptions(
    { suppliers, staticFallback: config.protocol.staticFallback },
    {
      ...parts,
      catalogue: catalogue.services,
      ...(sessions === undefined ? {} : { suppliers: sessions.of(catalogue.services.keys()) }),
      random: () => Math.random(),
      isDrained: (id, operator) => memory.isDrained(id, operator),
      tipBlocks: (id) => views.get(id)?.tip(modules.clock.monotonicMs()),
    },
  );
}
