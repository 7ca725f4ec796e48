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

/** Loopback ports of `up`. */
export interface UpPorts {
  readonly gateway: number;
  /** The gateway's metrics over HTTP/1.1, and the chain's gRPC over HTTP/2. */
  readonly metrics: number;
  readonly facilitator: number;
  /** The local EVM chain. */
  readonly evm: number;
  /** RPC of the relay protocol's chain. */
  readonly chainRpc: number;
  /** REST of the relay protocol's chain. */
  readonly chainRest: number;
  /** Metrics of the relay protocol's chain. */
  readonly chainMetrics: number;
  /** The relay servers of the three local suppliers. */
  readonly supplier1: number;
  readonly supplier2: number;
  readonly supplier3: number;
  /** Metrics and status of the local suppliers. */
  readonly supplierMetrics: number;
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
  evm: 8545,
  chainRpc: 26_657,
  chainRest: 1317,
  chainMetrics: 9094,
  supplier1: 8549,
  supplier2: 8550,
  supplier3: 8551,
  supplierMetrics: 9095,
  tools: 8081,
  db: 3000,
  search: 8080,
  postgres: 0,
};

/** The option that sets a port, without its dashes: `chain-rpc-port`. */
export function portFlag(name: keyof UpPorts): string {
  return `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}-port`;
}
