import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { AppError, isRecord, type Log } from "@turnpike/base";
import type { BodyBudget } from "./body-budget.ts";
import { REFUSALS, type Refusal, refusalBody } from "./refusal.ts";
import type { RelayHandler } from "./relay-handler.ts";
import { rpcTypeOf } from "./rpc-types.ts";

/** Follows each response of a stream (interop: transport). */
export const STREAM_DELIMITER: Uint8Array = Buffer.from("||POKT_STREAM||");

const FIRST_BYTE_TIMEOUT_MS = 10_000;

/** Options of {@link startRelayServer}. */
export interface RelayServerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxRequestBytes: number;
  readonly maxConnections: number;
  /** Time for a whole request to arrive; and for a client to read on while an answer waits to be written. */
  readonly requestTimeoutMs: number;
  /** Time for relays under way when the server is closed. */
  readonly drainTimeoutMs: number;
}

/** Modules of {@link startRelayServer}. */
export interface RelayServerModules {
  readonly handler: RelayHandler;
  readonly bodies: BodyBudget;
  /** Takes connections that speak HTTP/2 from their first byte; without one they are refused. */
  readonly onHttp2?: (socket: Socket) => void;
  /** Takes upgrades to WebSocket; without one they are refused. */
  readonly onUpgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  readonly log: Log;
}

/** A running relay server. */
export interface RelayServer extends AsyncDisposable {
  readonly port: number;
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
    socket.once("readable", () => {
      const first = socket.read() as Buffer | null;
      if (first === null) return;
      socket.setTimeout(0);
      socket.off("timeout", drop);
      socket.off("error", drop);
      socket.unshift(first);
      if (first.subarray(0, HTTP2_PREFACE.length).equals(HTTP2_PREFACE)) {
        onHttp2(socket);
        return;
      }
      passed.delete(socket);
      for (const listener of own) listener.call(server, socket);
    });
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

/**
 * Ends a connection that nothing is written to for so long although an answer waits: its client does not read. It holds
 * until the answer is finished, or {@link ServerResponse.setTimeout} is 0.
 */
function limitStall(response: ServerResponse, timeoutMs: number): void {
  response.setTimeout(timeoutMs);
  if (response.listenerCount("timeout") === 0) response.on("timeout", () => response.destroy());
}

function answerRefusal(response: ServerResponse, refusal: Refusal, close: boolean): void {
  const body = refusalBody(refusal);
  response.writeHead(refusal.status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...(close ? { Connection: "close" } : {}),
  });
  response.end(body);
}

async function answerStream(
  response: ServerResponse,
  responses: AsyncIterable<Uint8Array>,
  stallTimeoutMs: number,
): Promise<void> {
  const closed = new Promise<void>((resolve) => void response.once("close", () => resolve()));
  for await (const bytes of responses) {
    if (response.destroyed) return;
    const isRoom = response.write(Buffer.concat([bytes, STREAM_DELIMITER]));
    if (isRoom) continue;
    limitStall(response, stallTimeoutMs);
    await Promise.race([once(response, "drain"), closed]);
    // What the back-end has not sent yet is no fault of the client.
    response.setTimeout(0);
  }
  limitStall(response, stallTimeoutMs);
  response.end();
}

/**
 * Starts the server of one supplier's endpoints: any verb and path takes a RelayRequest as its body.
 * @throws AppError PORT_IN_USE
 */
export async function startRelayServer(options: RelayServerOptions, modules: RelayServerModules): Promise<RelayServer> {
  const { handler, log, onUpgrade } = modules;
  let inFlight = 0;
  let idle = Promise.withResolvers<void>();
  const count = (by: 1 | -1): void => {
    inFlight += by;
    if (inFlight === 0) idle.resolve();
    else if (by === 1 && inFlight === 1) idle = Promise.withResolvers<void>();
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const gone = new AbortController();
    response.on("close", () => {
      if (!response.writableFinished) gone.abort();
    });
    const body = await readBody(request, options.maxRequestBytes, modules.bodies);
    const stallTimeoutMs = options.requestTimeoutMs;
    if (!Buffer.isBuffer(body)) {
      limitStall(response, stallTimeoutMs);
      return answerRefusal(response, handler.refuseUnread(body), true);
    }
    const rpcType = rpcTypeOf(request.headers["rpc-type"]?.toString());
    const outcome = await handler.handle(body, rpcType, gone.signal);
    if (outcome.kind !== "stream") limitStall(response, stallTimeoutMs);
    if (outcome.kind === "refused") return answerRefusal(response, outcome.refusal, false);
    const contentType = request.headers.accept ?? "application/json";
    if (outcome.kind === "stream") {
      response.writeHead(200, { "Content-Type": contentType });
      return answerStream(response, outcome.responses, stallTimeoutMs);
    }
    response.writeHead(200, { "Content-Type": contentType, "Content-Length": outcome.bytes.length });
    response.end(outcome.bytes);
  };

  const server = createServer(
    { requestTimeout: options.requestTimeoutMs, headersTimeout: options.requestTimeoutMs, maxHeaderSize: 16_384 },
    (request, response) => {
      if (handler.isFull) return answerRefusal(response, handler.refuseUnread(REFUSALS.overloaded), true);
      count(1);
      // Not when it is written: what a relay is paid for has left only then.
      response.once("close", () => count(-1));
      serve(request, response).catch((cause: unknown) => {
        if (!response.destroyed) log.error({ cause }, "relay failed");
        response.destroy();
      });
    },
  );
  server.on("upgrade", (request, socket: Socket, head) => {
    // The server has removed its own listener: an error without one would end the process.
    socket.on("error", () => socket.destroy());
    if (onUpgrade === undefined) socket.end("HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    else onUpgrade(request, socket, head);
  });
  const { onHttp2 } = modules;
  const endHttp2 = onHttp2 === undefined ? (): void => {} : routeHttp2(server, onHttp2);
  server.maxConnections = options.maxConnections;
  server.listen(options.port, options.host);
  try {
    await once(server, "listening");
  } catch (cause) {
    if (!isRecord(cause) || cause.code !== "EADDRINUSE") throw cause;
    throw new AppError("PORT_IN_USE", {
      message: `Port ${options.port} is in use: set another in supplier.keys, and stake with it.`,
      cause,
    });
  }
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : options.port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeIdleConnections();
      if (inFlight > 0) {
        const late = AbortSignal.timeout(options.drainTimeoutMs);
        await Promise.race([idle.promise, once(late, "abort")]);
      }
      server.closeAllConnections();
      endHttp2();
      await closed;
    },
  };
}
