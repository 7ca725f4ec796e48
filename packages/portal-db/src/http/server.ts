import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import {
  type Clock,
  ConnectionGuard,
  type ConnectionLimits,
  connectionCounts,
  createClientIp,
  createGuardedServer,
  createHostCheck,
  type HostCheckOptions,
  type Metrics,
} from "@turnpike/base";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { failure } from "../failures.ts";
import { portalInFlight, portalLimitedTotal, portalRequestSeconds, portalRequestsTotal } from "../metrics.ts";
import type { TokenVerifier } from "../tokens/verifier.ts";
import { corsHeaders, preflightHeaders } from "./cors.ts";
import { BAD_PATH, FOREIGN_HOST, nameOf, noFunction, refuseClient, requestFailure } from "./faults.ts";
import { type Admitted, createGate, type GateOptions } from "./gate.ts";
import { type HandlerModules, type HandlerOptions, Handlers } from "./handlers.ts";
import { sendError } from "./send.ts";
import { headerOf } from "./table-request.ts";
import { readTarget } from "./target.ts";
import { KeyCount } from "./token-slots.ts";

export interface PortalServerOptions extends GateOptions, HandlerOptions, HostCheckOptions, ConnectionLimits {
  /** 0 takes a free one. */
  readonly port: number;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
  /** Most bytes of a request's head: long `in.(…)` lists stand in its first line. */
  readonly maxHeaderBytes: number;
  /** Longest time for a request to arrive, and for a response to wait for its client to read. */
  readonly requestTimeoutMs: number;
  /** Most requests that are being answered; more are answered 503. */
  readonly maxInFlight: number;
  /** Most requests with one token that are being answered; more are answered 429. */
  readonly maxInFlightPerToken: number;
  /** Origins whose pages may call; `*` is any. */
  readonly corsOrigins: readonly string[];
}

interface PortalServerModules extends HandlerModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly verifier: TokenVerifier;
}

interface Context {
  readonly startedMs: number;
  /** A table that the caller may see, `/`, or `other`. */
  table: string;
  admitted: Admitted | undefined;
}

const VERBS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"] as const;
const VARY = "Authorization, Accept, Prefer, Range, Origin";
/** Headers of every answer. */
const ALWAYS = { "cache-control": "no-store", vary: VARY, "x-content-type-options": "nosniff" };
const RETRY_SOON = { "retry-after": "1" };
const KEEP_ALIVE_MS = 65_000;
/** Status, in logs and metrics alone, of what its client did not wait for. */
const CLIENT_GONE = 499;

/** Serves the tables of the management data over HTTP, as PostgREST does, and `GET /` (OpenAPI), `/live`, `/ready`. */
export class PortalServer implements AsyncDisposable {
  readonly #opts: PortalServerOptions;
  readonly #modules: PortalServerModules;
  readonly #app: FastifyInstance;
  readonly #handlers: Handlers;
  readonly #gate: ReturnType<typeof createGate>;
  readonly #hosts: ReturnType<typeof createHostCheck>;
  readonly #clientIp: ReturnType<typeof createClientIp>;
  readonly #byToken: KeyCount;
  readonly #contexts = new WeakMap<FastifyRequest, Context>();
  #inFlight = 0;
  #isStopping = false;

  /** @throws what listening throws, with its `code`: EADDRINUSE when the port is taken. */
  static async listen(opts: PortalServerOptions, modules: PortalServerModules): Promise<PortalServer> {
    const server = new PortalServer(opts, modules);
    const { host, port } = opts;
    try {
      await server.#app.listen({ host, port });
    } catch (error) {
      await server.#app.close();
      throw error;
    }
    return server;
  }

