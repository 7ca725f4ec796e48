/** Codes of errors that only a connection's own bytes, or its end, cause. */
const FAULT_CODES: ReadonlySet<string> = new Set([
  "ECONNABORTED",
  "ECONNRESET",
  "EPIPE",
  "ERR_SOCKET_CLOSED",
  "ERR_SOCKET_CLOSED_BEFORE_CONNECTION",
  "ERR_STREAM_DESTROYED",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ERR_STREAM_PUSH_AFTER_EOF",
  "ERR_STREAM_UNSHIFT_AFTER_END_EVENT",
  "ERR_STREAM_WRITE_AFTER_END",
]);
/** Beginnings of such codes: of HTTP/2, of the parser of HTTP/1.1, of TLS, of WebSockets. */
const FAULT_CODE_STARTS = ["ERR_HTTP2_", "HPE_", "ERR_SSL_", "ERR_TLS_", "WS_ERR_"];
/** System call of an error. Without them a port in use, or a node that refuses, would be such a fault too. */
const FAULT_CALLS: ReadonlySet<string> = new Set(["read", "write", "writev", "shutdown"]);

/**
 * True for an error of one connection: what is wrong with it ends that connection, and nothing else. A server whose last
 * handler gets such an error goes on.
 */
export function isConnectionFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as { readonly code?: unknown; readonly syscall?: unknown };
  if (typeof code !== "string") return false;
  if (typeof syscall === "string") return FAULT_CALLS.has(syscall) && FAULT_CODES.has(code);
  return FAULT_CODES.has(code) || FAULT_CODE_STARTS.some((start) => code.startsWith(start));
}
