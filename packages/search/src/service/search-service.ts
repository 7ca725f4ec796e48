import type { AddressInfo } from "node:net";
import {
  type Clock,
  ConnectionGuard,
  connectionCounts,
  createGuardedServer,
  createHostCheck,
  type Log,
  type Metrics,
  systemClock,
} from "@turnpike/base";
import { MAX_SEARCH_BODY_BYTES, MAX_SEARCH_RESULTS } from "@turnpike/catalogue";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { WeightedEngine } from "../engines/create-engines.ts";
import {
  searchIndexBytes,
  searchIndexDocuments,
  searchInFlight,
  searchRequestsTotal,
  searchSeconds,
} from "../metrics.ts";
import { DOCUMENT_HEADERS, DOCUMENTS_PATH, documentUrl, type FindDocument } from "./documents.ts";
import {
  BAD_REQUEST,
  type ErrorDetail,
  FAILED,
  FOREIGN_HOST,
  FOREIGN_PAGE,
  NO_CODING,
  NOT_FOUND,
  nameOf,
  notAllowed,
  readSearch,
  refusalOf,
  refuseClient,
  requestRefusal,
  unavailable,
} from "./refusals.ts";
import { Searcher, type SearcherOptions } from "./searcher.ts";

export interface SearchServiceOptions extends SearcherOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Address at which others reach it; undefined: host and port. */
  readonly publicUrl?: string | undefined;
  /** Further names that requests may be for. */
  readonly allowedHosts?: readonly string[];
  /** Searches at once; more are answered 503. */
  readonly maxInFlight: number;
  /** Open connections of one address, or one /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number;
  /** Proxies, and gateways that search for many: these have no such bound. None by default. */
  readonly trustedProxies?: readonly string[];
  /** Version of the product, for `GET /v1/version`. */
  readonly version: string;
}

export interface SearchServiceModules {
  /** They are not disposed of with the service. */
  readonly engines: readonly WeightedEngine[];
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock?: Clock;
  /** For `GET /documents/*`; undefined: there are none. */
  readonly documents?: FindDocument | undefined;
  /** Size of the local index, for metrics; undefined: there is none. */
  readonly indexSize?: (() => Promise<{ readonly documents: number; readonly bytes: number }>) | undefined;
}

/** Results where the client did not say how many. */
const DEFAULT_SEARCH_RESULTS = 10;
/** Longest time for a request to arrive. */
const REQUEST_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 65_000;
/** Connections beside those of searches: health, documents, and the idle ones of a gateway. */
const MORE_CONNECTIONS = 1_000;
const INDEX_SIZE_MS = 60_000;

const ALLOWED: ReadonlyMap<string, string> = new Map([
  ["/v1/search", "POST"],
  ["/v1/version", "GET"],
  ["/v1/health", "GET"],
  ["/v1/capabilities", "GET"],
  ["/healthz", "GET"],
]);

function send(reply: FastifyReply, { status, detail, headers }: ErrorDetail): FastifyReply {
  reply.status(status).headers(headers ?? {});
  // Also for what is refused before any hook has run.
  reply.headers({ "cache-control": "no-store", "content-type": "application/json" });
  return reply.send(JSON.stringify({ detail }));
}

function createApp(
  { maxInFlight, maxConnectionsPerClient, trustedProxies }: SearchServiceOptions,
  { metrics }: SearchServiceModules,
): FastifyInstance {
  const maxConnections = maxInFlight + MORE_CONNECTIONS;
  const limits = { maxConnections, maxConnectionsPerClient, trustedProxies };
  const guard = new ConnectionGuard(limits, connectionCounts("search", metrics));
  const app = fastify({
    bodyLimit: MAX_SEARCH_BODY_BYTES,
    // The framework makes one server for each address of its host.
    serverFactory: (handler) =>
      createGuardedServer(guard, { requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_MS }, handler),
    forceCloseConnections: "idle",
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { querystringParser: () => ({}), maxParamLength: 8_192 },
    frameworkErrors: (_error, _request, reply) => void send(reply as FastifyReply, BAD_REQUEST),
    clientErrorHandler: refuseClient,
  });
  // A body is JSON whatever its sender calls it.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  return app;
}

