import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  type Clock,
  createHostCheck,
  Deadlines,
  type ErrorCode,
  errorBody,
  errorRow,
  faultFields,
  type HostCheckOptions,
  type Log,
  type Metrics,
  parseJson,
  type Random,
  type RequestId,
} from "@turnpike/base";
import { ByteBudget, readBody } from "../http/body.ts";
import { createRequestIds } from "../http/request-id.ts";
import { closeServer, listenOn } from "../http/server.ts";
import { parseTarget } from "../http/target.ts";
import { adminRequestsTotal } from "../metrics/gateway-metrics.ts";
import { createTokenCheck } from "./auth.ts";
import { type AdminAnswer, type AdminRoute, adminRoutes } from "./routes.ts";
import type { AdminTarget } from "./types.ts";

export interface AdminOptions extends HostCheckOptions {
  /** 0 takes a free one. */
  readonly port: number;
  /** What each request must bear; it may change. */
  readonly token: () => string;
  readonly version: string;
}

export interface AdminModules {
  readonly target: AdminTarget;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly random: Random;
}

/** An admin API that listens. */
export interface AdminService extends AsyncDisposable {
  readonly port: number;
}

const MAX_BODY_BYTES = 4_096;
const MAX_HELD_BYTES = 1_048_576;
const BODY_TIMEOUT_MS = 5_000;
/** Least time between two lines about wrong tokens. */
const WARN_EVERY_MS = 10_000;
/** Time that a reload under way has at the end. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Serves the admin API: JSON, on a port of its own, to every client with the token. Pages of other origins may not read it.
 * @throws AppError PORT_IN_USE
 */
export async function serveAdmin(opts: AdminOptions, modules: AdminModules): Promise<AdminService> {
  const { target, clock, log, metrics } = modules;
  const requestIdOf = createRequestIds(modules.random);
  const hosts = createHostCheck(opts);
  const isOperator = createTokenCheck(opts.token);
  const routes = adminRoutes(target, { version: opts.version });
  const budget = new ByteBudget(() => MAX_HELD_BYTES);
  const deadlines = new Deadlines({ stepMs: 100 }, { clock });
  let warnedMs = Number.NEGATIVE_INFINITY;
  let wrongTokens = 0;

  const write = (res: ServerResponse, status: number, value: unknown, requestId: RequestId, more: string[]): void => {
    metrics.count(adminRequestsTotal, { status: String(status) });
    if (res.headersSent || res.destroyed) return;
    const text = JSON.stringify(value);
    const head = ["Content-Type", "application/json", "Cache-Control", "no-store", "X-Content-Type-Options", "nosniff"];
    const length = ["Content-Length", String(Buffer.byteLength(text)), "X-Request-Id", requestId];
    res.writeHead(status, [...head, ...length, ...more]);
    res.end(text);
  };
  const fail = (
    req: IncomingMessage,
    res: ServerResponse,
    requestId: RequestId,
    code: ErrorCode,
    change: { readonly message?: string; readonly faults?: readonly string[]; readonly headers?: string[] } = {},
  ): void => {
    const { message, faults, headers = [] } = change;
    const body = { ...errorBody(code, requestId, message), ...(faults === undefined ? {} : { faults }) };
    write(res, errorRow(code).http, body, requestId, [...headers, ...(req.complete ? [] : ["Connection", "close"])]);
  };

  const refuseUnauthorized = (req: IncomingMessage, res: ServerResponse, requestId: RequestId): void => {
    wrongTokens++;
    if (clock.monotonicMs() - warnedMs >= WARN_EVERY_MS) {
      warnedMs = clock.monotonicMs();
      log.warn({ client: req.socket.remoteAddress, requests: wrongTokens }, "an admin request had no valid token");
      wrongTokens = 0;
    }
    fail(req, res, requestId, "UNAUTHORIZED", { headers: ["WWW-Authenticate", 'Bearer realm="admin"'] });
  };

  const serve = async (req: IncomingMessage, res: ServerResponse, requestId: RequestId): Promise<void> => {
    const foreign = hosts.fault(req.headers);
    if (foreign !== undefined) return fail(req, res, requestId, foreign);
    if (!isOperator(req.headers.authorization)) return refuseUnauthorized(req, res, requestId);
    const { path, query } = parseTarget(req.url ?? "") ?? { path: "", query: "" };
    const found = routesAt(routes, path);
    const route = found.find(({ verb }) => verb === req.method);
    if (route === undefined) {
      const verbs = found.map(({ verb }) => verb).join(", ");
      if (found.length === 0) return fail(req, res, requestId, "ADMIN_NOT_FOUND");
      return fail(req, res, requestId, "VERB_NOT_ALLOWED", { headers: ["Allow", verbs] });
    }
    const read = await readBody(req, { maxBytes: MAX_BODY_BYTES, timeoutMs: BODY_TIMEOUT_MS }, { budget, deadlines });
    if (!read.ok) return read.reason === "gone" ? undefined : fail(req, res, requestId, read.reason);
    budget.release(read.bytes.length);
    const parsed = read.bytes.length === 0 ? undefined : parseJson(read.bytes, { maxDepth: 8, maxNodes: 100 });
    if (parsed?.ok === false) return fail(req, res, requestId, "INVALID_JSON");
    const request = { args: argsOf(route, path), query: new URLSearchParams(query), body: parsed?.value };
    const answer: AdminAnswer = await route.handle(request);
    const client = req.socket.remoteAddress;
    if (answer.status === "error") {
      if (route.verb !== "GET") log.warn({ requestId, client, code: answer.code }, "an admin request was refused");
      return fail(req, res, requestId, answer.code, answer);
    }
    if (answer.done !== undefined)
      log.info({ requestId, client, change: answer.done }, "an operator changed something");
    write(res, 200, answer.value, requestId, []);
  };

  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000, maxHeaderSize: 16_384 });
  server.maxConnections = 100;
  server.on("request", (req, res) => {
    const requestId = requestIdOf(req);
    serve(req, res, requestId).catch((error: unknown) => {
      log.error({ ...faultFields(error), requestId }, "an admin request failed");
      fail(req, res, requestId, "INTERNAL");
    });
  });
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
