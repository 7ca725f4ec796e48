import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import { type Clock, createClientIp, createHostCheck, type HostCheckOptions, type Metrics } from "@turnpike/base";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { failure } from "../failures.ts";
import { portalInFlight, portalLimitedTotal, portalRequestSeconds, portalRequestsTotal } from "../metrics.ts";
import type { TokenVerifier } from "../tokens/verifier.ts";
import { corsHeaders, preflightHeaders } from "./cors.ts";
import { BAD_PATH, FOREIGN_HOST, nameOf, noFunction, refuseClient, requestFailure } from "./faults.ts";
import { type Admitted, createGate, type GateOptions } from "./gate.ts";
import { createHandlers, type HandlerModules, type HandlerOptions } from "./handlers.ts";
import { sendError } from "./send.ts";
import { headerOf } from "./table-request.ts";
import { readTarget } from "./target.ts";
import { createKeyCount } from "./token-slots.ts";

export interface PortalServerOptions extends GateOptions, HandlerOptions, HostCheckOptions {
  /** 0 takes a free one. */
  readonly port: number;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
  /** Most bytes of a request's head: long `in.(…)` lists stand in its first line. */
  readonly maxHeaderBytes: number;
  /** Longest time for a request to arrive, and for an answer to stand still because nobody reads it. */
  readonly requestTimeoutMs: number;
  readonly maxConnections: number;
  /** Most requests that are being answered; more are answered 503. */
  readonly maxInFlight: number;
  /** Most requests with one token that are being answered; more are answered 429. */
  readonly maxInFlightPerToken: number;
  /** Proxies whose X-Forwarded-For is believed, as addresses and CIDR blocks; none by default. */
  readonly trustedProxies?: readonly string[];
  /** Origins whose pages may call; `*` is any. */
  readonly corsOrigins: readonly string[];
}

export interface PortalServerModules extends HandlerModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly verifier: TokenVerifier;
}

/** A listening management data API. */
export interface PortalServer extends AsyncDisposable {
  /** `http://<host>:<port>` */
  readonly url: string;
  readonly port: number;
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
/** How often connections are looked at for being slow. */
const SLOW_CHECK_MS = 1_000;

/**
 * Serves the tables of the management data over HTTP, as PostgREST does, and `GET /` (OpenAPI), `/live`, `/ready`.
 * @throws what listening throws, with its `code`: EADDRINUSE when the port is taken.
 */
export async function createPortalServer(
  opts: PortalServerOptions,
  modules: PortalServerModules,
): Promise<PortalServer> {
  const { clock, log, metrics } = modules;
  const byToken = createKeyCount(opts.maxInFlightPerToken);
  const handlers = createHandlers(opts, modules);
  const gate = createGate(opts, modules);
  const { hostFault } = createHostCheck(opts);
  const clientIp = createClientIp(opts.trustedProxies ?? []);
  const contexts = new WeakMap<FastifyRequest, Context>();
  let inFlight = 0;
  let isStopping = false;

  const app = fastify({
    bodyLimit: opts.maxBodyBytes,
    requestTimeout: opts.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: { maxHeaderSize: opts.maxHeaderBytes, connectionsCheckingInterval: SLOW_CHECK_MS },
    genReqId: () => randomUUID(),
    forceCloseConnections: "idle",
    return503OnClosing: true,
    exposeHeadRoutes: false,
    routerOptions: { querystringParser: () => ({}) },
    frameworkErrors: (_error, _request, reply) => void sendError(reply as FastifyReply, BAD_PATH),
    clientErrorHandler: refuseClient,
  });
  app.server.headersTimeout = opts.requestTimeoutMs;
  app.server.maxConnections = opts.maxConnections;
  // Each request of a connection listens to its end, and clients may send many at once.
  app.server.on("connection", (socket) => socket.setMaxListeners(0));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

  app.addHook("onRequest", (request, reply, done) => {
    contexts.set(request, { startedMs: clock.monotonicMs(), table: "other", admitted: undefined });
    metrics.set(portalInFlight, ++inFlight);
    whenOver(request, reply, () => finish(request, reply));
    reply.headers(ALWAYS).header("x-request-id", request.id);
    const origin = headerOf(request, "origin");
    if (origin !== undefined) reply.headers(corsHeaders({ origins: opts.corsOrigins }, origin));
    // What comes with a read is not looked at; nothing may be taken for the start of another request either.
    const { "content-length": length, "transfer-encoding": encoding } = request.headers;
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (isRead && (encoding !== undefined || (length !== undefined && length !== "0")))
      reply.header("connection", "close");
    done();
  });
  app.addHook("onSend", (_request, reply, payload, done) => {
    // A connection that is kept would hold up the end.
    if (isStopping) reply.header("connection", "close");
    reply.raw.setTimeout(opts.requestTimeoutMs);
    done(null, payload);
  });
  const finish = (request: FastifyRequest, reply: FastifyReply): void => {
    const context = contexts.get(request);
    if (context === undefined) return;
    metrics.set(portalInFlight, --inFlight);
    const seconds = (clock.monotonicMs() - context.startedMs) / 1_000;
    const verb = (VERBS as readonly string[]).includes(request.method) ? request.method : "other";
    const { table, admitted } = context;
    if (admitted !== undefined) byToken.release(admitted.fingerprint);
    const status = reply.raw.writableFinished ? reply.statusCode : CLIENT_GONE;
    metrics.count(portalRequestsTotal, { verb, table, status: String(status) });
    metrics.observe(portalRequestSeconds, seconds, { verb });
    const fields = { requestId: request.id, verb, table, status, durationMs: Math.round(seconds * 1_000) };
    const { role, accountId: account, tokenId } = admitted?.caller ?? {};
    const isRead = verb === "GET" || verb === "HEAD" || verb === "OPTIONS";
    const level = status >= 500 ? "warn" : isRead ? "debug" : "info";
    log[level]({ ...fields, role, account, tokenId }, "request");
  };
  app.setErrorHandler((error, request, reply) => {
    const known = requestFailure(error, opts.maxBodyBytes);
    if (known === undefined) log.error({ requestId: request.id, error: nameOf(error) }, "a request failed");
    return sendError(reply, known ?? failure(500, "PGRSTX00", "Something failed on our side"));
  });
  const refuseVerb = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const error = failure(405, "PGRST117", `Unsupported HTTP method: ${request.method.slice(0, 16)}`);
    const target = readTarget(request.raw.url ?? "");
    return sendError(reply, error, { allow: handlers.allow(target, contexts.get(request)?.admitted?.caller) });
  };
  // Every path has a route: what has none is of another verb.
  app.setNotFoundHandler(refuseVerb);

