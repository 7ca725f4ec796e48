import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { systemClock } from "@turnpike/base";
import {
  FastListener,
  type FastListenerModules,
  type FastListenerOptions,
  fastListenerDefaults,
} from "../src/fast-listener.ts";
import type { FastRequest } from "../src/fast-request.ts";

/** Targets that begin so are not kept by the fast handler. */
export const DECLINED = "/declined";
/** Targets that begin so are answered in a later turn of the event loop. */
const LATE = "/late";
/** Targets that begin so are answered with as many bytes as follow in the target. */
const LARGE = "/large/";

/** What both ways answer to one request: all of it that a server sees. */
function responseBody(target: string, body: Buffer): Buffer {
  const size = target.startsWith(LARGE) ? Math.min(Number.parseInt(target.slice(LARGE.length), 10) || 0, 1_000_000) : 0;
  return Buffer.concat([Buffer.from(`POST ${target} `, "latin1"), body, Buffer.alloc(size, "x")]);
}

/** Answers a request on the fast way as {@link createReference} does. */
export function handleFast(request: FastRequest): boolean {
  const target = request.target();
  const { response } = request;
  if (target.startsWith(DECLINED)) return false;
  const body = responseBody(target, request.body());
  const fields = `X-Note: ${request.field("x-note") ?? "none"}\r\nContent-Type: text/plain\r\n`;
  if (target.startsWith(LATE)) setImmediate(() => response.send(200, fields, body));
  else response.send(200, fields, body);
  return true;
}

interface State {
  open: number;
  current: ServerResponse | undefined;
  last: string | undefined;
  /** 1 when the refusal is of a request that was begun and is never whole. */
  unread: number;
}

/**
 * A server of `node:http` alone, strict, which writes the answers that are due before a refusal, as the gateway does.
 * A head has at most 16 KB.
 */
export function createReference(options: ServerOptions = {}): Server {
  const states = new WeakMap<object, State>();
  const isBehind = (req: IncomingMessage): boolean => (states.get(req.socket)?.open ?? 0) > 0;
  const server = createServer({
    insecureHTTPParser: false,
    requireHostHeader: false,
    maxHeaderSize: 16_384,
    noDelay: true,
    ...options,
    shouldUpgradeCallback: (req) => !isBehind(req) && req.headers.upgrade === "websocket",
  });
  Object.assign(server, { httpAllowHalfOpen: true });
  server.maxHeadersCount = 0;
  server.timeout = 60_000;
  server.on("connection", (socket) => states.set(socket, { open: 0, current: undefined, last: undefined, unread: 0 }));
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const state = states.get(req.socket);
    if (state === undefined || state.last !== undefined) return;
    state.open++;
    state.current = res;
    let isDone = false;
    const done = (): void => {
      if (isDone) return;
      isDone = true;
      state.open--;
      if (state.open === state.unread && state.last !== undefined) req.socket.end(state.last);
    };
    // Before the server's own listener, which ends a connection whose client has half-closed.
    res.prependListener("finish", done);
    res.once("close", done);
    respond(req, res);
  };
  server.on("request", onRequest);
  server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
    res.writeContinue();
    onRequest(req, res);
  });
  // The server's own 417 is not counted among the answers that are due, so that a refusal may stand before it.
  server.on("checkExpectation", onRequest);
  server.on("upgrade", (_, socket, head) => {
    socket.on("error", () => {});
    socket.resume();
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n\r\n${head.length}`);
  });
  server.on("clientError", (error: Error & { code?: string }, stream) => {
    const socket = stream as Socket;
    const state = states.get(socket);
    if (state?.last !== undefined) return;
    if (!socket.writable || error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    const last = `HTTP/1.1 400 ${error.code ?? "unknown"}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
    const isWithin = state?.current !== undefined && !state.current.req.complete;
    const unread = isWithin ? 1 : 0;
    const due = (state?.open ?? 0) - unread;
    if (state !== undefined) Object.assign(state, { last, unread });
    if (due > 0) socket.pause();
    else socket.end(last);
  });
  return server;
}

function respond(req: IncomingMessage, res: ServerResponse): void {
  const parts: Buffer[] = [];
  req.on("error", () => {});
  req.on("data", (part: Buffer) => parts.push(part));
  req.on("end", () => {
    const note = req.headers["x-note"];
    const body =
      req.method === "POST"
        ? responseBody(req.url ?? "", Buffer.concat(parts))
        : Buffer.from(`${req.method} ${req.url} ${Buffer.concat(parts).toString("latin1")}`, "latin1");
    const write = (): void => {
      res.writeHead(200, [
        "X-Note",
        typeof note === "string" ? note : "none",
        "Content-Type",
        "text/plain",
        "Content-Length",
        String(body.length),
      ]);
      res.end(body);
    };
    if (req.url?.startsWith(LATE) === true) setImmediate(write);
    else write();
  });
}

/** Options of tests: the field `x-note` is read. */
export const TEST_OPTIONS: FastListenerOptions = {
  ...fastListenerDefaults,
  fields: ["x-note"],
  // Tests call for checks themselves.
  checkMs: 1_000_000,
};

/** A listener in front of a reference server, on a port of its own. */
export interface TestListener extends AsyncDisposable {
  readonly listener: FastListener;
  readonly server: Server;
  readonly port: number;
}

/** Starts a fast listener in front of {@link createReference}. */
export async function startListener(
  options: Partial<FastListenerOptions> = {},
  modules: Partial<FastListenerModules> = {},
): Promise<TestListener> {
  const { server = createReference() } = modules;
  const listener = new FastListener(
    { ...TEST_OPTIONS, ...options },
    { handle: handleFast, clock: systemClock, ...modules, server },
  );
  await new Promise<void>((resolve) => listener.net.listen(0, "127.0.0.1", resolve));
  return {
    listener,
    server,
    port: (listener.net.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = listener.close();
      listener.closeAllConnections();
      await closed;
    },
  };
}

/** A reference server on a port of its own. */
export async function startReference(): Promise<{ readonly port: number } & AsyncDisposable> {
  const server = createReference();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
