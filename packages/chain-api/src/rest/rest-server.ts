import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import {
  AppError,
  type ClientKey,
  type Clock,
  ConnectionGuard,
  connectionCounts,
  createGuardedServer,
  createHostCheck,
  errorRow,
  type HostCheckOptions,
  type WriteBufferBudget,
} from "@turnpike/base";
import { GRPC_STATUS } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { encodeMessage } from "@turnpike/proto";
import type { ListeningServer } from "../grpc/grpc-server.ts";
import { isHttpVerb } from "../http-verbs.ts";
import type { ChainApiOptions } from "../services/base-services.ts";
import { type ApiAnswer, ChainApi, type ChainApiModules } from "../services/chain-api.ts";
import { HEIGHT_HEADER } from "../services/query-height.ts";
import { BROADCAST_PATH } from "../services/tx-service.ts";
import { createWriteBuffer, LARGE_ANSWER_BYTES, limitWriteTime, WRITE_BUFFER_FULL } from "../write-buffer.ts";
import { readBody } from "./rest-body.ts";
import { grpcHeaders, sendJson, sendStatus } from "./rest-reply.ts";
import { readQuery, setPathFields, setQueryFields, unescapePath } from "./rest-request.ts";
import { RestRouter, type RouteMatch } from "./rest-router.ts";
import { REST_ROUTES } from "./rest-routes.ts";

/** Plain values of the REST server. */
export interface RestServerOptions extends ChainApiOptions, HostCheckOptions {
  /** 0: any that is free. */
  readonly port: number;
  /** Largest body; 1,000,000 by default, as in the SDK. */
  readonly maxBodyBytes?: number;
  /** Largest path, query and headers together. */
  readonly maxHeadBytes?: number;
  readonly maxConnections?: number;
  /** Maximum of one address, or one /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number;
  /** Proxies, which connect for many clients: these have no such bound. None by default. */
  readonly trustedProxies?: readonly string[];
  /** How long a whole request may take to arrive. */
  readonly requestTimeoutMs?: number;
  /** Time in which a whole answer must be read; 30,000 by default. */
  readonly writeTimeoutMs?: number;
  /** How long requests may still run when the server is closed. */
  readonly closeGraceMs?: number;
}

/** What the REST server uses. */
export interface RestServerModules extends ChainApiModules {
  readonly clock: Clock;
  /** Shared by all servers of a node; without it the answers of this one alone are bounded together. */
  readonly writeBuffer?: WriteBufferBudget;
}

// Clients take 16 KiB of headers at most, as this server does: an answer must not have more than its request had.
const MAX_LOCATION_LENGTH = 8_192;
const FRONT_PAGE =
  '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>pocket</title></head>' +
  '<body><p>REST of the relay protocol\'s chain. Try <a href="/pocket/shared/params">/pocket/shared/params</a> ' +
  'or <a href="/cosmos/base/tendermint/v1beta1/node_info">the node\'s own description</a>.</p></body></html>\n';

type Request =
  | { readonly ok: true; readonly bytes: Bytes }
  | { readonly ok: false; readonly status: number; readonly text: string };

/** A request with its response, and the key under which its client is counted. */
interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly client: ClientKey;
}

/** The path without empty, `.` and `..` segments; a slash at its end stays. */
function cleanPath(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(segment);
  }
  return kept.length === 0 ? "/" : `/${kept.join("/")}${path.endsWith("/") ? "/" : ""}`;
}

/** The height header's value; one that is sent twice is not read, as in the SDK. */
function heightOf({ headersDistinct }: IncomingMessage): string | undefined {
  const values = headersDistinct[HEIGHT_HEADER] ?? headersDistinct[`grpc-metadata-${HEIGHT_HEADER}`] ?? [];
  return values.length === 1 ? values[0] : undefined;
}

class RestApi {
  readonly #maxBodyBytes: number;
  readonly #modules: RestServerModules;
  readonly #api: ChainApi;
  readonly #router: RestRouter;
  readonly #writeBuffer: WriteBufferBudget;

