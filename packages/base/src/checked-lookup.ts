import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { isPublicAddress } from "./public-address.ts";

/** All addresses of a name; rejects when it has none. */
export type ResolveHost = (
  hostname: string,
) => Promise<readonly { readonly address: string; readonly family: number }[]>;

export interface CheckedLookupOptions {
  /** As the system does by default. */
  readonly resolve?: ResolveHost | undefined;
  /** True: private addresses, too; false by default. */
  readonly mayBePrivate?: boolean;
  /** What a connection fails with whose name has no address, or a private one. */
  readonly refuse: (reason: "unresolved" | "private", hostname: string, cause?: unknown) => Error;
}

/** Most addresses of one name that are looked at, and handed out. */
const MAX_ADDRESSES = 64;

const systemResolve: ResolveHost = (hostname) => lookup(hostname, { all: true });

/**
 * A lookup for connections that may reach public addresses only. The connection uses exactly what is checked here, so that
 * a name cannot be bound to another address between the check and the use. One private address refuses the name.
 */
export function checkedLookup(options: CheckedLookupOptions): LookupFunction {
  const { resolve = systemResolve, mayBePrivate = false, refuse } = options;
  return (hostname, { all }, answer) => {
    resolve(hostname).then(
      (found) => {
        const addresses = found.slice(0, MAX_ADDRESSES);
        const [first] = addresses;
        if (first === undefined) answer(refuse("unresolved", hostname), "");
        else if (!mayBePrivate && !addresses.every(({ address }) => isPublicAddress(address))) {
          answer(refuse("private", hostname), "");
        } else if (all === true) answer(null, addresses);
        else answer(null, first.address, first.family);
      },
      (cause: unknown) => answer(refuse("unresolved", hostname, cause), ""),
    );
  };
}

/**
 * True for a URL's host that is an address, in brackets where it is one of IPv6, and not a public one. A connection to it
 * looks nothing up, so that {@link checkedLookup} never sees it.
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  return isIP(host) !== 0 && !isPublicAddress(host);
}
