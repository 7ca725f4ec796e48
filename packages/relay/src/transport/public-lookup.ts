import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { AppError, isPublicAddress } from "@turnpike/base";

/** All addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

const systemResolve: Resolve = (hostname) => lookup(hostname, { all: true });

/**
 * A lookup for connections that may reach public addresses only. The connection uses exactly what is checked here, so that
 * a name cannot be bound to another address between the check and the use. One private address refuses the name.
 */
export function publicLookup(resolve: Resolve = systemResolve): LookupFunction {
  return (hostname, options, answer) => {
    resolve(hostname).then(
      (found) => {
        const [first] = found;
        if (first === undefined || !found.every(({ address }) => isPublicAddress(address))) {
          answer(new AppError("SUPPLIERS_UNREACHABLE", { message: `${hostname} has no public address.` }), "");
        } else if (options.all === true) answer(null, [...found]);
        else answer(null, first.address, first.family);
      },
      (cause: unknown) => answer(new AppError("SUPPLIERS_UNREACHABLE", { cause }), ""),
    );
  };
}

/**
 * True for a URL's host that is an address, in brackets where it is one of IPv6, and not a public one. A connection to it
 * looks nothing up, so that {@link publicLookup} never sees it.
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  return isIP(host) !== 0 && !isPublicAddress(host);
}