  private constructor(opts: PortalServerOptions, modules: PortalServerModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#byToken = new KeyCount(opts.maxInFlightPerToken);
    this.#handlers = new Handlers(opts, modules);
    this.#gate = createGate(opts, modules);
    this.#hosts = createHostCheck(opts);
    this.#clientIp = createClientIp(opts.trustedProxies ?? []);
    this.#app = createApp(opts, modules);
    this.#addHooks();
    this.#app.route({
      method: [...VERBS],
      url: "/*",
      handler: (request, reply) => this.#route(request, reply),
    });
    // Every path has a route: what has none is of another verb.
    this.#app.setNotFoundHandler((request, reply) => this.#refuseVerb(request, reply));
    this.#app.setErrorHandler((error, request, reply) => this.#onError(error, request, reply));
  }

  get port(): number {
    return (this.#app.server.address() as AddressInfo).port;
  }

  /** `http://<host>:<port>` */
  get url(): string {
    const { host } = this.#opts;
    return `http://${host.includes(":") ? `[${host}]` : host}:${this.port}`;
  }

  #addHooks(): void {
    this.#app.addHook("onRequest", (request, reply, done) => {
      this.#begin(request, reply);
      done();
    });
    this.#app.addHook("onRequest", (request, reply) => this.#check(request, reply));
    this.#app.addHook("onSend", (_request, reply, payload, done) => {
      // A connection that is kept would hold up the end.
      if (this.#isStopping) reply.header("connection", "close");
      reply.raw.setTimeout(this.#opts.requestTimeoutMs);
      done(null, payload);
    });
  }

  #begin(request: FastifyRequest, reply: FastifyReply): void {
    const { clock, metrics } = this.#modules;
    this.#contexts.set(request, { startedMs: clock.monotonicMs(), table: "other", admitted: undefined });
    metrics.set(portalInFlight, ++this.#inFlight);
    whenOver(request, reply, () => this.#finish(request, reply));
    reply.headers(ALWAYS).header("x-request-id", request.id);
    const origin = headerOf(request, "origin");
    if (origin !== undefined) reply.headers(corsHeaders({ origins: this.#opts.corsOrigins }, origin));
    // The body of a read is not looked at; nothing may be taken for the start of another request either.
    const { "content-length": length, "transfer-encoding": encoding } = request.headers;
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (isRead && (encoding !== undefined || (length !== undefined && length !== "0")))
      reply.header("connection", "close");
  }

  #finish(request: FastifyRequest, reply: FastifyReply): void {
    const { clock, log, metrics } = this.#modules;
    const context = this.#contexts.get(request);
    if (context === undefined) return;
    metrics.set(portalInFlight, --this.#inFlight);
    const seconds = (clock.monotonicMs() - context.startedMs) / 1_000;
    const verb = isVerb(request.method) ? request.method : "other";
    const { table, admitted } = context;
    if (admitted !== undefined) this.#byToken.release(admitted.fingerprint);
    const status = reply.raw.writableFinished ? reply.statusCode : CLIENT_GONE;
    metrics.count(portalRequestsTotal, { verb, table, status: String(status) });
    metrics.observe(portalRequestSeconds, seconds, { verb });
    const fields = { requestId: request.id, verb, table, status, durationMs: Math.round(seconds * 1_000) };
    const { role, accountId: account, tokenId } = admitted?.caller ?? {};
    const isRead = verb === "GET" || verb === "HEAD" || verb === "OPTIONS";
    const level = status >= 500 ? "warn" : isRead ? "debug" : "info";
    log[level]({ ...fields, role, account, tokenId }, "request");
  }

  /** Everything that needs no body comes before one is read: a client that is refused sends none. */
  async #check(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
    if (this.#hosts.hostFault(request.headers) !== undefined) return sendError(reply, FOREIGN_HOST);
    const target = readTarget(request.raw.url ?? "");
    if (target.kind === "bad") return sendError(reply, BAD_PATH);
    const { method, headers } = request;
    // Here, since the framework asks some of them for a body first.
    if (target.kind === "system") return isVerb(method) ? undefined : this.#refuseVerb(request, reply);
    const isPreflight = headers.origin !== undefined && headers["access-control-request-method"] !== undefined;
    if (method === "OPTIONS" && isPreflight) {
      const allowed = preflightHeaders(headerOf(request, "access-control-request-headers"));
      return reply.status(204).headers(allowed).send();
    }
    if (this.#inFlight > this.#opts.maxInFlight) {
      this.#modules.metrics.count(portalLimitedTotal, { limit: "in_flight" });
      return sendError(reply, failure(503, "OVERLOADED", "The API is at its limit", null, "Try again later"));
    }
    if (!(await this.#admit(request, reply))) return reply;
    if (!isVerb(method)) return this.#refuseVerb(request, reply);
    const encoding = headerOf(request, "content-encoding");
    if (encoding !== undefined && encoding.trim().toLowerCase() !== "identity") {
      return sendError(reply, failure(415, "PGRST102", "Content-Encoding not acceptable", "Send bodies as they are"));
    }
    return undefined;
  }

  /** False when the answer is sent already. */
  async #admit(request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
    const result = await this.#gate(headerOf(request, "authorization"), this.#clientIp(request.raw));
    const context = this.#contexts.get(request);
    if (!result.ok) {
      sendError(reply, result.error, result.headers);
      return false;
    }
    // The client may have gone while its token was looked at: then the end was counted already.
    if (context === undefined || request.raw.socket.destroyed) return false;
    if (!this.#byToken.take(result.fingerprint)) {
      this.#modules.metrics.count(portalLimitedTotal, { limit: "token_in_flight" });
      const hint = "Wait for answers before you send more";
      const error = failure(429, "RATE_LIMITED", "Too many requests at once with this token", null, hint);
      sendError(reply, error, RETRY_SOON);
      return false;
    }
    context.admitted = result;
    return true;
  }

  async #route(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const target = readTarget(request.raw.url ?? "");
    const context = this.#contexts.get(request);
    if (target.kind === "system") return this.#handlers.system(request, reply, target.name);
    const admitted = context?.admitted;
    if (target.kind === "bad" || admitted === undefined || context === undefined) return sendError(reply, BAD_PATH);
    if (target.kind === "root") {
      context.table = "/";
      return this.#handlers.document(request, reply, admitted.caller);
    }
    if (target.kind === "function") return sendError(reply, noFunction(target.name));
    return this.#handlers.table(request, reply, admitted, target, (table) => {
      context.table = table;
    });
  }

  #refuseVerb(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const error = failure(405, "PGRST117", `Unsupported HTTP method: ${request.method.slice(0, 16)}`);
    const target = readTarget(request.raw.url ?? "");
    const caller = this.#contexts.get(request)?.admitted?.caller;
    return sendError(reply, error, { allow: this.#handlers.allow(target, caller) });
  }

  #onError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const known = requestFailure(error, this.#opts.maxBodyBytes);
    if (known === undefined) {
      this.#modules.log.error({ requestId: request.id, error: nameOf(error) }, "a request failed");
    }
    return sendError(reply, known ?? failure(500, "PGRSTX00", "Something failed on our side"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    await this.#app.close();
  }
}

function createApp(opts: PortalServerOptions, { metrics }: PortalServerModules): FastifyInstance {
  const guard = new ConnectionGuard(opts, connectionCounts("management", metrics));
  const app = fastify({
    bodyLimit: opts.maxBodyBytes,
    // The framework makes one server for each address of its host.
    serverFactory: (handler) =>
      createGuardedServer(
        guard,
        {
          requestTimeout: opts.requestTimeoutMs,
          keepAliveTimeout: KEEP_ALIVE_MS,
          maxHeaderSize: opts.maxHeaderBytes,
        },
        handler,
      ),
    genReqId: () => randomUUID(),
    forceCloseConnections: "idle",
    return503OnClosing: true,
    exposeHeadRoutes: false,
    routerOptions: { querystringParser: () => ({}) },
    frameworkErrors: (_error, _request, reply) => void sendError(reply as FastifyReply, BAD_PATH),
    clientErrorHandler: refuseClient,
  });
  // Each request of a connection listens to its end, and clients may send many at once.
  app.server.on("connection", (socket) => socket.setMaxListeners(0));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  return app;
}

const isVerb = (method: string): boolean => (VERBS as readonly string[]).includes(method);

/**
 * Calls `end` once: when the answer is out, or when its connection is gone. An answer that was never sent says nothing
 * of its own end, nor does one that waits behind another of the same connection.
 */
function whenOver(request: FastifyRequest, reply: FastifyReply, end: () => void): void {
  const { socket } = request.raw;
  let isOver = false;
  const onClose = (): void => {
    // The one event can be emitted within the other, which then comes here all the same.
    if (isOver) return;
    isOver = true;
    socket.off("close", onClose);
    reply.raw.off("close", onClose);
    end();
  };
  reply.raw.on("close", onClose);
  socket.on("close", onClose);
}