/** Measures the local index now and every minute, until it is disposed of. */
function watchIndex({ indexSize, metrics, log }: SearchServiceModules): Disposable {
  if (indexSize === undefined) return { [Symbol.dispose]() {} };
  let isOver = false;
  const measure = async (): Promise<void> => {
    try {
      const { documents, bytes } = await indexSize();
      metrics.set(searchIndexDocuments, documents);
      metrics.set(searchIndexBytes, bytes);
    } catch (error) {
      if (!isOver) log.warn({ error: nameOf(error) }, "the size of the index is not known");
    }
  };
  void measure();
  const timer = setInterval(() => void measure(), INDEX_SIZE_MS).unref();
  return {
    [Symbol.dispose]() {
      isOver = true;
      clearInterval(timer);
    },
  };
}

/**
 * Web search over HTTP: `POST /v1/search`, `GET /v1/version`, `/v1/health`, `/v1/capabilities`, `/healthz`, and the text
 * of indexed local files below `/documents/`. Disposing of it finishes the searches in flight first.
 */
export class SearchService implements AsyncDisposable {
  readonly #options: SearchServiceOptions;
  readonly #modules: SearchServiceModules;
  readonly #clock: Clock;
  readonly #app: FastifyInstance;
  readonly #searcher: Searcher;
  readonly #owned = new AsyncDisposableStack();
  #inFlight = 0;
  #isStopping = false;
  #port = 0;
  #publicUrl: string | undefined;
  #ownOrigins: readonly string[] = [];

