import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import { createMcpHandler, isInitializeRequest, isLegacyRequest } from "@modelcontextprotocol/server";
import {
  AppError,
  type Clock,
  ConnectionGuard,
  createGuardedServer,
  createHostCheck,
  ForeignJsonReader,
  isLoopbackHost,
} from "@turnpike/base";
import { ResponseSink, servedResponse } from "./deliveries.ts";
import { corsHeaders, INVALID_REQUEST, type Refusal, refusalOf, refuse } from "./http-guard.ts";
import { HttpSessions, type HttpSessionsModules } from "./http-sessions.ts";
import type { McpSession } from "./mcp-session.ts";
import { BEYOND_LIMITS, MESSAGE_LIMITS } from "./message-lines.ts";
import { createMcpServer } from "./server.ts";
import type { McpServerOptions } from "./types.ts";

export interface McpHttpOptions extends McpServerOptions {
  /** Port; 0 takes a free one. */
  readonly port: number;
  /** Address; 127.0.0.1 by default. */
  readonly host?: string;
  /** Token that each request must bear. Needed unless `host` is a loopback address. */
  readonly token?: string;
  /** Further names that the `Host` header may have. */
  readonly allowedHosts?: readonly string[];
  /** Origins whose pages may ask; none by default. */
  readonly allowedOrigins?: readonly string[];
  /** Sessions at once; 64 by default. */
  readonly maxSessions?: number;
  /** Time after which a session that asks nothing is ended; 30 minutes by default. */
  readonly idleMs?: number;
  /** Largest body of a request; 1 MiB by default. */
  readonly maxBodyBytes?: number;
  /** Time that calls under way have when it stops; 8,000 by default. */
  readonly drainMs?: number;
}

export interface McpHttpModules extends Omit<HttpSessionsModules, "stopping"> {
  readonly clock: Clock;
}

/** A server that listens. Its end waits for calls under way, for a bounded time. */
export interface McpHttpServer extends AsyncDisposable {
  /** Address of the endpoint. */
  readonly url: string;
  readonly port: number;
  /** Sessions that are open. */
  sessions(): number;
}

/** The one path that is served. */
const PATH = "/mcp";
/** `GET` and `DELETE` are for sessions. */
const VERBS: readonly string[] = ["GET", "POST", "DELETE"];
/** Requests at once. */
const MAX_IN_FLIGHT = 256;
const MAX_CONNECTIONS = 512;
const MAX_OF_CLIENT = 250;
const REQUEST_TIMEOUT_MS = 30_000;
const SWEEP_MS = 15_000;

/** The body as JSON; a refusal when it is none, or too large. */
async function bodyOf(
  request: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly json: unknown } | { readonly refusal: Refusal }> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    return { refusal: { status: 415, message: "Send Content-Type: application/json." } };
  }
  const reader = new ForeignJsonReader({ ...MESSAGE_LIMITS, maxBytes });
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > maxBytes) {
      const message = `The body is larger than ${maxBytes} bytes.`;
      return { refusal: { status: 413, message, headers: { connection: "close" } } };
    }
    // A refused request is read to its end nevertheless: else the connection ends before the refusal is sent.
    reader.write(part);
  }
  const read = reader.end();
  if (read.ok) return { json: read.value };
  return { refusal: { status: 400, message: `The body ${BEYOND_LIMITS}.` } };
}

class Endpoint {
  readonly #opts: McpHttpOptions;
  readonly #guard: Parameters<typeof refusalOf>[1];
  readonly #sessions: HttpSessions;
  readonly #modern: ReturnType<typeof createMcpHandler>;
  readonly #modules: McpHttpModules;
  readonly #stopping = new AbortController();
  #shared: { readonly session: McpSession; usedAtMs: number } | undefined;
  #inFlight = 0;
  #idle: (() => void) | undefined;
  #closing = false;

