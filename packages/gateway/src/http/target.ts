/** A request target, split and not decoded. */
export interface Target {
  /** From the first slash up to the query, as sent. */
  readonly path: string;
  /** From the question mark on, as sent; empty without one. */
  readonly query: string;
  /** Authority of an absolute-form target, which replaces the Host header (RFC 9112 §3.2.2). */
  readonly authority: string | undefined;
}

const SCHEME = /^https?:\/\//i;

/** Splits a request target; undefined when it is neither a path nor an absolute URL. `*` is the path `*`. */
export function parseTarget(url: string): Target | undefined {
  if (url.startsWith("/")) return split(url, undefined);
  if (url === "*") return { path: "*", query: "", authority: undefined };
  const scheme = SCHEME.exec(url)?.[0];
  if (scheme === undefined) return undefined;
  const behind = url.slice(scheme.length);
  const end = behind.search(/[/?#]|$/);
  if (end === 0) return undefined;
  const path = behind.slice(end);
  return split(path.startsWith("/") ? path : `/${path}`, behind.slice(0, end));
}

function split(url: string, authority: string | undefined): Target {
  const at = url.indexOf("?");
  return at === -1 ? { path: url, query: "", authority } : { path: url.slice(0, at), query: url.slice(at), authority };
}

/** Host without port and without the root's dot, in lower case. An IPv6 literal keeps its brackets. */
export function hostName(host: string): string {
  const end = host.startsWith("[") ? host.indexOf("]") + 1 : host.indexOf(":");
  const name = (end > 0 ? host.slice(0, end) : host).toLowerCase();
  return name.endsWith(".") ? name.slice(0, -1) : name;
}
