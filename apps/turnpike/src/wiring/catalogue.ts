import type { CatalogueOptions } from "@turnpike/catalogue";
import type { Config } from "@turnpike/config";

/** False for a gateway that is the free relay alone. */
export function sells({ payment }: Config): boolean {
  return payment.mode !== "none";
}

/** The catalogue's options of a configuration. */
export function catalogueOptions(config: Config): CatalogueOptions {
  const { overrides, services } = config.catalogue;
  return { overrides, added: Object.entries(services).map(([id, service]) => ({ ...service, id })) };
}
