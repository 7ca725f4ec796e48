import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import {
  clientKey,
  createClientIp,
  createHostCheck,
  type ErrorCode,
  errorBody,
  errorRow,
  type HostCheckOptions,
  isAppError,
  type Log,
} from "@turnpike/base";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { discoveryRoutes, type FacilitatorDiscovery } from "./discovery.ts";
import type { Facilitator } from "./facilitator.ts";
import type { FacilitatorResult } from "./results.ts";

/** Where a facilitator listens, and bounds of what it accepts. */
export interface FacilitatorServerOptions extends HostCheckOptions {
  /** 0 takes a free one. */
  readonly port: number;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
  /** Longest time for a request to arrive; 10,000 by default. */
  readonly requestTimeoutMs?: number;
  /** Proxies whose `X-Forwarded-For` says who a client is. */
  readonly trustedProxies: readonly string[];
  /** Most verifications and settlements at once; more are answered 503 OVERLOADED. */
  readonly maxConcurrent: number;
}

/** Modules of a facilitator's server, which owns none of them. */
export interface FacilitatorServerModules {
  readonly facilitator: Pick<Facilitator, "verify" | "settle" | "supported" | "missing">;
  readonly log: Log;
  /** What `GET /discovery/resources` and `GET /discovery/search` find; nothing by default. */
  readonly discovery?: FacilitatorDiscovery;
}

/** A listening facilitator. */
export interface FacilitatorServer extends AsyncDisposable {
  /** `http://<host>:<port>` */
  readonly url: string;
  readonly port: number;
}

/** `Allow` by path. */
const ALLOWED: ReadonlyMap<string, string> = new Map([
  ["/verify", "POST"],
  ["/settle", "POST"],
  ["/supported", "GET, HEAD"],
  ["/discovery/resources", "GET, HEAD, OPTIONS"],
  ["/discovery/search", "GET, HEAD, OPTIONS"],
  ["/health", "GET, HEAD"],
  ["/ready", "GET, HEAD"],
]);

/**
 * Serves a facilitator over HTTP: `POST /verify`, `POST /settle`, `GET /supported`, `GET /discovery/resources`,
 * `GET /discovery/search`, `GET /health`, `GET /ready`.
 * @throws what listening throws, with its `code`: EADDRINUSE when the port is taken.
 */
export async function createFacilitatorServer(
  opts: FacilitatorServerOptions,
  modules: FacilitatorServerModules,
): Promise<FacilitatorServer> {
  const { facilitator, log } = modules;
  const stopping = new AbortController();
  const app = fastify({
    bodyLimit: opts.maxBodyBytes,
    requestTimeout: opts.requestTimeoutMs ?? 10_000,
    genReqId: () => randomUUID(),
    forceCloseConnections: "idle",
    return503OnClosing: true,
  });
  app.removeAllContentTypeParsers();
  // The handlers read strictly, from the bytes as sent.
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  const { hostFault } = createHostCheck(opts);
  app.addHook("onRequest", async (request, reply) => {
    const foreign = hostFault(request.headers);
    if (foreign !== undefined) return fail(request, reply, foreign);
    // The framework has no route for most verbs, and would answer them with 404.
    const allow = ALLOWED.get(request.url.split("?", 1)[0] ?? "");
    if (allow === undefined || allow.split(", ").includes(request.method)) return undefined;
    return fail(request, reply.header("allow", allow), "VERB_NOT_ALLOWED");
  });
  app.addHook("onSend", async (_request, reply) => {
    if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
  });
  app.setErrorHandler((error, request, reply) => {
    const code = answerCode(error);
    if (errorRow(code).http >= 500) log.error({ requestId: request.id, code }, "a facilitator request failed");
    return fail(request, reply, code);
  });
  app.setNotFoundHandler((request, reply) => fail(request, reply, "NOT_FOUND"));

  const answer = <T>(request: FastifyRequest, reply: FastifyReply, result: FacilitatorResult<T>): FastifyReply =>
    result.kind === "answer" ? reply.send(result.body) : fail(request, reply, result.code, result);
  const bodyOf = ({ body }: FastifyRequest): Uint8Array => (body instanceof Uint8Array ? body : new Uint8Array());

  const clientIp = createClientIp(opts.trustedProxies);
  const clientOf = ({ raw }: FastifyRequest): string => clientKey(clientIp(raw));

  const maxConcurrent = opts.maxConcurrent;
  let running = 0;
  const bounded = async <T>(work: () => Promise<FacilitatorResult<T>>): Promise<FacilitatorResult<T>> => {
    if (running >= maxConcurrent) return { kind: "error", code: "OVERLOADED" };
    running++;
    try {
      return await work();
    } finally {
      running--;
    }
  };

  app.post("/verify", async (request, reply) =>
    answer(
      request,
      reply,
      await bounded(() => facilitator.verify(bodyOf(request), stopping.signal, clientOf(request))),
    ),
  );
  app.post("/settle", async (request, reply) =>
    answer(
      request,
      reply,
      await bounded(() => facilitator.settle(bodyOf(request), stopping.signal, clientOf(request))),
    ),
  );
  app.get("/supported", async () => facilitator.supported());
  discoveryRoutes(app, fail, modules.discovery);
  app.get("/health", async () => ({ status: "ok" }));
  app.get("/ready", async (_request, reply) => {
    const missing = await facilitator.missing();
    return reply.status(missing.length === 0 ? 200 : 503).send({ ready: missing.length === 0, missing });
  });

  try {
    await app.listen({ host: opts.host, port: opts.port });
  } catch (error) {
    await app.close();
    throw error;
  }
  const { port } = app.server.address() as AddressInfo;
  return {
    url: `http://${opts.host}:${port}`,
    port,
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await app.close();
    },
  };
}

function fail(
  request: FastifyRequest,
  reply: FastifyReply,
  code: ErrorCode,
  about: { readonly message?: string; readonly retryAfterSeconds?: number | undefined } = {},
): FastifyReply {
  const { http, retryable } = errorRow(code);
  const { message, retryAfterSeconds } = about;
  if (retryAfterSeconds !== undefined) reply.header("retry-after", String(retryAfterSeconds));
  else if (retryable && http === 503) reply.header("retry-after", "1");
  return reply.status(http).send(errorBody(code, request.id, message));
}

function answerCode(error: unknown): ErrorCode {
  if (isAppError(error)) return error.code;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return "BODY_TOO_LARGE";
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return "UNSUPPORTED_MEDIA_TYPE";
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  return typeof status === "number" && status < 500 ? "MALFORMED_REQUEST" : "INTERNAL";
}
