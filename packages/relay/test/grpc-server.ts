import { once } from "node:events";
import {
  createSecureServer,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type Settings,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A call that a server got, with the whole request. */
export interface GrpcCall {
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  readonly headers: IncomingHttpHeaders;
  /** As it came, with its prefix. */
  readonly body: Buffer;
}

/** A server of HTTP/2 that does with a call whatever a test says. */
export interface GrpcServer extends AsyncDisposable {
  readonly url: string;
  readonly calls: readonly GrpcCall[];
  /** Connections that are open, and all that there have been. */
  readonly open: number;
  readonly sessions: number;
  /** Streams at once, at the most. */
  readonly mostStreams: number;
}

/** What a {@link GrpcServer} is started with. */
export interface GrpcServerOptions {
  readonly tls?: { readonly key: string; readonly cert: string };
  readonly settings?: Settings;
  /** Called with each connection, and how many there have been with it. */
  readonly onSession?: (session: ServerHttp2Session, count: number) => void;
}

/** A message behind its prefix. */
export function framed(message: Uint8Array, { flag = 0, length = message.length } = {}): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, message]);
}

/** Ends a call as gRPC does: headers, bytes, and a status in the trailers. */
export function answer(stream: ServerHttp2Stream, bytes: Uint8Array, trailers: Readonly<Record<string, string>>): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.once("wantTrailers", () => stream.sendTrailers(trailers));
  stream.end(bytes);
}

/** Ends a call with a status alone. */
export function refuse(stream: ServerHttp2Stream, code: number, text: string): void {
  const status = { "grpc-status": `${code}`, "grpc-message": encodeURIComponent(text) };
  stream.respond({ ":status": 200, "content-type": "application/grpc", ...status }, { endStream: true });
}

/** Starts a {@link GrpcServer}. */
export async function startGrpcServer(
  onCall: (call: GrpcCall) => void,
  { tls, settings = {}, onSession = () => undefined }: GrpcServerOptions = {},
): Promise<GrpcServer> {
  const server = tls === undefined ? createServer({ settings }) : createSecureServer({ ...tls, settings });
  const open = new Set<ServerHttp2Session>();
  const calls: GrpcCall[] = [];
  let [sessions, streams, mostStreams] = [0, 0, 0];
  server.on("session", (session) => {
    sessions++;
    open.add(session);
    session.on("error", () => undefined);
    session.once("close", () => open.delete(session));
    onSession(session, sessions);
  });
  server.on("sessionError", () => undefined);
  server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const session = stream.session as ServerHttp2Session | undefined;
    stream.on("error", () => undefined);
    stream.once("close", () => streams--);
    mostStreams = Math.max(mostStreams, ++streams);
    void buffer(stream).then(
      (body) => {
        if (session === undefined) return;
        const call = { stream, session, headers, body };
        calls.push(call);
        onCall(call);
      },
      () => undefined,
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: tls === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`,
    calls,
    get open() {
      return open.size;
    },
    get sessions() {
      return sessions;
    },
    get mostStreams() {
      return mostStreams;
    },
    async [Symbol.asyncDispose]() {
      for (const session of open) session.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
