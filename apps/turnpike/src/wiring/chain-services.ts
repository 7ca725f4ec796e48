import { type Catalogue, readCatalogue } from "@turnpike/catalogue";
import type { LocalService } from "@turnpike/chain";
import type { Config } from "@turnpike/config";
import { catalogueOptions } from "./catalogue.ts";

/** The service that a local chain's applications and suppliers are staked for. */
const STAKED_SERVICE = "eth";
const UNFIT_FOR_A_NAME = /[^a-zA-Z0-9_ -]+/g;

const localService = ({ id, name }: { readonly id: string; readonly name: string }): LocalService => ({
  id,
  name: name.replace(UNFIT_FOR_A_NAME, "").replace(/ {2,}/g, " ").trim(),
});

function servicesOf(catalogue: Catalogue): readonly [LocalService, ...LocalService[]] {
  const all = [...catalogue.services.values()];
  const staked = all.find(({ id }) => id === STAKED_SERVICE) ?? { id: STAKED_SERVICE, name: STAKED_SERVICE };
  return [localService(staked), ...all.filter(({ id }) => id !== STAKED_SERVICE).map(localService)];
}

/** A catalogue's services as a local chain registers them: first the one that is staked for. */
export function chainServices(config: Config): readonly [LocalService, ...LocalService[]] {
  return servicesOf(readCatalogue(catalogueOptions(config)).catalogue);
}

/** The built-in catalogue's. */
export function builtinChainServices(): readonly [LocalService, ...LocalService[]] {
  return servicesOf(readCatalogue({ overrides: {}, added: [] }).catalogue);
}
