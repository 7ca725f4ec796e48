import { once } from "node:events";
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { AppError, type Clock, type ConnectionGuard, createGuardedServer, isRecord, type Log } from "@turnpike/base";
import {
  FastListener,
  type FastListenerCounts,
  type FastRequest,
  FastServerResponse,
  fastListenerDefaults,
} from "@turnpike/http1";
import { REFUSALS, type Refusal } from "../verification/refusal.ts";
import type { BodyBudget } from "./body-budget.ts";
import { RelayExchanges } from "./relay-exchange.ts";
import type { RelayHandler } from "./relay-handler.ts";

const MAX_HEAD_BYTES = 16_384;
const FIRST_BYTE_TIMEOUT_MS = 10_000;

interface RelayServerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxRequestBytes: number;
  /** Time for a whole request to arrive; and for a client to read on while an answer waits to be written. */
  readonly requestTimeoutMs: number;
  /** Time for relays under way when the server is closed. */
  readonly drainTimeoutMs: number;
}

interface RelayServerModules {
  readonly handler: RelayHandler;
  readonly bodies: BodyBudget;
  /** Counts the connections of all servers that have it. */
  readonly guard: ConnectionGuard;
  /** Takes connections that speak HTTP/2 from their first byte; without one they are refused. */
  readonly onHttp2?: (socket: Socket) => void;
  /** Takes upgrades to WebSocket; without one they are refused. */
  readonly onUpgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** A running relay server. */
export interface RelayServer extends AsyncDisposable {
  readonly port: number;
  /** Connections and plain requests so far. */
  readonly counts: FastListenerCounts;
}

/** How a connection of HTTP/2 without TLS begins (RFC 9113 §3.4); no verb of HTTP/1.1 does. */
const HTTP2_PREFACE = Buffer.from("PRI");

/**
 * Puts itself before the server's own handling of connections: those of HTTP/2 go elsewhere. The server accepts them all, so
 * that its time-outs and its closing hold for what stays with it. Returns a way to end those that went.
 */
function routeHttp2(server: Server, onHttp2: (socket: Socket) => void): () => void {
  const own = server.listeners("connection") as ((socket: Socket) => void)[];
  const passed = new Set<Socket>();
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const drop = (): void => void socket.destroy();
    socket.setTimeout(FIRST_BYTE_TIMEOUT_MS, drop);
    socket.on("error", drop);
    passed.add(socket);
    socket.once("close", () => passed.delete(socket));
    const route = (): void => {
      const first = socket.read() as Buffer | null;
      if (first === null) return;
      socket.setTimeout(0);
      socket.off("timeout", drop);
      socket.off("error", drop);
      socket.unshift(first);
      // Behind a request of HTTP/1.1 the preface is none: it is for the server to refuse.
      if (socket.bytesWritten === 0 && first.subarray(0, HTTP2_PREFACE.length).equals(HTTP2_PREFACE)) {
        onHttp2(socket);
        return;
      }
      passed.delete(socket);
      for (const listener of own) listener.call(server, socket);
    };
    // A stream that is full or has ended does not say once more that it is readable.
    if (socket.readableLength > 0) route();
    else socket.once("readable", route);
  });
  return () => {
    for (const socket of passed) socket.destroy();
  };
}

/** The body within a bound, or why it is not read. Rejects when the client breaks off. */
async function readBody(request: IncomingMessage, maxBytes: number, budget: BodyBudget): Promise<Buffer | Refusal> {
  const said = Number(request.headers["content-length"] ?? "0");
  if (said > maxBytes) return REFUSALS.tooLarge;
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // A refused one still gets its answer.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      if (size + chunk.length > maxBytes) return REFUSALS.tooLarge;
      if (!budget.acquire(chunk.length)) return REFUSALS.overloaded;
      size += chunk.length;
      chunks.push(chunk);
    }
    const [only] = chunks;
    return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size);
  } finally {
    budget.release(size);
  }
}

/** The server that gets what is not plain: GET, chunks, upgrades, HTTP/2, large and slow bodies, and what is odd. */
function createFullServer(options: RelayServerOptions, modules: RelayServerModules, exchanges: RelayExchanges): Server {
  const { bodies, guard, onUpgrade } = modules;
  const server = createGuardedServer(
    guard,
    { requestTimeout: options.requestTimeoutMs, maxHeaderSize: MAX_HEAD_BYTES },
    (request, response) => {
      exchanges.serve({
        rpcType: request.headers["rpc-type"]?.toString(),
        accept: request.headers.accept,
        body: () => readBody(request, options.maxRequestBytes, bodies),
        response,
      });
    },
  );
  server.on("upgrade", (request, socket: Socket, head) => {
    // The server has removed its own listener: an error without one would end the process.
    socket.on("error", () => socket.destroy());
    if (onUpgrade === undefined) socket.end("HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    else onUpgrade(request, socket, head);
  });
  return server;
}

/** Listens in the place of the server, and serves plain relays by a shorter way. */
function createPlainListener(
  options: RelayServerOptions,
  { bodies, guard, clock }: RelayServerModules,
  { server, exchanges }: { readonly server: Server; readonly exchanges: RelayExchanges },
): FastListener {
  const handle = (request: FastRequest): boolean => {
    const body = Buffer.from(request.body());
    exchanges.serve({
      rpcType: request.field("rpc-type"),
      accept: request.field("accept"),
      body: () => Promise.resolve(body),
      response: new FastServerResponse(request.response),
    });
    return true;
  };
  return new FastListener(
    {
      ...fastListenerDefaults,
      maxHeadBytes: Math.min(fastListenerDefaults.maxHeadBytes, MAX_HEAD_BYTES),
      maxBodyBytes: Math.min(fastListenerDefaults.maxBodyBytes, options.maxRequestBytes),
      firstByteTimeoutMs: FIRST_BYTE_TIMEOUT_MS,
      stallTimeoutMs: options.requestTimeoutMs,
      allowHalfOpen: false,
      fields: ["rpc-type", "accept"],
    },
    { server, handle, admit: (socket, idleMs) => guard.admit(socket, idleMs), heldBytes: bodies, clock },
  );
}

/**
 * Starts the server of one supplier's endpoints: any verb and path takes a RelayRequest as its body.
 * @throws AppError PORT_IN_USE
 */
export async function startRelayServer(options: RelayServerOptions, modules: RelayServerModules): Promise<RelayServer> {
  const { onHttp2 } = modules;
  const exchanges = new RelayExchanges({ stallTimeoutMs: options.requestTimeoutMs }, modules);
  const server = createFullServer(options, modules, exchanges);
  const endHttp2 = onHttp2 === undefined ? (): void => {} : routeHttp2(server, onHttp2);
  const listener = createPlainListener(options, modules, { server, exchanges });
  listener.net.listen(options.port, options.host);
  try {
    await once(listener.net, "listening");
  } catch (cause) {
    if (!isRecord(cause) || cause.code !== "EADDRINUSE") throw cause;
    throw new AppError("PORT_IN_USE", {
      message: `Port ${options.port} is in use: set another in supplier.keys, and stake with it.`,
      cause,
    });
  }
  const address = listener.net.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : options.port,
    counts: listener.counts,
    async [Symbol.asyncDispose]() {
      const closed = listener.close();
      // The server reads what it was handed by that in this turn of the event loop.
      await new Promise(setImmediate);
      const late = AbortSignal.timeout(options.drainTimeoutMs);
      await Promise.race([exchanges.idle, once(late, "abort")]);
      listener.closeAllConnections();
      endHttp2();
      await closed;
    },
  };
}
