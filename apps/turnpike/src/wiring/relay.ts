import type { Catalogue } from "@turnpike/catalogue";
import type { Config, SupplierConfig } from "@turnpike/config";
import { createDirectRelay, type DirectRelay, type DirectSuppliers, directRelayDefaults } from "@turnpike/relay";
import type { PartModules } from "./modules.ts";

/** The relay speaks HTTP; WebSocket addresses are for a door that is not built yet. */
function overHttp(supplier: SupplierConfig): DirectSuppliers {
  const endpoints = supplier.endpoints.map((endpoint) => {
    const urls = Object.entries(endpoint.urls).filter(([rpcType]) => rpcType !== "websocket");
    return { ...endpoint, urls: Object.fromEntries(urls) };
  });
  return { ...supplier, endpoints };
}

/** The relay of a configuration's suppliers. @throws AppError CONFIG_INVALID. */
export function createRelay(config: Config, catalogue: Catalogue, modules: PartModules): DirectRelay {
  const suppliers = Object.fromEntries(Object.entries(config.suppliers).map(([id, one]) => [id, overHttp(one)]));
  return createDirectRelay(
    { ...directRelayDefaults, suppliers, maxAnswerBytes: config.gateway.maxAnswerBytes },
    { ...modules, catalogue: catalogue.services, random: () => Math.random() },
  );
}
