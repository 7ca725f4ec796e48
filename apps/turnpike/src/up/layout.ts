import { join, resolve } from "node:path";

/** Where everything that `up` keeps is. */
export interface StateLayout {
  readonly folder: string;
  /** The contract with every other program on the machine: see docs. */
  readonly upFile: string;
  readonly lockFile: string;
  readonly versionFile: string;
  readonly keysFile: string;
  /** Secrets of the management data: of its tokens, and of its roles in the database. */
  readonly portalFile: string;
  readonly chainStateFile: string;
  /** The local index of the search service. */
  readonly searchFile: string;
  readonly chainCacheFolder: string;
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
    chainStateFile: join(root, "anvil.json"),
    searchFile: join(root, "search.sqlite"),
    chainCacheFolder: join(root, "anvil-cache"),
    postgresFolder: join(root, "postgres"),
    logFolder: join(root, "logs"),
    configFolder: join(root, "config"),
    pidFolder: join(root, "pids"),
    logFile: (part) => join(root, "logs", `${part}.log`),
    pidFile: (part) => join(root, "pids", `${part}.json`),
    configFile: (part) => join(root, "config", `${part}.yaml`),
  };
}

/** Loopback ports of `up`. */
export interface UpPorts {
  readonly gateway: number;
  readonly metrics: number;
  readonly facilitator: number;
  readonly chain: number;
  readonly tools: number;
  /** The management data API. */
  readonly db: number;
  /** Web search. */
  readonly search: number;
  /** 0: any free one; nothing but this machine's programs needs it. */
  readonly postgres: number;
}

/** The ports of the contract (design §6). */
export const DEFAULT_PORTS: UpPorts = {
  gateway: 3069,
  metrics: 9090,
  facilitator: 8402,
  chain: 8545,
  tools: 8081,
  db: 3000,
  search: 8080,
  postgres: 0,
};
