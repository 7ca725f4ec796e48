import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  ByteBudget,
  type Clock,
  ConnectionGuard,
  closeServer,
  connectionCounts,
  createGuardedServer,
  createHostCheck,
  Deadlines,
  type ErrorCode,
  errorBody,
  errorRow,
  faultFields,
  type HostCheck,
  type HostCheckOptions,
  type Log,
  listenOn,
  type Metrics,
  parseJson,
  type Random,
  type RequestId,
} from "@turnpike/base";
import { readBody } from "../http/body.ts";
import { createRequestIds } from "../http/request-id.ts";
import { parseTarget } from "../http/target.ts";
import { gatewayAdminRequestsTotal } from "../metrics/gateway-metrics.ts";
import { type AdminAnswer, type AdminRoute, adminRoutes } from "./routes.ts";
import type { AdminTarget } from "./types.ts";

interface AdminOptions extends HostCheckOptions {
  /** 0 takes a free one. */
  readonly port: number;
  /** The bearer token of every request; it may change. */
  readonly token: () => string;
  readonly version: string;
}

interface AdminModules {
  readonly target: AdminTarget;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly random: Random;
}

const MAX_BODY_BYTES = 4_096;
const MAX_HELD_BYTES = 1_048_576;
const BODY_TIMEOUT_MS = 5_000;
/** Least time between two lines about wrong tokens. */
const WARN_EVERY_MS = 10_000;
/** Time that a reload under way has at the end. */
const CLOSE_TIMEOUT_MS = 2_000;
const BEARER = /^Bearer +([!-~]{1,1024})$/i;

interface Refusal {
  readonly message?: string;
  readonly faults?: readonly string[];
  readonly headers?: readonly string[];
}

/** The handler of the admin API's requests. */
class AdminApi {
  readonly #modules: AdminModules;
  readonly #token: () => string;
  readonly #hosts: HostCheck;
  readonly #routes: readonly AdminRoute[];
  readonly #requestIdOf: ReturnType<typeof createRequestIds>;
  readonly #budget = new ByteBudget(() => MAX_HELD_BYTES);
  readonly #deadlines: Deadlines;
  #warnedMs = Number.NEGATIVE_INFINITY;
  #wrongTokens = 0;