  constructor(options: SearchServiceOptions, modules: SearchServiceModules) {
    const { engines, log, metrics, clock = systemClock } = modules;
    this.#options = options;
    this.#modules = modules;
    this.#clock = clock;
    this.#publicUrl = options.publicUrl;
    this.#app = createApp(options, modules);
    this.#addHooks();
    this.#addRoutes();
    this.#searcher = this.#owned.use(new Searcher(options, { engines, clock, log, metrics }));
    this.#owned.use(watchIndex(modules));
    this.#owned.defer(async () => {
      this.#isStopping = true;
      await this.#app.close();
    });
  }

  get port(): number {
    return this.#port;
  }

  /** `http://<host>:<port>` */
  get url(): string {
    const { host } = this.#options;
    return `http://${host.includes(":") ? `[${host}]` : host}:${this.#port}`;
  }

  /** @throws what listening throws, with its `code`: EADDRINUSE when the port is taken */
  async listen(): Promise<void> {
    const { host, port } = this.#options;
    await this.#app.listen({ host, port });
    this.#port = (this.#app.server.address() as AddressInfo).port;
    this.#publicUrl ??= this.url;
    this.#ownOrigins = [this.url, this.#publicUrl].map((own) => new URL(own).origin);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned.disposeAsync();
  }

  #addHooks(): void {
    const { host, allowedHosts = [], publicUrl } = this.#options;
    const { log, metrics } = this.#modules;
    const ownHosts = publicUrl === undefined ? [] : [new URL(publicUrl).host];
    const { hostFault } = createHostCheck({ host, allowedHosts: [...allowedHosts, ...ownHosts] });
    this.#app.addHook("onRequest", async (request, reply) => {
      // Any web page can have its reader's browser ask this machine; searches may cost, and what is indexed may be private.
      if (hostFault(request.headers) !== undefined) return send(reply, FOREIGN_HOST);
      const { origin } = request.headers;
      if (origin !== undefined && !this.#ownOrigins.includes(origin)) return send(reply, FOREIGN_PAGE);
      const path = request.url.split("?", 1)[0] ?? "";
      const allow = ALLOWED.get(path) ?? (path.startsWith(DOCUMENTS_PATH) ? "GET" : undefined);
      return allow === undefined || allow === request.method ? undefined : send(reply, notAllowed(allow));
    });
    this.#app.addHook("onSend", async (_request, reply) => {
      reply.header("x-content-type-options", "nosniff");
      if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
      // A connection that is kept would hold up the end.
      if (this.#isStopping) reply.header("connection", "close");
      reply.raw.setTimeout(REQUEST_TIMEOUT_MS);
    });
    this.#app.setErrorHandler((error, request, reply) => {
      const known = requestRefusal(error);
      if (known === undefined) log.error({ error: nameOf(error) }, "a request failed");
      const isSearch = request.url === "/v1/search";
      if (isSearch && known?.status === 413) metrics.count(searchRequestsTotal, { outcome: "too_large" });
      return send(reply, known ?? FAILED);
    });
    this.#app.setNotFoundHandler((_request, reply) => send(reply, NOT_FOUND));
  }

  #addRoutes(): void {
    const app = this.#app;
    const { version, timeoutMs, cacheSeconds } = this.#options;
    const ids = this.#modules.engines.map(({ engine }) => engine.id);
    app.route({
      method: "POST",
      url: "/v1/search",
      onRequest: async (request, reply) => {
        const coding = request.headers["content-encoding"];
        if (coding !== undefined && coding.trim().toLowerCase() !== "identity") return send(reply, NO_CODING);
        return undefined;
      },
      handler: (request, reply) => this.#search(request, reply),
    });
    app.get("/v1/version", async () => ({ name: "turnpike-search", version, api: "v1" }));
    app.get("/healthz", async (_request, reply) =>
      this.#isStopping ? send(reply, unavailable("Shutting down.")) : { status: "ok" },
    );
    app.get("/v1/health", async () => {
      const states = ids.map((id) => ({ id, status: this.#searcher.lastStatus(id) ?? "not_asked" }));
      const isBad = states.some(({ status }) => status === "failed" || status === "timed_out");
      return { status: isBad ? "degraded" : "ok", engines: states, in_flight: this.#inFlight };
    });
    app.get("/v1/capabilities", async () => ({
      engines: ids,
      max_results: MAX_SEARCH_RESULTS,
      default_results: DEFAULT_SEARCH_RESULTS,
      max_body_bytes: MAX_SEARCH_BODY_BYTES,
      timeout_ms: timeoutMs,
      cache_seconds: cacheSeconds,
      result_fields: ["title", "url", "snippet", "score", "source", "date"],
    }));
    app.get(`${DOCUMENTS_PATH}*`, (request, reply) => this.#document(request, reply));
  }

  async #search(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { log, metrics } = this.#modules;
    const done = (outcome: string): void => metrics.count(searchRequestsTotal, { outcome });
    const parsed = readSearch(request.body);
    if (!parsed.ok) {
      done(parsed.reason === "too_large" ? "too_large" : "invalid");
      return send(reply, refusalOf(parsed));
    }
    if (this.#isStopping) return send(reply, unavailable("Shutting down."));
    if (this.#inFlight >= this.#options.maxInFlight) {
      done("overloaded");
      return send(reply, unavailable("Too many searches at once."));
    }
    const startMs = this.#clock.monotonicMs();
    metrics.set(searchInFlight, ++this.#inFlight);
    try {
      const found = await this.#searcher.search(parsed.query, parsed.maxResults ?? DEFAULT_SEARCH_RESULTS);
      const seconds = (this.#clock.monotonicMs() - startMs) / 1_000;
      metrics.observe(searchSeconds, seconds);
      if (!found.ok) {
        done("failed");
        return send(reply, unavailable("No search engine answered."));
      }
      const { answer } = found;
      done(answer.partial ? "partial" : answer.results.length === 0 ? "empty" : "found");
      // Queries are private: they are not logged.
      const fields = { results: answer.results.length, partial: answer.partial, durationMs: Math.round(seconds * 1e3) };
      log.debug(fields, "a search was answered");
      return reply.header("content-type", "application/json").send(JSON.stringify(answer));
    } finally {
      metrics.set(searchInFlight, --this.#inFlight);
    }
  }

  async #document(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { documents, log } = this.#modules;
    const url = this.#publicUrl === undefined ? undefined : documentUrl(this.#publicUrl, request.url);
    if (documents === undefined || url === undefined) return send(reply, NOT_FOUND);
    try {
      const found = await documents(url);
      return found === undefined ? send(reply, NOT_FOUND) : reply.headers(DOCUMENT_HEADERS).send(found.text);
    } catch (error) {
      log.warn({ error: nameOf(error) }, "a document could not be read");
      return send(reply, unavailable("The index cannot be read."));
    }
  }
}

/**
 * Starts a {@link SearchService}.
 * @throws what listening throws, with its `code`: EADDRINUSE when the port is taken
 */
export async function startSearchService(
  options: SearchServiceOptions,
  modules: SearchServiceModules,
): Promise<SearchService> {
  const service = new SearchService(options, modules);
  try {
    await service.listen();
    return service;
  } catch (error) {
    await service[Symbol.asyncDispose]();
    throw error;
  }
}
