/** What a browser may ask of these pages' origins; `*` is any. Credentials (cookies) are never allowed. */
export interface CorsOptions {
  readonly origins: readonly string[];
}

const EXPOSED = [
  "Content-Encoding",
  "Content-Location",
  "Content-Range",
  "Content-Type",
  "Date",
  "ETag",
  "Location",
  "Preference-Applied",
  "Proxy-Status",
  "Range-Unit",
  "Retry-After",
  "WWW-Authenticate",
  "X-Request-Id",
].join(", ");

const METHODS = "GET, HEAD, POST, PATCH, PUT, DELETE, OPTIONS";
const USUAL_HEADERS =
  "Authorization, Content-Type, Accept, Accept-Profile, Content-Profile, Prefer, Range, Range-Unit, If-None-Match, X-Client-Info";

/** Headers that every answer to a page of this origin has; empty for an origin that is not allowed. */
export function corsHeaders(opts: CorsOptions, origin: string | undefined): Readonly<Record<string, string>> {
  if (origin === undefined) return {};
  if (opts.origins.includes("*")) {
    return { "access-control-allow-origin": "*", "access-control-expose-headers": EXPOSED };
  }
  if (!opts.origins.includes(origin)) return {};
  return { "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED };
}

/** Headers of the answer to a preflight. Whatever names of headers a page asks for are granted. */
export function preflightHeaders(asked: string | undefined): Readonly<Record<string, string>> {
  const isPlain = asked !== undefined && /^[A-Za-z0-9 ,_-]{1,1024}$/.test(asked);
  return {
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": isPlain ? asked : USUAL_HEADERS,
    "access-control-max-age": "86400",
  };
}