  constructor(opts: RestServerOptions, modules: RestServerModules) {
    const { gasPrices, pruningKeepBlocks = 0n, surface, maxBodyBytes = 1_000_000 } = opts;
    this.#maxBodyBytes = maxBodyBytes;
    this.#modules = modules;
    this.#writeBuffer = modules.writeBuffer ?? createWriteBuffer();
    const api = new ChainApi({ gasPrices, pruningKeepBlocks, surface }, modules);
    this.#api = api;
    this.#router = new RestRouter(REST_ROUTES.filter(({ method }) => api.has(method)));
  }

  async answer(req: IncomingMessage, res: ServerResponse, client: ClientKey): Promise<void> {
    const { method: verb = "GET", url = "/" } = req;
    if (!isHttpVerb(verb)) {
      res
        .writeHead(405, { Allow: "GET, POST", "Content-Type": "text/plain; charset=utf-8" })
        .end("405 Method Not Allowed");
      return;
    }
    res.setHeader("X-Server-Time", Math.floor(this.#modules.clock.nowMs() / 1000).toString());
    if (this.#cors(req, res)) return;
    const split = url.indexOf("?");
    const rawPath = split < 0 ? url : url.slice(0, split);
    const query = split < 0 ? "" : url.slice(split + 1);
    const path = rawPath.startsWith("/") ? unescapePath(rawPath) : undefined;
    if (path === undefined) {
      res.writeHead(400, { "Content-Type": "text/plain; charset=utf-8" }).end("400 Bad Request");
      return;
    }
    const clean = cleanPath(path);
    if (clean !== path) {
      const location = encodeURI(clean) + (query === "" ? "" : `?${query}`);
      if (location.length > MAX_LOCATION_LENGTH) {
        res.writeHead(414, { "Content-Type": "text/plain; charset=utf-8" }).end("414 URI Too Long");
        return;
      }
      res.writeHead(301, { Location: location }).end();
      return;
    }
    if (path === "/" && verb === "GET") {
      res.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(FRONT_PAGE);
      return;
    }
    const found = this.#router.find(verb, path);
    if (found === undefined) {
      sendStatus(res, GRPC_STATUS.Unimplemented, "Not Implemented", {});
      return;
    }
    const request = await this.#requestOf({ req, res, client }, found, query);
    if (!request.ok) {
      sendStatus(res, request.status, request.text, {});
      return;
    }
    const answer = await this.#api.call(found.route.method, request.bytes, heightOf(req), client);
    await this.#reply({ res, client }, found, answer);
  }

  /** Lets a page read the answer whose origin was let in. True when the request was a preflight. */
  #cors({ method, headers }: IncomingMessage, res: ServerResponse): boolean {
    if (headers.origin === undefined) return false;
    res.setHeader("Access-Control-Allow-Origin", headers.origin);
    res.setHeader("Vary", "Origin");
    res.setHeader("Access-Control-Expose-Headers", "X-Cosmos-Block-Height");
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return false;
    res.setHeader("Access-Control-Allow-Methods", "GET, POST");
    res.setHeader("Access-Control-Allow-Headers", `Content-Type, ${HEIGHT_HEADER}`);
    res.setHeader("Access-Control-Max-Age", "600");
    res.writeHead(200, { "Content-Length": 0 }).end();
    return true;
  }

  async #requestOf(exchange: Exchange, found: RouteMatch, queryText: string): Promise<Request> {
    const { input } = this.#api.schemasOf(found.route.method) ?? {};
    if (input === undefined) throw new AppError("INTERNAL", { detail: { method: found.route.method } });
    if (found.route.verb === "POST") return this.#requestOfBody(exchange, input);
    // In turn, as calls are: blocks are made on this thread, and wait for one request at most.
    return (await this.#api.inTurn(() => parseRequest(input, found, queryText), exchange.client)) ?? BUSY;
  }

  async #requestOfBody({ req, res, client }: Exchange, input: DescMessage): Promise<Request> {
    const body = await readBody(req, this.#maxBodyBytes);
    if (!body.ok) {
      res.setHeader("Connection", "close");
      return invalid(body.why === "too large" ? "http: request body too large" : "unexpected EOF");
    }
    const read = await this.#api.messageOf(input, body.bytes, client);
    if (read === undefined) return BUSY;
    return read.ok ? read : invalid(read.fault);
  }

  async #reply(
    { res, client }: Pick<Exchange, "res" | "client">,
    { route }: RouteMatch,
    answer: ApiAnswer,
  ): Promise<void> {
    // The real gateway broadcasts by itself, past gRPC, and so has no headers of it (recorded).
    const headers = route.method === BROADCAST_PATH ? {} : grpcHeaders(answer.heightBlocks);
    if (!answer.ok) {
      sendStatus(res, answer.status, answer.text, headers);
      return;
    }
    const { output } = this.#api.schemasOf(route.method) ?? {};
    const text = output === undefined ? undefined : await this.#api.jsonOf(output, answer.value, client);
    if (text === undefined) throw new AppError("INTERNAL", { detail: { method: route.method } });
    const bytes = text.length < LARGE_ANSWER_BYTES ? 0 : Buffer.byteLength(text);
    if (bytes > 0 && !this.#writeBuffer.acquire(res, bytes, client)) {
      sendStatus(res, GRPC_STATUS.Unavailable, WRITE_BUFFER_FULL, { "Retry-After": "1" });
      return;
    }
    const height: Record<string, string> =
      route.method === BROADCAST_PATH ? {} : { "X-Cosmos-Block-Height": answer.heightBlocks.toString() };
    sendJson(res, 200, text, { ...headers, ...height });
  }
}

const invalid = (text: string): Request => ({ ok: false, status: GRPC_STATUS.InvalidArgument, text });

const BUSY: Request = { ok: false, status: GRPC_STATUS.ResourceExhausted, text: "too many requests wait" };

/** The request of a route without a body in the bytes of its message: the query sets the fields that the path does not. */
function parseRequest(input: DescMessage, { fields }: RouteMatch, queryText: string): Request {
  const message: Message = create(input);
  const read = readQuery(queryText);
  if (!read.ok) return invalid(read.text);
  const names = fields.map(([name]) => name);
  const fault = setPathFields(input, message, fields) ?? setQueryFields(input, message, read.query, names);
  return fault === undefined ? { ok: true, bytes: encodeMessage(input, message) } : invalid(fault);
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    // Stays: a connection that cannot be taken later must not end the process.
    server.on("error", (cause) => {
      reject(new AppError("PORT_IN_USE", { message: `REST cannot listen on ${host}:${port}.`, cause }));
    });
    server.listen({ host, port }, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

/**
 * Serves the chain's REST with the semantics of the SDK's gateway: paths of the modules under both prefixes, and those of
 * the SDK that this chain answers; what it has not is 501.
 * @throws AppError PORT_IN_USE
 */
export async function startRestServer(opts: RestServerOptions, modules: RestServerModules): Promise<ListeningServer> {
  const { maxHeadBytes = 65_536, maxConnections = 1000, requestTimeoutMs = 30_000, writeTimeoutMs = 30_000 } = opts;
  const { closeGraceMs = 1000 } = opts;
  const rest = new RestApi(opts, modules);
  const guard = new ConnectionGuard({ ...opts, maxConnections }, connectionCounts("chain-rest", modules.metrics));
  const server = createGuardedServer(guard, { maxHeaderSize: maxHeadBytes, requestTimeout: requestTimeoutMs });
  const hosts = createHostCheck(opts);
  server.on("request", (req, res) => {
    const foreign = hosts.fault(req.headers);
    if (foreign !== undefined) {
      const { message, advice } = errorRow(foreign);
      sendStatus(res, GRPC_STATUS.PermissionDenied, `${message} ${advice}`, {});
      return;
    }
    const answered = rest.answer(req, res, guard.clientOf(req.socket)).catch((error: unknown) => {
      modules.log.error({ error }, "a REST request could not be answered");
      if (res.headersSent) res.destroy();
      else sendStatus(res, GRPC_STATUS.Internal, "internal error", {});
    });
    void answered.then(() => limitWriteTime(res, writeTimeoutMs));
  });
  const port = await listen(server, opts.host, opts.port);
  modules.log.info({ host: opts.host, port }, "REST is served");
  return {
    port,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), closeGraceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
