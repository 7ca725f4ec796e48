import { constants, type ServerHttp2Stream } from "node:http2";
import { Duplex } from "node:stream";
import {
  type handleUnaryCall,
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  setLogVerbosity,
} from "@grpc/grpc-js";
import {
  type AnswerReader,
  AppError,
  type ClientKey,
  ConnectionGuard,
  connectionCounts,
  Http2Guard,
  type ReleaseBytes,
  type WriteBufferBudget,
} from "@turnpike/base";
import { GRPC_STATUS } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import type { ChainApiOptions } from "../services/base-services.ts";
import { ChainApi, type ChainApiModules, unknownPath } from "../services/chain-api.ts";
import { HEIGHT_HEADER } from "../services/query-height.ts";
import { MAX_TX_REQUEST_BYTES } from "../services/request-bounds.ts";
import { createWriteBuffer, WRITE_BUFFER_FULL } from "../write-buffer.ts";
import { REFLECTION_SERVICES, reflect } from "./server-reflection.ts";

/** Plain values of the gRPC server. */
export interface GrpcServerOptions extends ChainApiOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Largest request; by default that of a transaction. What a query may have is less. */
  readonly maxRequestBytes?: number;
  readonly maxConnections?: number;
  /** Maximum of one address, or one /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number;
  /** Proxies, which connect for many clients: these have no such bound. None by default. */
  readonly trustedProxies?: readonly string[];
  /** Time after which a connection without a call is closed; 300,000 by default. */
  readonly idleTimeoutMs?: number;
  /** Time in which a client must read an answer, else its connection is closed; 30,000 by default. */
  readonly writeTimeoutMs?: number;
  /** Calls at one time on one connection; 100 by default, what is more waits at the client. */
  readonly maxConcurrentStreams?: number;
  /** How long calls may still run when the server is closed. */
  readonly closeGraceMs?: number;
}

/** The modules of the gRPC server. */
export interface GrpcServerModules extends ChainApiModules {
  /** Shared by all servers of a node; without it the answers of this one alone are bounded together. */
  readonly writeBuffer?: WriteBufferBudget;
}

/** A server that listens until it is disposed. */
export interface ListeningServer extends AsyncDisposable {
  readonly port: number;
}

const IDLE_TIMEOUT_MS = 300_000;
const WRITE_TIMEOUT_MS = 30_000;
/** Maximum requests of one reflection stream. */
const MAX_REFLECTION_REQUESTS = 1000;
/** Where the table keeps what answers paths that it does not have. No gRPC path looks like this. */
const ANY_PATH = "";

type ReflectionCall = ServerDuplexStream<Bytes, Bytes>;

/** Handlers by path; one of them answers all other paths, because the server's own text differs from Go's. */
class HandlerTable extends Map<string, object> {
  override get(path: string): object | undefined {
    const found = super.get(path);
    if (found !== undefined) return found;
    const other = super.get(ANY_PATH);
    return other === undefined ? undefined : { ...other, path };
  }
}

const toBuffer = (bytes: Bytes): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const toBytes = (buffer: Buffer): Bytes => buffer;

/** The HTTP/2 stream of a call, which the library gives no access to. */
function streamOf(call: object): ServerHttp2Stream | undefined {
  const stream: unknown = Reflect.get(Reflect.get(call, "call") ?? {}, "stream");
  return stream instanceof Duplex ? (stream as ServerHttp2Stream) : undefined;
}

/** Reader of a call's answer; it is closed by a reset of the call's stream alone. */
function readerOf(call: ServerUnaryCall<Bytes, Bytes> | ReflectionCall, client: ClientKey): AnswerReader {
  return { client, connection: call, close: () => streamOf(call)?.close(constants.NGHTTP2_CANCEL) };
}

/** Key under which a call's client is counted. The library has the address with the port behind it. */
function clientOf(guard: ConnectionGuard, peer: string): ClientKey {
  return guard.clientOf({ remoteAddress: peer.slice(0, Math.max(0, peer.lastIndexOf(":"))) });
}

interface UnaryModules {
  readonly api: ChainApi;
  readonly guard: ConnectionGuard;
  readonly writeBuffer: WriteBufferBudget;
}

function unaryHandler(path: string, { api, guard, writeBuffer }: UnaryModules): handleUnaryCall<Bytes, Bytes> {
  return (call: ServerUnaryCall<Bytes, Bytes>, respond: sendUnaryData<Bytes>) => {
    const heights = call.metadata.get(HEIGHT_HEADER);
    // One that is sent twice is not read, as in the SDK.
    const height = heights.length === 1 ? heights[0]?.toString() : undefined;
    const client = clientOf(guard, call.getPeer());
    void api.call(path, call.request, height, client).then((answer) => {
      if (call.cancelled) return;
      // Small ones, too: a connection has many calls.
      const release = answer.ok ? writeBuffer.reserve(answer.value.length, readerOf(call, client)) : undefined;
      if (answer.ok && release === undefined) {
        respond({ code: GRPC_STATUS.Unavailable, details: WRITE_BUFFER_FULL, metadata: new Metadata() });
        return;
      }
      // The library has this event also after the whole answer was sent.
      if (release !== undefined) call.once("cancelled", release);
      if (answer.heightBlocks !== undefined) {
        const header = new Metadata();
        header.set(HEIGHT_HEADER, answer.heightBlocks.toString());
        call.sendMetadata(header);
      }
      if (answer.ok) respond(null, answer.value);
      else respond({ code: answer.status, details: answer.text, metadata: new Metadata() });
    });
  };
}

