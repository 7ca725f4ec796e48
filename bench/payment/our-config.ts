import { bytesToHex0x } from "@turnpike/base";
import { LOCAL_NETWORK, MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import { PAY_TO, relayerKey } from "./payers.ts";

/** What a configuration of ours is made of. */
export interface OurFacts {
  readonly rpcUrl: string;
  readonly databaseUrl: string;
  /** Numbers of the relayer keys. */
  readonly relayers: readonly number[];
  /** Changes to `payment.relayer`. */
  readonly relayer?: Readonly<Record<string, number>>;
}

/** Overrides of a configuration: the product's defaults where nothing is said. */
export function ourConfig(facts: OurFacts, role: "gateway" | "facilitator"): Readonly<Record<string, unknown>> {
  const keys = facts.relayers.map((index) => bytesToHex0x(relayerKey(index)));
  return {
    localnet: true,
    log: { level: "silent" },
    gateway: { port: 0, metrics: { port: 0 } },
    ledger: { url: facts.databaseUrl, schema: "bench" },
    payment: {
      networks: [
        {
          network: LOCAL_NETWORK,
          rpcUrls: [facts.rpcUrl],
          asset: USDC_ADDRESS,
          name: "USDC",
          payTo: PAY_TO,
          multicall3: MULTICALL3_ADDRESS,
          blockTimeSeconds: 1,
        },
      ],
      relayer: { ...(role === "gateway" ? { keys } : {}), ...facts.relayer },
    },
    ...(role === "facilitator" ? { facilitator: { relayer: { keys } } } : {}),
    suppliers: { eth: { endpoints: [{ operator: "local", urls: { json_rpc: facts.rpcUrl } }] } },
    catalogue: { overrides: { eth: { evmChainId: 84532 } } },
  };
}
