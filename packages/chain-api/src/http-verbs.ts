const HTTP_VERBS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/**
 * True for the verbs that the real node's servers are recorded with. They answer any other too, RPC as if it were `GET`:
 * `TRACE` and those of WebDAV are refused here.
 */
export function isHttpVerb(verb: string): boolean {
  return HTTP_VERBS.has(verb);
}