function reflectionHandler(
  services: readonly string[],
  { guard, writeBuffer }: Omit<UnaryModules, "api">,
): (call: ReflectionCall) => void {
  return (call) => {
    const reader = readerOf(call, clientOf(guard, call.getPeer()));
    const unread = new Set<ReleaseBytes>();
    let requests = 0;
    const refuse = (code: number, details: string): void => {
      requests = MAX_REFLECTION_REQUESTS + 1;
      call.emit("error", { code, details, metadata: new Metadata() });
    };
    call.once("cancelled", () => {
      for (const release of unread) release();
      unread.clear();
    });
    call.on("data", (request: Bytes) => {
      if (call.cancelled || requests > MAX_REFLECTION_REQUESTS) return;
      requests++;
      if (requests > MAX_REFLECTION_REQUESTS) {
        refuse(GRPC_STATUS.ResourceExhausted, "too many requests");
        return;
      }
      const answer = reflect(request, services);
      if (!answer.ok) {
        refuse(answer.status, answer.text);
        return;
      }
      const release = writeBuffer.reserve(answer.value.length, reader);
      if (release === undefined) {
        refuse(GRPC_STATUS.Unavailable, WRITE_BUFFER_FULL);
        return;
      }
      unread.add(release);
      const isRead = call.write(answer.value, () => {
        unread.delete(release);
        release();
      });
      if (isRead) return;
      call.pause();
      call.once("drain", () => call.resume());
    });
    call.on("end", () => {
      if (requests <= MAX_REFLECTION_REQUESTS) call.end();
    });
  };
}

function unknownHandler(services: readonly string[]): (call: ReflectionCall) => void {
  return (call) => {
    const { status, text } = unknownPath(call.getPath(), services);
    call.emit("error", { code: status, details: text, metadata: new Metadata() });
  };
}

function listen(server: Server, host: string, port: number): Promise<number> {
  // The library would write to the error output what is logged here, too.
  setLogVerbosity(logVerbosity.NONE);
  const place = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(place, ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(new AppError("PORT_IN_USE", { message: `gRPC cannot listen on ${place}.`, cause: error }));
    });
  });
}

/**
 * Serves the chain's gRPC: all queries of the application's modules, the services beside them, and server reflection.
 * `Msg` services are not served, as on the real network. Keepalive pings are answered however often they come.
 * @throws AppError PORT_IN_USE
 */
export async function startGrpcServer(opts: GrpcServerOptions, modules: GrpcServerModules): Promise<ListeningServer> {
  const {
    host,
    port,
    maxRequestBytes = MAX_TX_REQUEST_BYTES,
    maxConcurrentStreams = 100,
    closeGraceMs = 1000,
    ...rest
  } = opts;
  const { maxConnections = 1000, idleTimeoutMs = IDLE_TIMEOUT_MS, writeTimeoutMs = WRITE_TIMEOUT_MS } = opts;
  const counts = connectionCounts("chain-grpc", modules.metrics);
  const guard = new ConnectionGuard({ ...opts, maxConnections }, counts);
  const api = new ChainApi(rest, modules);
  const unary = { api, guard, writeBuffer: modules.writeBuffer ?? createWriteBuffer() };
  const services = [...api.services(), ...REFLECTION_SERVICES].sort();
  const server = new Server({
    "grpc.max_receive_message_length": maxRequestBytes,
    "grpc.max_concurrent_streams": maxConcurrentStreams,
    "grpc.enable_channelz": 0,
  });
  Reflect.set(server, "handlers", new HandlerTable());
  for (const path of api.paths()) server.register(path, unaryHandler(path, unary), toBuffer, toBytes, "unary");
  for (const service of REFLECTION_SERVICES) {
    const path = `/${service}/ServerReflectionInfo`;
    server.register(path, reflectionHandler(services, unary), toBuffer, toBytes, "bidi");
  }
  server.register(ANY_PATH, unknownHandler(services), toBuffer, toBytes, "bidi");
  const bound = await listen(server, host, port);
  const http2 = new Http2Guard(
    { idleTimeoutMs, stallTimeoutMs: writeTimeoutMs },
    { guard, log: modules.log, onFault: counts.onFault },
  );
  http2.watchGrpc(server);
  modules.log.info({ host, port: bound, services: services.length }, "gRPC is served");
  return {
    port: bound,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        http2[Symbol.dispose]();
        const timer = setTimeout(() => {
          server.forceShutdown();
          http2.closeAllConnections();
        }, closeGraceMs);
        server.tryShutdown(() => {
          clearTimeout(timer);
          resolve();
        });
      }),
  };
}
