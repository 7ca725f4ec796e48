import { LOCAL_CHAIN_ID, LOCAL_NETWORK, MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import type { UpPorts } from "../ports.ts";
import { evmUrl } from "./addresses.ts";
import { type EconomyFacts, economySections, unbuiltOperations } from "./economy.ts";
import type { LocalAccount, LocalKeys } from "./keys.ts";
import { type PortalFacts, portalConfig } from "./portal.ts";

/** What the configurations of the children are made of. */
export interface ConfigFacts {
  readonly ports: UpPorts;
  readonly keys: LocalKeys;
  readonly ledgerUrl: string;
  readonly ledgerSchema: string;
  readonly portal: PortalFacts;
  readonly search: SearchFacts;
  readonly chain: ChainFacts;
  readonly economy: EconomyFacts;
  /** The section `suppliers`: those of networks that do not run here. */
  readonly suppliers: Readonly<Record<string, unknown>>;
}

/** What the relay protocol's chain is made of. */
export interface ChainFacts {
  /** Folder of its node. */
  readonly home: string;
  readonly blockIntervalMs: number;
  readonly inner: InnerPorts;
}

/** Ports behind the one that HTTP/1.1 and HTTP/2 share. */
export interface InnerPorts {
  /** The gateway's metrics. */
  readonly metrics: number;
  /** The chain's gRPC. */
  readonly grpc: number;
}

/** What the search service is made of. */
export interface SearchFacts {
  /** File of the local index. */
  readonly file: string;
  readonly sources: readonly SearchSource[];
}

/** One source of the local index. */
export interface SearchSource {
  readonly kind: "folder" | "packages";
  readonly target: string;
}

/** Blocks appear at once when there is a transaction; this is the pause between empty ones. */
export const EMPTY_BLOCK_SECONDS = 12;

const keysOf = (accounts: readonly LocalAccount[]): string[] => accounts.map((account) => account.privateKey);

/** One configuration for all children; each reads its own sections. */
export function localConfig(facts: ConfigFacts): Readonly<Record<string, unknown>> {
  const { ports, keys } = facts;
  const host = "127.0.0.1";
  return {
    localnet: true,
    gateway: {
      host,
      port: ports.gateway,
      relayDomain: "localhost",
      metrics: { host, port: facts.chain.inner.metrics },
    },
    ledger: { url: facts.ledgerUrl, schema: facts.ledgerSchema },
    portalDb: portalConfig(facts.portal, ports.db),
    payment: {
      mode: "local",
      networks: [
        {
          network: LOCAL_NETWORK,
          rpcUrls: [evmUrl(ports)],
          asset: USDC_ADDRESS,
          name: "USDC",
          version: "2",
          decimals: 6,
          payTo: keys.payTo.address,
          multicall3: MULTICALL3_ADDRESS,
          confirmations: 1,
          blockTimeSeconds: 1,
        },
      ],
      // A killed gateway's keys are free again only when its lease has ended: shorter than the default, to be back soon.
      relayer: { keys: keysOf(keys.gatewayRelayers), batchWindowMs: 25, leaseSeconds: 3 },
    },
    facilitator: {
      host,
      port: ports.facilitator,
      relayer: { keys: keysOf(keys.facilitatorRelayers) },
      discoveryUrl: `http://${host}:${ports.gateway}`,
    },
    ...economySections(ports, facts.economy),
    suppliers: facts.suppliers,
    search: { host, port: ports.search, local: facts.search },
    chain: {
      home: facts.chain.home,
      blockIntervalMs: facts.chain.blockIntervalMs,
      rpc: { host, port: ports.chainRpc },
      rest: { host, port: ports.chainRest },
      // Behind the port splitter, which bounds each client itself.
      grpc: { host, port: facts.chain.inner.grpc, trustedProxies: [host] },
      metrics: { host, port: ports.chainMetrics },
    },
    catalogue: {
      overrides: {
        eth: { evmChainId: LOCAL_CHAIN_ID },
        pocket: { removeOperations: unbuiltOperations() },
      },
    },
  };
}

/** The text of a configuration file. JSON is YAML; the file is written anew at each start. */
export function configText(config: Readonly<Record<string, unknown>>): string {
  return `# Written by turnpike up at each start: changes here are lost.\n${JSON.stringify(config, undefined, 2)}\n`;
}
