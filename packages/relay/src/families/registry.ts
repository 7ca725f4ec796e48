import type { FamilyId, Service } from "@turnpike/catalogue";
import type { RpcType } from "@turnpike/protocol";
import { beacon } from "./beacon.ts";
import { bitcoin } from "./bitcoin.ts";
import { cosmos } from "./cosmos.ts";
import { evm } from "./evm.ts";
import { type CallInput, chainFault, type Family, type ParsedCall, supplierFault } from "./family.ts";
import { http } from "./http.ts";
import { near } from "./near.ts";
import { matchPath } from "./path-templates.ts";
import { radix } from "./radix.ts";
import { parsePath } from "./request-path.ts";
import { search } from "./search.ts";
import { solana } from "./solana.ts";
import { sui } from "./sui.ts";
import { tron } from "./tron.ts";

/**
 * Services of which nothing is known but their form. What a back-end says is wrong may be the client's fault or its own:
 * it is never sold, and held against no supplier. There is nothing to probe.
 */
const unknown: Family = {
  id: "unknown",
  parse: (service, input) => http.parse(service, input),
  judgeRpcError: () => chainFault("error"),
  judgeHttpError: (status) => (status < 500 ? chainFault("error") : supplierFault("http_status")),
  errorsOverHttp500: false,
  isLegacyRpc: false,
  probe: () => undefined,
};

const FAMILIES: Readonly<Record<FamilyId, Family>> = {
  evm,
  cosmos,
  solana,
  near,
  sui,
  radix,
  tron,
  bitcoin,
  beacon,
  search,
  http,
};

/**
 * The family of a service, or of one way of speaking to it: on a network that is both, JSON-RPC is EVM and everything
 * else Cosmos-style. A service without one is known by its form only.
 */
export function familyOf(service: Service, rpcType?: RpcType): Family {
  const [first] = service.families;
  if (service.families.length > 1 && rpcType !== undefined) {
    const isEvm = rpcType === "json_rpc" || rpcType === "websocket";
    const wanted = service.families.find((id) => (id === "evm") === isEvm);
    if (wanted !== undefined) return FAMILIES[wanted];
  }
  return first === undefined ? unknown : FAMILIES[first];
}

/** Makes the complete back-end call of a paid request, or says why it is refused; nothing is claimed before. */
export function parsePaid(service: Service, input: CallInput): ParsedCall {
  return familyOf(service).parse(service, input);
}

/**
 * Whether an appended path (raw, without its query) is one of the service's, by either verb; the route itself (`""`)
 * always is. False for a malformed path: ask `checkPath` first.
 */
export function isListed(service: Service, appendedPath: string): boolean {
  if (appendedPath === "") return true;
  const segments = parsePath(appendedPath);
  if (segments === undefined) return false;
  return matchPath(service, "GET", segments) !== undefined || matchPath(service, "POST", segments) !== undefined;
}
