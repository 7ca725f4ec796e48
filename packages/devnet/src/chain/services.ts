import { type Catalogue, readCatalogue } from "@turnpike/catalogue";
import type { LocalService } from "@turnpike/chain";

/** The service that a local chain's applications and suppliers are staked for. */
const STAKED_SERVICE = "eth";
const UNFIT_FOR_A_NAME = /[^a-zA-Z0-9_ -]+/g;

const localService = ({ id, name }: { readonly id: string; readonly name: string }): LocalService => ({
  id,
  name: name.replace(UNFIT_FOR_A_NAME, "").replace(/ {2,}/g, " ").trim(),
});

/** A catalogue's services as a local chain registers them: first the one that is staked for. */
export function localServices(catalogue: Catalogue): readonly [LocalService, ...LocalService[]] {
  const all = [...catalogue.services.values()];
  const staked = all.find(({ id }) => id === STAKED_SERVICE) ?? { id: STAKED_SERVICE, name: STAKED_SERVICE };
  return [localService(staked), ...all.filter(({ id }) => id !== STAKED_SERVICE).map(localService)];
}

/** The built-in catalogue's services as a local chain registers them. */
export function builtinChainServices(): readonly [LocalService, ...LocalService[]] {
  return localServices(readCatalogue({ overrides: {}, added: [] }).catalogue);
}
