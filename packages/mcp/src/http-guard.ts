import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HostCheck } from "@turnpike/base";

/** Clients that may send requests. */
export interface GuardOptions {
  readonly hosts: HostCheck;
  /** Token that each request must bear; undefined: none. */
  readonly token: string | undefined;
  /** Origins that a browser's page may have: `https://agent.example`. */
  readonly allowedOrigins: readonly string[];
}

/** Code of JSON-RPC for a message that is not a request object. */
export const INVALID_REQUEST = -32_600;

/** A refusal: status, sentence and headers. */
export interface Refusal {
  readonly status: number;
  /** Code of the JSON-RPC error; -32,000 by default. */
  readonly code?: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Why a request may not go on; undefined when it may. Host and Origin come first: a page must not learn more. */
export function refusalOf(request: IncomingMessage, opts: GuardOptions): Refusal | undefined {
  const { origin, authorization } = request.headers;
  if (opts.hosts.hostFault(request.headers) !== undefined) {
    return { status: 403, message: "This Host is not served. Name it with --allow-host." };
  }
  if (origin !== undefined && !opts.allowedOrigins.includes(origin)) {
    return { status: 403, message: "Pages of this Origin may not ask. Name it with --allow-origin." };
  }
  if (opts.token === undefined || request.method === "OPTIONS") return undefined;
  const [, given = ""] = /^bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
  if (timingSafeEqual(digest(given), digest(opts.token))) return undefined;
  return {
    status: 401,
    message: "The token is missing or wrong: send Authorization: Bearer <token>.",
    headers: { "www-authenticate": 'Bearer realm="turnpike"' },
  };
}

/** Headers that let an allowed page read the answer. */
export function corsHeaders(request: IncomingMessage): Readonly<Record<string, string>> {
  const { origin } = request.headers;
  if (origin === undefined) return {};
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers":
      "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id",
    "access-control-expose-headers": "mcp-session-id, www-authenticate",
    vary: "origin",
  };
}

/** Answers with a JSON-RPC error, as clients of MCP expect one. */
export function refuse(response: ServerResponse, { status, code = -32_000, message, headers = {} }: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id: null });
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers });
  response.end(body);
}
