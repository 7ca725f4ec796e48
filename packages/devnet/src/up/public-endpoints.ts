import { hostOf } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { LOCAL_SERVICES } from "./economy.ts";

/** A chain as viem lists it, as far as it is used here. */
export interface ListedChain {
  readonly id: number;
  readonly name: string;
  readonly testnet?: boolean | undefined;
  readonly rpcUrls: {
    readonly default: { readonly http: readonly string[]; readonly webSocket?: readonly string[] | undefined };
  };
}

/** One supplier of the section `suppliers`. */
export interface PublicEndpoint {
  readonly operator: string;
  readonly urls: { readonly json_rpc: string } | { readonly websocket: string };
}

/** Most end points of one network, of each way to call them. */
const MOST_ENDPOINTS = 3;

/** What a list may name: no address of this machine, which a test chain's entry has. */
const isPublic = (url: string): boolean => /^(https|wss):\/\/[^/]*\.[a-z]/i.test(url);

/**
 * Public end points of EVM networks, by service id. Left out are what runs here, services whose chain id others have too,
 * and chains of the list that only share an id with the one that is meant. Each is asked for its chain id before it
 * serves, as every supplier is.
 */
export function publicEndpoints(
  services: Iterable<Pick<Service, "id" | "evmChainId">>,
  chains: Iterable<ListedChain>,
  allows = isPublic,
): Readonly<Record<string, readonly PublicEndpoint[]>> {
  const wanted = new Map<number, string[]>();
  for (const { id, evmChainId } of services) {
    if (evmChainId !== undefined) wanted.set(evmChainId, [...(wanted.get(evmChainId) ?? []), id]);
  }
  const listed = Map.groupBy(chains, ({ id }) => id);
  const found: Record<string, readonly PublicEndpoint[]> = {};
  for (const [chainId, [service, ...others]] of wanted) {
    if (service === undefined || others.length > 0 || LOCAL_SERVICES.includes(service)) continue;
    const isTestnet = service.endsWith("-testnet");
    const [meant, ...more] = (listed.get(chainId) ?? []).filter(({ testnet = false }) => testnet === isTestnet);
    if (meant === undefined) continue;
    const same = [meant, ...more.filter(({ name }) => name === meant.name)].map(({ rpcUrls }) => rpcUrls.default);
    const urlsOf = (urls: readonly string[]): string[] => [...new Set(urls.filter(allows))].slice(0, MOST_ENDPOINTS);
    const http = urlsOf(same.flatMap((one) => one.http));
    if (http.length === 0) continue;
    found[service] = [
      ...http.map((url) => ({ operator: hostOf(url), urls: { json_rpc: url } })),
      ...urlsOf(same.flatMap(({ webSocket = [] }) => webSocket)).map((url) => ({
        operator: hostOf(url),
        urls: { websocket: url },
      })),
    ];
  }
  return found;
}

/** The section `suppliers` of `turnpike up --public`: the end points that viem lists. */
export async function publicSuppliers(): Promise<Readonly<Record<string, unknown>>> {
  const chains = await import("viem/chains");
  const { services } = createCatalogue();
  const found = publicEndpoints(services.values(), Object.values(chains));
  return Object.fromEntries(Object.entries(found).map(([service, endpoints]) => [service, { endpoints }]));
}
