import { join, resolve } from "node:path";

/** Where everything that `up` keeps is. */
export interface StateLayout {
  readonly folder: string;
  /** The contract with every other program on the machine: see docs. */
  readonly upFile: string;
  readonly lockFile: string;
  readonly versionFile: string;
  readonly keysFile: string;
  /** Keys of the relay protocol's chain, a file for each account. */
  readonly chainKeysFolder: string;
  /** The node of the relay protocol's chain. */
  readonly chainFolder: string;
  /** Secrets of the management data: of its tokens, and of its roles in the database. */
  readonly portalFile: string;
  /** Relay logs of the local suppliers. */
  readonly supplierFolder: string;
  /** State of the local EVM chain. */
  readonly evmStateFile: string;
  /** The local index of the search service. */
  readonly searchFile: string;
  readonly evmCacheFolder: string;
  readonly postgresFolder: string;
  readonly logFolder: string;
  readonly configFolder: string;
  readonly pidFolder: string;
  logFile(part: string): string;
  pidFile(part: string): string;
  configFile(part: string): string;
}

/** The files of a state folder. */
export function stateLayout(folder: string): StateLayout {
  const root = resolve(folder);
  return {
    folder: root,
    upFile: join(root, "up.json"),
    lockFile: join(root, "up.lock"),
    versionFile: join(root, "version.json"),
    keysFile: join(root, "keys.json"),
    portalFile: join(root, "portal.json"),
    chainKeysFolder: join(root, "keys"),
    chainFolder: join(root, "chain"),
    supplierFolder: join(root, "supplier"),
    evmStateFile: join(root, "anvil.json"),
    searchFile: join(root, "search.sqlite"),
    evmCacheFolder: join(root, "anvil-cache"),
    postgresFolder: join(root, "postgres"),
    logFolder: join(root, "logs"),
    configFolder: join(root, "config"),
    pidFolder: join(root, "pids"),
    logFile: (part) => join(root, "logs", `${part}.log`),
    pidFile: (part) => join(root, "pids", `${part}.json`),
    configFile: (part) => join(root, "config", `${part}.yaml`),
  };
}
