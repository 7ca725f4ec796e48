import type { ServiceId } from "@turnpike/base";
import type { EngineOptions, ServiceRules } from "./engine/options.ts";
import { type EngineModules, RelayEngine } from "./engine/relay-engine.ts";
import { withFallback } from "./suppliers/fallback-supplier-set.ts";
import { type StaticEndpoint, StaticSupplierSet } from "./suppliers/static-supplier-set.ts";
import type { SupplierSet } from "./suppliers/supplier-set.ts";
import { HttpTransport, type HttpTransportOptions } from "./transport/http-transport.ts";

/** The operator-given suppliers of one service, and how they are asked. */
export interface ServiceSuppliers extends ServiceRules {
  readonly endpoints: readonly StaticEndpoint[];
}

/** Suppliers by URL, with the engine's and the transport's bounds. */
export interface RelayEngineOptions extends Omit<EngineOptions, "rules">, HttpTransportOptions {
  /** By service id. Of a service whose set among the modules is configured, the endpoints are not used. */
  readonly suppliers: Readonly<Record<string, ServiceSuppliers>>;
  /** True: they are used also while that set is empty, or none of its suppliers can be reached. */
  readonly staticFallback?: boolean;
}

/** The engine's modules, without what is made of the options. */
export interface RelayEngineModules extends Omit<EngineModules, "suppliers" | "resources"> {
  /** Supplier sets of services whose suppliers are not operator-given. */
  readonly suppliers?: ReadonlyMap<ServiceId, SupplierSet>;
}

/**
 * A relay engine over the operator-given suppliers of its options, and over given supplier sets. Its probes run once it
 * was started.
 *
 * @throws AppError CONFIG_INVALID for a URL that is none, or a service that the catalogue does not have
 */
export function createRelayEngine(options: RelayEngineOptions, modules: RelayEngineModules): RelayEngine {
  const transport = new HttpTransport(options, modules);
  const suppliers = new Map(modules.suppliers);
  for (const [id, { endpoints }] of Object.entries(options.suppliers)) {
    const service = id as ServiceId;
    const own = new StaticSupplierSet({ service, endpoints }, { transport });
    suppliers.set(service, withFallback(suppliers.get(service), own, options));
  }
  return new RelayEngine({ ...options, rules: options.suppliers }, { ...modules, suppliers, resources: transport });
}

/** Bounds that no key of the configuration sets. */
export const relayEngineBounds = {
  streamTimeoutMs: 60_000,
  maxCheckedBytes: 1_048_576,
  probeTimeoutMs: 5_000,
  maxProbes: 8,
  connectTimeoutMs: 2_000,
  maxConnectionsPerOrigin: 64,
} as const satisfies Partial<RelayEngineOptions>;
