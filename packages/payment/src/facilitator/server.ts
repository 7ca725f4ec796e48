import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import {
  ConnectionGuard,
  clientKey,
  connectionCounts,
  createClientIp,
  createGuardedServer,
  createHostCheck,
  type ErrorCode,
  errorBody,
  errorRow,
  type HostCheckOptions,
  isAppError,
  type Log,
  type Metrics,
  Places,
} from "@turnpike/base";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { isRetryKey, type SettleCaller } from "./caller.ts";
import { discoveryRoutes, type FacilitatorDiscovery } from "./discovery.ts";
import type { Facilitator } from "./facilitator.ts";
import type { RequestEnd } from "./result-lease.ts";
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
  /**
   * Maximum number of verifications and settlements at once; more are answered 503 OVERLOADED. Where sellers have keys, requests
   * without one may be half of them.
   */
  readonly maxConcurrentRequests: number;
  /**
   * Maximum number of requests of one client at once; more are answered 429. A quarter of all by default, and
   * half as many without a key where sellers have keys.
   */
  readonly maxConcurrentPerClient?: number;
  /** Open connections; 1,000 by default. */
  readonly maxConnections?: number;
  /** Open connections of one address, or one /64 of IPv6; 250 by default. Trusted proxies have no such bound. */
  readonly maxConnectionsPerClient?: number;
}

/** Modules of a facilitator's server, which owns none of them. */
export interface FacilitatorServerModules {
  readonly facilitator: Pick<Facilitator, "verify" | "settle" | "supported" | "missing"> &
    Partial<Pick<Facilitator, "sellers">>;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** What `GET /discovery/resources` and `GET /discovery/search` find; nothing by default. */
  readonly discovery?: FacilitatorDiscovery;
}

/** As long as the framework keeps idle connections. */
const KEEP_ALIVE_MS = 72_000;

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
  await using owned = new AsyncDisposableStack();
  const server = owned.use(new FacilitatorServer(opts, modules));
  await server.listen();
  owned.move();
  return server;
}

/** A facilitator's HTTP server, listening once {@link createFacilitatorServer} has returned it. */
export class FacilitatorServer implements AsyncDisposable {
  readonly #opts: FacilitatorServerOptions;
  readonly #modules: FacilitatorServerModules;
  readonly #app: FastifyInstance;
  readonly #clientIp: ReturnType<typeof createClientIp>;
  /** Places of addresses, and those that only sellers with a key may have. */
  readonly #addressPlaces: Places;
  readonly #sellerPlaces: Places;
  readonly #stopping = new AbortController();
  #port = 0;
  #running = 0;