  /** False when the answer is sent already. */
  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<boolean> => {
    const result = await gate(headerOf(request, "authorization"), clientIp(request.raw));
    const context = contexts.get(request);
    if (!result.ok) {
      sendError(reply, result.error, result.headers);
      return false;
    }
    // The client may have gone while its token was looked at: then the end was counted already.
    if (context === undefined || request.raw.socket.destroyed) return false;
    if (!byToken.take(result.fingerprint)) {
      metrics.count(portalLimitedTotal, { limit: "token_in_flight" });
      const hint = "Wait for answers before you send more";
      sendError(
        reply,
        failure(429, "RATE_LIMITED", "Too many requests at once with this token", null, hint),
        RETRY_SOON,
      );
      return false;
    }
    context.admitted = result;
    return true;
  };

  const preflight = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
    reply
      .status(204)
      .headers(preflightHeaders(headerOf(request, "access-control-request-headers")))
      .send();

  // Everything that needs no body comes before one is read: who is not let in sends none.
  app.addHook("onRequest", async (request, reply) => {
    if (hostFault(request.headers) !== undefined) return sendError(reply, FOREIGN_HOST);
    const target = readTarget(request.raw.url ?? "");
    if (target.kind === "bad") return sendError(reply, BAD_PATH);
    const { method, headers } = request;
    const isVerb = (VERBS as readonly string[]).includes(method);
    // Here, since the framework asks some of them for a body first.
    if (target.kind === "system") return isVerb ? undefined : refuseVerb(request, reply);
    const isPreflight = headers.origin !== undefined && headers["access-control-request-method"] !== undefined;
    if (method === "OPTIONS" && isPreflight) return preflight(request, reply);
    if (inFlight > opts.maxInFlight) {
      metrics.count(portalLimitedTotal, { limit: "in_flight" });
      return sendError(reply, failure(503, "OVERLOADED", "The API is at its limit", null, "Try again later"));
    }
    if (!(await admit(request, reply))) return reply;
    if (!isVerb) return refuseVerb(request, reply);
    const encoding = headerOf(request, "content-encoding");
    if (encoding !== undefined && encoding.trim().toLowerCase() !== "identity") {
      return sendError(reply, failure(415, "PGRST102", "Content-Encoding not acceptable", "Send bodies as they are"));
    }
    return undefined;
  });

  app.route({
    method: [...VERBS],
    url: "/*",
    handler: async (request, reply) => {
      const target = readTarget(request.raw.url ?? "");
      const context = contexts.get(request);
      if (target.kind === "system") return handlers.system(request, reply, target.name);
      const admitted = context?.admitted;
      if (target.kind === "bad" || admitted === undefined || context === undefined) return sendError(reply, BAD_PATH);
      if (target.kind === "root") {
        context.table = "/";
        return handlers.document(request, reply, admitted.caller);
      }
      if (target.kind === "function") return sendError(reply, noFunction(target.name));
      return handlers.table(request, reply, admitted, target, (table) => {
        context.table = table;
      });
    },
  });

  await listen(app, opts);
  const { port } = app.server.address() as AddressInfo;
  return {
    url: `http://${opts.host.includes(":") ? `[${opts.host}]` : opts.host}:${port}`,
    port,
    async [Symbol.asyncDispose]() {
      isStopping = true;
      await app.close();
    },
  };
}

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

async function listen(app: FastifyInstance, opts: PortalServerOptions): Promise<void> {
  try {
    await app.listen({ host: opts.host, port: opts.port });
  } catch (error) {
    await app.close();
    throw error;
  }
}
