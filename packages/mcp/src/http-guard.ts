import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP } from "node:net";

/** Who may ask. */
export interface GuardOptions {
  /** Address that is listened on. */
  readonly host: string;
  /** Token that each request must bear; undefined: none. */
  readonly token: string | undefined;
  /** Further names that the `Host` header may have, without a port. */
  readonly allowedHosts: readonly string[];
  /** Origins that a browser's page may have: `https://agent.example`. */
  readonly allowedOrigins: readonly string[];
}

/** A refusal: status, sentence and headers. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** True for an address that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

/** The name in a `Host` header, without its port and in lower case; undefined when it is none. */
function nameOf(host: string | undefined): string | undefined {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(host ?? "") ?? [];
  return name?.toLowerCase();
}

const bare = (name: string): string => name.replace(/^\[|\]$/g, "");
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

function isHostAllowed(name: string | undefined, opts: GuardOptions): boolean {
  if (name === undefined) return false;
  if (opts.allowedHosts.some((one) => one.toLowerCase() === name)) return true;
  if (isLoopback(opts.host)) return LOOPBACK_NAMES.has(name);
  // A page that lies about its address does it by a name of its own: an address in numbers cannot be lied about.
  return isIP(bare(name)) !== 0 || LOOPBACK_NAMES.has(name);
}

/** Why a request may not go on; undefined when it may. Host and Origin come first: a page must not learn more. */
export function refusalOf(request: IncomingMessage, opts: GuardOptions): Refusal | undefined {
  const { host, origin, authorization } = request.headers;
  if (!isHostAllowed(nameOf(host), opts)) {
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
export function refuse(response: ServerResponse, { status, message, headers = {} }: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code: -32_000, message }, id: null });
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers });
  response.end(body);
}