  constructor(opts: FacilitatorServerOptions, modules: FacilitatorServerModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#clientIp = createClientIp(opts.trustedProxies);
    const max = opts.maxConcurrentRequests;
    const hasSellers = modules.facilitator.sellers?.hasKeys === true;
    const perClient = opts.maxConcurrentPerClient ?? Math.max(1, Math.floor(max / 4));
    this.#addressPlaces = hasSellers
      ? placesOf(Math.ceil(max / 2), Math.ceil(perClient / 2))
      : placesOf(max, perClient);
    this.#sellerPlaces = placesOf(max, perClient);
    const { maxConnections = 1_000 } = opts;
    const guard = new ConnectionGuard({ ...opts, maxConnections }, connectionCounts("facilitator", modules.metrics));
    this.#app = fastify({
      bodyLimit: opts.maxBodyBytes,
      // The framework makes one server for each address of its host.
      serverFactory: (handler) =>
        createGuardedServer(
          guard,
          { requestTimeout: opts.requestTimeoutMs ?? 10_000, keepAliveTimeout: KEEP_ALIVE_MS },
          handler,
        ),
      genReqId: () => randomUUID(),
      forceCloseConnections: "idle",
      return503OnClosing: true,
    });
    this.#addHooks();
    this.#addRoutes();
  }

  get port(): number {
    return this.#port;
  }

  /** `http://<host>:<port>` */
  get url(): string {
    return `http://${this.#opts.host}:${this.#port}`;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#opts;
    await this.#app.listen({ host, port });
    this.#port = (this.#app.server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#app.close();
  }

  #addHooks(): void {
    const app = this.#app;
    app.removeAllContentTypeParsers();
    // The handlers read strictly, from the bytes as sent.
    app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    const { hostFault } = createHostCheck(this.#opts);
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
      const fields = { requestId: request.id, code };
      if (errorRow(code).http >= 500) this.#modules.log.error(fields, "a facilitator request failed");
      return fail(request, reply, code);
    });
    app.setNotFoundHandler((request, reply) => fail(request, reply, "NOT_FOUND"));
  }

  #addRoutes(): void {
    const app = this.#app;
    const { facilitator, discovery } = this.#modules;
    app.post("/verify", (request, reply) =>
      this.#answer(request, reply, (body, signal, caller) => facilitator.verify(body, signal, caller)),
    );
    app.post("/settle", (request, reply) =>
      this.#answer(request, reply, (body, signal, caller) => facilitator.settle(body, signal, caller)),
    );
    app.get("/supported", async () => facilitator.supported());
    discoveryRoutes(app, fail, discovery);
    app.get("/health", async () => ({ status: "ok" }));
    app.get("/ready", async (_request, reply) => {
      const missing = await facilitator.missing();
      return reply.status(missing.length === 0 ? 200 : 503).send({ ready: missing.length === 0, missing });
    });
  }

  /** Verifies or settles what a request asks about, unless too many are under way, of all or of its client. */
  async #answer<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    work: (body: Uint8Array, signal: AbortSignal, caller: SettleCaller) => Promise<FacilitatorResult<T>>,
  ): Promise<FastifyReply> {
    // Node joins the values of a repeated header by a comma and a space, which no key has.
    const key = request.headers["idempotency-key"]?.toString();
    if (key !== undefined && !isRetryKey(key)) {
      const message = "`Idempotency-Key` must be 1 to 255 visible ASCII characters.";
      return fail(request, reply, "MALFORMED_REQUEST", { message });
    }
    if (this.#running >= this.#opts.maxConcurrentRequests) return fail(request, reply, "OVERLOADED");
    const seller = this.#modules.facilitator.sellers?.fromHeader(request.headers.authorization);
    if (seller === "unknown") return fail(request, reply, "SELLER_KEY_UNKNOWN");
    // A seller may come from many addresses, and share one.
    const client = seller === undefined ? clientKey(this.#clientIp(request.raw)) : `seller ${seller.name}`;
    const places = seller === undefined ? this.#addressPlaces : this.#sellerPlaces;
    const leave = places.acquire(client);
    if (leave === "all") return fail(request, reply, "OVERLOADED");
    if (leave === "each") {
      const message = "This client has as many requests under way as it may have.";
      return fail(request, reply, "PAYMENT_RATE_LIMITED", { message, retryAfterSeconds: 1 });
    }
    this.#running++;
    try {
      const body = request.body instanceof Uint8Array ? request.body : new Uint8Array();
      const caller = { client, seller, key, end: requestEnd(reply) };
      const result = await work(body, this.#stopping.signal, caller);
      return result.kind === "answer" ? reply.send(result.body) : fail(request, reply, result.code, result);
    } finally {
      leave();
      this.#running--;
    }
  }
}

function placesOf(max: number, maxEach: number): Places {
  return new Places({ max: () => max, maxEach: () => maxEach });
}

/** Signals of a connection that ends before its answer is written, and after it. */
function requestEnd({ raw }: FastifyReply): RequestEnd {
  const [gone, sent] = [new AbortController(), new AbortController()];
  const end = (): void => (raw.writableFinished ? sent : gone).abort();
  if (raw.destroyed) end();
  else raw.once("close", end);
  return { gone: gone.signal, sent: sent.signal };
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