  constructor(opts: McpHttpOptions, modules: McpHttpModules) {
    const { host = "127.0.0.1", token, allowedHosts = [], allowedOrigins = [] } = opts;
    this.#opts = opts;
    this.#modules = modules;
    this.#guard = { hosts: createHostCheck({ host, allowedHosts }), token, allowedOrigins };
    const bounds = { maxSessions: opts.maxSessions ?? 64, idleMs: opts.idleMs ?? 1_800_000 };
    const inner = { ...modules, stopping: this.#stopping.signal };
    this.#sessions = new HttpSessions({ ...opts, ...bounds }, inner);
    const modern = () => ({ ...inner, session: this.#sharedSession(), sinkOf: () => servedResponse.getStore() });
    this.#modern = createMcpHandler(() => createMcpServer(opts, modern()), {
      legacy: "reject",
      maxSubscriptions: 64,
      onerror: (error) => modules.log.warn({ kind: error.name }, "a message could not be served"),
    });
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  sweep(): void {
    this.#sessions.endIdle();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = this.#refusal(request);
    if (refusal !== undefined) {
      refuse(response, refusal);
      return;
    }
    for (const [name, value] of Object.entries(corsHeaders(request))) response.setHeader(name, value);
    if (request.method === "OPTIONS") {
      response.writeHead(204).end();
      return;
    }
    if (!VERBS.includes(request.method ?? "")) {
      refuse(response, { status: 405, message: "Send POST.", headers: { allow: VERBS.join(", ") } });
      return;
    }
    if (request.method !== "GET") this.#count(response);
    await servedResponse.run(new ResponseSink(response), () => this.#route(request, response));
  }

  /** Waits for calls in flight, then ends everything. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#inFlight > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = resolve;
      const timer = setTimeout(resolve, this.#opts.drainMs ?? 8_000);
      await promise;
      clearTimeout(timer);
    }
    this.#stopping.abort();
    await this.#sessions.close();
    await this.#modern.close();
  }

  #refusal(request: IncomingMessage): Refusal | undefined {
    const refusal = refusalOf(request, this.#guard);
    if (refusal !== undefined) return refusal;
    if ((request.url ?? "").split("?", 1)[0] !== PATH) return { status: 404, message: `Only ${PATH} is served here.` };
    if (this.#closing) return { status: 503, message: "The server is stopping." };
    if (this.#inFlight >= MAX_IN_FLIGHT) {
      return { status: 503, message: "Too many requests at once.", headers: { "retry-after": "1" } };
    }
    return undefined;
  }

  #count(response: ServerResponse): void {
    this.#inFlight += 1;
    response.once("close", () => {
      this.#inFlight -= 1;
      if (this.#inFlight === 0) this.#idle?.();
    });
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = request.headers["mcp-session-id"];
    if (request.method !== "POST") {
      if (typeof id === "string" && (await this.#sessions.serve(id, request, response, undefined))) return;
      refuse(
        response,
        typeof id === "string" ? GONE : { status: 405, message: "Send POST.", headers: { allow: "POST" } },
      );
      return;
    }
    const body = await bodyOf(request, this.#opts.maxBodyBytes ?? 1_048_576);
    if ("refusal" in body) {
      refuse(response, body.refusal);
      return;
    }
    const { json } = body;
    if (Array.isArray(json)) {
      refuse(response, BATCH);
      return;
    }
    if (typeof id === "string") {
      if (!(await this.#sessions.serve(id, request, response, json))) refuse(response, GONE);
      return;
    }
    if (isInitializeRequest(json)) {
      if (this.#sessions.hasRoom()) await this.#sessions.open(request, response, json);
      else refuse(response, { status: 503, message: "Too many sessions are open.", headers: { "retry-after": "30" } });
      return;
    }
    const like = request as Parameters<typeof toWebRequest>[0];
    if (await isLegacyRequest(await toWebRequest(like, json), json)) {
      refuse(response, { status: 400, message: "A session is needed: send initialize first." });
      return;
    }
    await toNodeHandler(this.#modern)(like, response, json);
  }

  /** Revisions without sessions share one, since their clients cannot be distinguished. It ends when it has been idle. */
  #sharedSession(): McpSession {
    const { clock, newSession } = this.#modules;
    const now = clock.monotonicMs();
    const idleMs = this.#opts.idleMs ?? 1_800_000;
    if (this.#shared === undefined || now - this.#shared.usedAtMs >= idleMs) {
      this.#shared = { session: newSession(), usedAtMs: now };
    }
    this.#shared.usedAtMs = now;
    return this.#shared.session;
  }
}

/** Batches were removed from MCP with revision 2025-06-18; a client of 2025-03-26 may still send one. */
const BATCH: Refusal = {
  status: 400,
  code: INVALID_REQUEST,
  message: "JSON-RPC batches are not served, in any revision of MCP: send each message in a request of its own.",
};

const GONE: Refusal = { status: 404, message: "This session has ended. Send initialize to begin another." };

/**
 * Serves MCP over streamable HTTP. Each session has a budget of its own; what all of them spend is bounded by the
 * journal's total. A browser's page of another origin is refused, and so is a name that is not ours.
 * @throws AppError USAGE without a token on an address that others reach; PORT_IN_USE.
 */
export async function serveMcpHttp(opts: McpHttpOptions, modules: McpHttpModules): Promise<McpHttpServer> {
  const { host = "127.0.0.1", token } = opts;
  if (!isLoopbackHost(host) && token === undefined) {
    throw new AppError("USAGE", {
      message: `Others reach ${host}, and who asks spends the buyer's money: a token is needed, or a loopback address.`,
    });
  }
  const endpoint = new Endpoint(opts, modules);
  const guard = new ConnectionGuard({ maxConnections: MAX_CONNECTIONS, maxConnectionsPerClient: MAX_OF_CLIENT });
  const server = createGuardedServer(guard, { requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    endpoint.serve(request, response).catch((error: unknown) => {
      modules.log.error({ kind: error instanceof Error ? error.name : typeof error }, "a request failed");
      refuse(response, { status: 500, message: "Something failed on our side." });
    });
  });
  server.listen(opts.port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new AppError("PORT_IN_USE", { message: `${host}:${opts.port} cannot be listened on.`, cause });
  }
  const sweeper = setInterval(() => endpoint.sweep(), SWEEP_MS);
  sweeper.unref();
  const { port } = server.address() as AddressInfo;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${port}${PATH}`,
    port,
    sessions: () => endpoint.sessions,
    async [Symbol.asyncDispose]() {
      clearInterval(sweeper);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await endpoint.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
