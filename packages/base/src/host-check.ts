export interface HostCheckOptions {
  /** Address that is listened on. */
  readonly host: string;
  /** Further names that requests may be for, without ports. */
  readonly allowedHosts?: readonly string[] | undefined;
}

/** Headers that {@link HostCheck} reads. */
export interface HostHeaders {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
  readonly "sec-fetch-site"?: string | string[] | undefined;
  readonly "sec-fetch-dest"?: string | string[] | undefined;
}

/** Why a request is refused: by the name that it is for, or by the page that sent it. */
export type HostFault = "HOST_NOT_ALLOWED" | "ORIGIN_NOT_ALLOWED";

/** Says which requests a server may answer that is not meant for every web page. */
export interface HostCheck {
  /** The fault of the `Host` header alone, for servers whose pages may be of any origin. */
  readonly hostFault: (headers: HostHeaders) => HostFault | undefined;
  /** The same, and pages of other origins are refused. */
  readonly fault: (headers: HostHeaders) => HostFault | undefined;
}

const LOOPBACK = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
/** An address in numbers. No DNS name ends with a number (URL Standard, 3.5), and only addresses have brackets. */
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;

/** A host with or without a port, as in a `Host` header (RFC 9110, 7.2). */
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/** The host of an authority, without the root's dot and in lower case; undefined for text that is none. */
function nameOf(authority: string): string | undefined {
  return AUTHORITY.exec(authority)?.[1]?.toLowerCase().replace(/\.$/, "");
}

/** True for a name or address that only this machine reaches; an IPv6 literal with or without brackets. */
export function isLoopbackHost(host: string): boolean {
  return host === "::1" || LOOPBACK.test(host.toLowerCase());
}

/**
 * Keeps out web pages that a browser on this network was made to open. A page whose own name was pointed at this server
 * (DNS rebinding) is of the same origin to its browser, but its `Host` is that name: only loopback names, addresses in
 * numbers, which no name server can change, and the names of the options are taken. A request without `Host` is
 * HTTP/1.0, which no browser speaks.
 */
export function createHostCheck({ host, allowedHosts = [] }: HostCheckOptions): HostCheck {
  const names = new Set([host, ...allowedHosts].map((name) => nameOf(isIpv6(name) ? `[${name}]` : name)));
  const isOwn = (name: string): boolean => LOOPBACK.test(name) || names.has(name);
  const hostFault = (headers: HostHeaders): HostFault | undefined => {
    if (headers.host === undefined) return undefined;
    const name = nameOf(headers.host);
    return name !== undefined && (isOwn(name) || ADDRESS.test(name)) ? undefined : "HOST_NOT_ALLOWED";
  };
  return {
    hostFault,
    fault(headers) {
      const found = hostFault(headers);
      if (found !== undefined) return found;
      if (headers.origin === undefined) return isEmbedded(headers) ? "ORIGIN_NOT_ALLOWED" : undefined;
      const page = nameOf(headers.origin.replace(/^https?:\/\//, ""));
      return page !== undefined && isOwn(page) ? undefined : "ORIGIN_NOT_ALLOWED";
    },
  };
}

/**
 * True for what a page of another site loads without asking, such as an image: browsers send no `Origin` then, but they say so
 * (Fetch Metadata, W3C). A link that a person follows is `document`.
 */
function isEmbedded(headers: HostHeaders): boolean {
  return headers["sec-fetch-site"] === "cross-site" && headers["sec-fetch-dest"] !== "document";
}

/** True for an IPv6 address without brackets. */
function isIpv6(name: string): boolean {
  return !name.startsWith("[") && name.indexOf(":") !== name.lastIndexOf(":");
}
