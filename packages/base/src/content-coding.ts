/** Header of a request whose response may have one content coding: gzip. */
export const ACCEPT_GZIP = { "accept-encoding": "gzip" } as const;

/**
 * True for a body of at most one content coding. In several, each inner one can be of any size and decode to nothing: no bound on
 * the bytes of the result ends it.
 */
export function hasOneCoding(headers: Headers): boolean {
  return !(headers.get("content-encoding") ?? "").includes(",");
}
