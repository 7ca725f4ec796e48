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
