import { join } from "node:path";
import { readCatalogue } from "@turnpike/catalogue";
import type { SuppliedService } from "@turnpike/chain";
import { shared } from "@turnpike/proto";
import { ECONOMY_OPERATORS, type EconomyPlan } from "../chain/local-chain.ts";
import type { UpPorts } from "../ports.ts";
import { chainRpcUrl, evmSocketUrl, evmUrl, supplierUrls } from "./addresses.ts";

const { JSON_RPC, REST, COMET_BFT, WEBSOCKET } = shared.RPCType;

/** Chain id of the local chain of the relay protocol: what the real network and its local ones have. */
export const CHAIN_ID = "pocket";

/** Services of `turnpike up` that its suppliers serve, and how each is called. */
const SUPPLIED: readonly SuppliedService[] = [
  { serviceId: "eth", rpcTypes: [JSON_RPC, WEBSOCKET] },
  { serviceId: "pocket", rpcTypes: [COMET_BFT, REST, JSON_RPC] },
  { serviceId: "search", rpcTypes: [REST] },
  { serviceId: "document-digest", rpcTypes: [REST] },
];

/** Ids of the services that answer when everything is ready. */
export const LOCAL_SERVICES: readonly string[] = SUPPLIED.map(({ serviceId }) => serviceId);

/** Reads of a Cosmos-style chain that the local node does not have: modules that are not built, and an old route. */
const UNBUILT =
  /^GET (\/cosmos\/(distribution|evidence|feegrant|gov|mint|params|slashing)\/|\/ibc\/|\/cosmos\/staking\/v1beta1\/historical_info\/|\/syncing$)/;

/** Operations of the local `pocket` that are not advertised. */
export function unbuiltOperations(): string[] {
  const { catalogue } = readCatalogue({ overrides: {}, added: [] });
  return [...(catalogue.get("pocket")?.operations.keys() ?? [])].filter((name) => UNBUILT.test(name));
}

/** What the suppliers and the gateway's sessions are made of. */
export interface EconomyFacts {
  /** Keys of the chain's accounts, a file for each. */
  readonly keysFolder: string;
  /** Relay logs of the suppliers. */
  readonly supplierFolder: string;
}

/** The stakes that the local chain begins with. */
export function economyPlan(ports: UpPorts): EconomyPlan {
  return { services: SUPPLIED, supplierUrls: supplierUrls(ports) };
}

/** The sections `protocol` and `supplier` of the local configuration. */
export function economySections(ports: UpPorts, facts: EconomyFacts): Readonly<Record<string, unknown>> {
  const at = (port: number) => ({ url: `http://127.0.0.1:${port}` });
  const keyFile = (name: string): string => join(facts.keysFolder, `${name}.json`);
  const listening = [ports.supplier1, ports.supplier2, ports.supplier3];
  return {
    protocol: {
      nodeUrl: chainRpcUrl(ports),
      gatewayKeyFile: keyFile("gateway-1"),
      allowPrivateSuppliers: true,
      delegatedBeforeStatic: true,
    },
    supplier: {
      nodeUrl: chainRpcUrl(ports),
      stateFolder: facts.supplierFolder,
      keys: ECONOMY_OPERATORS.map((name, index) => ({ operatorKeyFile: keyFile(name), port: listening[index] })),
      services: {
        eth: { backends: { json_rpc: { url: evmUrl(ports) }, websocket: { url: evmSocketUrl(ports) } } },
        pocket: {
          backends: { comet_bft: at(ports.chainRpc), rest: at(ports.chainRest), json_rpc: at(ports.chainRpc) },
        },
        search: { backends: { rest: at(ports.search) } },
        "document-digest": { backends: { rest: at(ports.tools) } },
      },
      metrics: { port: ports.supplierMetrics },
    },
  };
}
