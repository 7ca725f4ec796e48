import type { CatalogueOptions } from "@turnpike/catalogue";
import type { Config } from "@turnpike/config";

/** The catalogue's options of a configuration. */
export function catalogueOptions(config: Config): CatalogueOptions {
  const { overrides, services } = config.catalogue;
  return { overrides, added: Object.entries(services).map(([id, service]) => ({ ...service, id })) };
}
