import { isIP } from "node:net";
import type { Config } from "./schema.ts";

/** What is wrong with the proxies that are trusted, as a line for each. */
export function proxyFaults({ gateway, facilitator, portalDb, supplier, search, chain }: Config): string[] {
  return [
    ...faultsOf("gateway.trustedProxies", gateway.trustedProxies),
    ...faultsOf("facilitator.trustedProxies", facilitator.trustedProxies),
    ...faultsOf("portalDb.trustedProxies", portalDb.trustedProxies),
    ...faultsOf("supplier.trustedProxies", supplier.trustedProxies),
    ...faultsOf("search.trustedProxies", search.trustedProxies),
    ...faultsOf("chain.rpc.trustedProxies", chain.rpc.trustedProxies),
    ...faultsOf("chain.rest.trustedProxies", chain.rest.trustedProxies),
    ...faultsOf("chain.grpc.trustedProxies", chain.grpc.trustedProxies),
  ];
}

function faultsOf(path: string, proxies: readonly string[]): string[] {
  const faults: string[] = [];
  for (const [at, text] of proxies.entries()) {
    const [address = "", length, more] = text.split("/");
    const version = isIP(address);
    const bits = length === undefined || /^\d{1,3}$/.test(length) ? Number(length ?? 0) : Number.NaN;
    if (version === 0 || address.includes("%") || more !== undefined || !(bits <= (version === 4 ? 32 : 128))) {
      faults.push(`${path}[${at}]: ${JSON.stringify(text)} is no address and no block; write 192.0.2.1 or 10.0.0.0/8`);
    }
  }
  return faults;
}
