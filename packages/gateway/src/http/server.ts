import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  ConnectionGuard,
  type ConnectionLimits,
  type ConnectionRefusal,
  type ErrorCode,
  errorBody,
  guardServer,
  type IdleTime,
  type Log,
  type RequestId,
} from "@turnpike/base";
import { linger } from "./linger.ts";
import type { AnyRequest } from "./request.ts";
import { codeError } from "./rpc-answer.ts";

/** Bounds of one HTTP server: sizes of heads, times, and connections in all and of one client. */
interface HttpLimits extends ConnectionLimits {
  readonly maxHeaderBytes: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly stallTimeoutMs: number;
}

/** What handles upgrades to other protocols. */
interface Upgrades {
  /** False: the request is an ordinary one. */
  wants(req: IncomingMessage): boolean;
  handle(req: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** The state of one connection. */
interface Connection {
  /** Answers that are not written yet. */
  open: number;
  /** The newest request on it. */
  res: ServerResponse | undefined;
  /** The bytes that end the connection once the answers before them are written. */
  last: string | undefined;
}

interface HttpServerModules {
  readonly log: Log;
  readonly requestId: () => RequestId;
  readonly handle: RequestListener;
  /** True for a request whose errors are JSON-RPC. */
  readonly isFree: (req: IncomingMessage) => boolean;
  readonly upgrades?: Upgrades;
  /** Called for each connection that the bounds close. */
  readonly onRefused?: (reason: ConnectionRefusal) => void;
}

/** Requests whose clients wait for `100 Continue`. */
const awaiting = new WeakMap<object, ServerResponse>();

/** Sends `100 Continue` when the request's client waits for it. */
export function sendContinue(req: AnyRequest): void {
  awaiting.get(req)?.writeContinue();
  awaiting.delete(req);
}

/**
 * A server with strict parsing, bounded heads and bounded time. What the parser refuses gets a JSON error and the
 * connection's end; answers that are still due on that connection are written first, so that a refusal never stands
 * in another request's place.
 */
export class HttpServer {
  /** The server of `node:http` that this one configures and listens to. */
  readonly node: Server;
  readonly #modules: HttpServerModules;
  readonly #guard: ConnectionGuard;
  readonly #connections = new WeakMap<object, Connection>();

  constructor(limits: HttpLimits, modules: HttpServerModules) {
    this.#modules = modules;
    this.#guard = new ConnectionGuard(limits, modules);
    const server = createServer({
      insecureHTTPParser: false,
      requireHostHeader: false,
      maxHeaderSize: limits.maxHeaderBytes,
      connectionsCheckingInterval: Math.min(1_000, limits.headersTimeoutMs),
      noDelay: true,
      // Without it every request that offers an upgrade would go unanswered, such as the h2c of Java's client.
      // An answer that is still due would stand in the middle of the new protocol: behind one it is a request as well.
      shouldUpgradeCallback: (req) => !this.#isBehind(req) && modules.upgrades?.wants(req) === true,
    });
    // Header lines beyond this limit would be dropped in silence, and with them a repeated one; the edge counts them.
    server.maxHeadersCount = 0;
    // A client that has half-closed its side still waits for its answer, which may be paid for.
    Object.assign(server, { httpAllowHalfOpen: true });
    this.node = server;
    guardServer(server, this.#guard);
    this.setLimits(limits);
    server.on("connection", (socket) => {
      this.#connections.set(socket, { open: 0, res: undefined, last: undefined });
    });
    server.on("request", (req, res) => this.#onRequest(req, res));
    server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
      awaiting.set(req, res);
      this.#onRequest(req, res);
    });
    server.on("upgrade", (req, socket, head) => modules.upgrades?.handle(req, socket, head));
    server.on("clientError", (error: Error & { code?: string }, stream) =>
      this.#onClientError(error, stream as Socket),
    );
  }

  /** Counts a connection that another listener has accepted and may hand over to this server. False: it must be closed. */
  admit(socket: Socket, idleMs: IdleTime): boolean {
    return this.#guard.admit(socket, idleMs);
  }

  /** Puts other limits into effect; all but `maxHeaderBytes`, which is fixed when the server is made. */
  setLimits(limits: HttpLimits): void {
    const server = this.node;
    server.headersTimeout = limits.headersTimeoutMs;
    // Ours end a slow body first, with a fitting answer; the parser's own limit stands behind them.
    server.requestTimeout = limits.headersTimeoutMs + limits.requestTimeoutMs + 1_000;
    server.keepAliveTimeout = limits.keepAliveTimeoutMs;
    // Longer than any answer takes. Without it a client that stops reading would keep its connection for ever.
    server.timeout = limits.stallTimeoutMs;
    this.#guard.setLimits(limits);
  }

  #onRequest(req: IncomingMessage, res: ServerResponse): void {
    const { handle, isFree, requestId, upgrades } = this.#modules;
    const connection = this.#connections.get(req.socket);
    if (connection?.last !== undefined) return;
    if (connection !== undefined && this.#isBehind(req) && upgrades?.wants(req) === true) {
      connection.last = refusal(undefined, requestId(), isFree(req));
      req.socket.pause();
      return;
    }
    if (connection !== undefined) connection.res = res;
    handle(req, res);
    // A response without a socket waits behind another one, even when it is complete.
    if (connection === undefined || (res.writableEnded && res.socket !== null)) return;
    connection.open++;
    res.once("close", () => {
      connection.open--;
      if (connection.open === 0 && connection.last !== undefined) linger(req.socket, connection.last);
    });
  }

  /** True for a request that came before the answer to an earlier one on its connection was written. */
  #isBehind(req: IncomingMessage): boolean {
    return (this.#connections.get(req.socket)?.open ?? 0) > 0;
  }

  #onClientError(error: Error & { code?: string }, socket: Socket): void {
    const { log, requestId, isFree } = this.#modules;
    const connection = this.#connections.get(socket);
    if (connection?.last !== undefined) return;
    const current = connection?.res;
    const within = current !== undefined && !current.req.complete;
    // An answer to this very request is on its way or out: a second one would be read as the next request's.
    if (!socket.writable || error.code === "ECONNRESET" || (within && current.headersSent)) {
      socket.destroy();
      return;
    }
    const last = refusal(error.code, requestId(), within && isFree(current.req));
    log.debug({ code: error.code ?? "unknown" }, "a request could not be read");
    const due = (connection?.open ?? 0) - (within ? 1 : 0);
    if (connection !== undefined) connection.last = last;
    if (due > 0) socket.pause();
    else linger(socket, last);
  }
}

function refusal(cause: string | undefined, requestId: RequestId, isRpc: boolean): string {
  const [status, reason, code]: [number, string, ErrorCode] =
    cause === "HPE_HEADER_OVERFLOW"
      ? [431, "Request Header Fields Too Large", "HEADERS_TOO_LARGE"]
      : cause === "ERR_HTTP_REQUEST_TIMEOUT"
        ? [408, "Request Timeout", "REQUEST_TIMEOUT"]
        : [400, "Bad Request", "MALFORMED_REQUEST"];
  const body = isRpc ? codeError("null", code) : JSON.stringify(errorBody(code, requestId));
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "Access-Control-Allow-Origin: *",
    `X-Request-Id: ${requestId}`,
    "Connection: close",
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
