import type { UpstreamResponse } from "../src/transport/transport.ts";

/** A response with a buffered body. */
export function responseOf(body: string | Uint8Array, status = 200, type = "application/json"): UpstreamResponse {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const headers = { "content-type": type };
  return { ok: true, status, headers, body: bytes, isTruncated: false, stream: undefined };
}