  constructor(opts: AdminOptions, modules: AdminModules) {
    this.#modules = modules;
    this.#token = opts.token;
    this.#hosts = createHostCheck(opts);
    this.#routes = adminRoutes(modules.target, { version: opts.version });
    this.#requestIdOf = createRequestIds(modules.random);
    this.#deadlines = new Deadlines({ stepMs: 100 }, { clock: modules.clock });
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    const requestId = this.#requestIdOf(req);
    this.#serve(req, res, requestId).catch((error: unknown) => {
      this.#modules.log.error({ ...faultFields(error), requestId }, "an admin request failed");
      this.#refuse(req, res, requestId, "INTERNAL");
    });
  }

  async #serve(req: IncomingMessage, res: ServerResponse, requestId: RequestId): Promise<void> {
    const foreign = this.#hosts.fault(req.headers);
    if (foreign !== undefined) return this.#refuse(req, res, requestId, foreign);
    if (!hasToken(req.headers.authorization, this.#token())) return this.#refuseUnauthorized(req, res, requestId);
    const { path, query } = parseTarget(req.url ?? "") ?? { path: "", query: "" };
    const found = routesAt(this.#routes, path);
    const route = found.find(({ verb }) => verb === req.method);
    if (route === undefined) {
      if (found.length === 0) return this.#refuse(req, res, requestId, "ADMIN_NOT_FOUND");
      const headers = ["Allow", found.map(({ verb }) => verb).join(", ")];
      return this.#refuse(req, res, requestId, "VERB_NOT_ALLOWED", { headers });
    }
    const limits = { maxBytes: MAX_BODY_BYTES, timeoutMs: BODY_TIMEOUT_MS };
    const read = await readBody(req, limits, { budget: this.#budget, deadlines: this.#deadlines });
    if (!read.ok) return read.reason === "gone" ? undefined : this.#refuse(req, res, requestId, read.reason);
    this.#budget.release(read.bytes.length);
    const parsed = read.bytes.length === 0 ? undefined : parseJson(read.bytes, { maxDepth: 8, maxNodes: 100 });
    if (parsed?.ok === false) return this.#refuse(req, res, requestId, "INVALID_JSON");
    const request = { args: argsOf(route, path), query: new URLSearchParams(query), body: parsed?.value };
    const answer: AdminAnswer = await route.handle(request);
    const client = req.socket.remoteAddress;
    const { log } = this.#modules;
    if (answer.status === "error") {
      if (route.verb !== "GET") log.warn({ requestId, client, code: answer.code }, "an admin request was refused");
      return this.#refuse(req, res, requestId, answer.code, answer);
    }
    const { done: change } = answer;
    if (change !== undefined) log.info({ requestId, client, change }, "an operator changed something");
    this.#write(res, 200, answer.value, requestId, []);
  }

  #refuseUnauthorized(req: IncomingMessage, res: ServerResponse, requestId: RequestId): void {
    const { clock, log } = this.#modules;
    this.#wrongTokens++;
    if (clock.monotonicMs() - this.#warnedMs >= WARN_EVERY_MS) {
      this.#warnedMs = clock.monotonicMs();
      const fields = { client: req.socket.remoteAddress, requests: this.#wrongTokens };
      log.warn(fields, "an admin request had no valid token");
      this.#wrongTokens = 0;
    }
    this.#refuse(req, res, requestId, "UNAUTHORIZED", { headers: ["WWW-Authenticate", 'Bearer realm="admin"'] });
  }

  #refuse(
    req: IncomingMessage,
    res: ServerResponse,
    requestId: RequestId,
    code: ErrorCode,
    { message, faults, headers = [] }: Refusal = {},
  ): void {
    const body = { ...errorBody(code, requestId, message), ...(faults === undefined ? {} : { faults }) };
    const close = req.complete ? [] : ["Connection", "close"];
    this.#write(res, errorRow(code).http, body, requestId, [...headers, ...close]);
  }

  #write(res: ServerResponse, status: number, value: unknown, requestId: RequestId, more: readonly string[]): void {
    this.#modules.metrics.count(gatewayAdminRequestsTotal, { status: String(status) });
    if (res.headersSent || res.destroyed) return;
    const text = JSON.stringify(value);
    const head = ["Content-Type", "application/json", "Cache-Control", "no-store", "X-Content-Type-Options", "nosniff"];
    const length = ["Content-Length", String(Buffer.byteLength(text)), "X-Request-Id", requestId];
    res.writeHead(status, [...head, ...length, ...more]);
    res.end(text);
  }
}

const CONNECTIONS = { maxConnections: 100, maxConnectionsPerClient: 50 };

/** An admin API that listens. */
export interface AdminService extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves the admin API: JSON, on a port of its own, to every client with the token. Pages of other origins may not read it.
 * @throws AppError PORT_IN_USE
 */
export async function serveAdmin(opts: AdminOptions, modules: AdminModules): Promise<AdminService> {
  const api = new AdminApi(opts, modules);
  const guard = new ConnectionGuard(CONNECTIONS, connectionCounts("admin", modules.metrics));
  const options = { headersTimeout: 5_000, requestTimeout: 10_000, maxHeaderSize: 16_384 };
  const server = createGuardedServer(guard, options, (req, res) => api.handle(req, res));
  const port = await listenOn(server, opts.host, opts.port);
  return {
    port,
    async [Symbol.asyncDispose]() {
      const cut = setTimeout(() => server.closeAllConnections(), CLOSE_TIMEOUT_MS);
      await closeServer(server);
      clearTimeout(cut);
    },
  };
}

/** True when an Authorization header has the token. It takes as long whatever the header says. */
function hasToken(header: string | undefined, token: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const given = BEARER.exec(header ?? "")?.[1];
  // Digests have one length, so the time says nothing of the token's.
  const isEqual = timingSafeEqual(digest(given ?? ""), digest(token));
  return given !== undefined && isEqual;
}

function segmentsOf(path: string): readonly string[] {
  return path.split("/").slice(1);
}

function routesAt(routes: readonly AdminRoute[], path: string): readonly AdminRoute[] {
  const segments = segmentsOf(path);
  const fits = (wanted: readonly string[]): boolean =>
    wanted.length === segments.length &&
    wanted.every((name, at) => name === segments[at] || (name === "*" && segments[at] !== ""));
  return routes.filter((route) => fits(route.path));
}

/** What stands in the place holders, decoded; text that cannot be decoded names nothing. */
function argsOf(route: AdminRoute, path: string): readonly string[] {
  return segmentsOf(path).flatMap((segment, at) => {
    if (route.path[at] !== "*") return [];
    try {
      return [decodeURIComponent(segment)];
    } catch {
      return [segment];
    }
  });
}
