import { once } from "node:events";
import type { Duplex } from "node:stream";
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { type Clock, type ConnectionGuard, Http2Guard, type Log } from "@turnpike/base";
import { REFUSALS } from "../verification/refusal.ts";
import type { BodyBudget } from "./body-budget.ts";
import { boundRequests, type GrpcBoundsOptions, statusOf } from "./grpc-bounds.ts";
import type { RelayHandler } from "./relay-handler.ts";
import { rpcTypeOf } from "./rpc-types.ts";

type ConnectionInjector = ReturnType<Server["createConnectionInjector"]>;

const identity = (bytes: Buffer): Buffer => bytes;

/** `pocket.service.RelayService`, with messages as bytes: they are signed as they come. */
const RELAY_SERVICE: ServiceDefinition = {
  SendRelay: {
    path: "/pocket.service.RelayService/SendRelay",
    requestStream: false,
    responseStream: false,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  },
};

/** Calls at once on a connection; clients that need more wait, or open another. */
const MAX_STREAMS = 1_000;
/** A connection without a call keeps its place so long. */
const IDLE_TIMEOUT_MS = 60_000;

interface GrpcRelaysOptions extends GrpcBoundsOptions {
  readonly drainTimeoutMs: number;
  /** Time after which a connection without a call is closed; 60,000 by default. */
  readonly idleTimeoutMs?: number;
}

interface GrpcRelaysModules {
  readonly handler: RelayHandler;
  readonly bodies: BodyBudget;
  readonly guard: ConnectionGuard;
  readonly log: Log;
  readonly clock: Clock;
  /** Called for each fault of a connection that the server contains. */
  readonly onFault: () => void;
}

/** The same relays over gRPC, on connections that another server accepted. */
export class GrpcRelays implements AsyncDisposable {
  readonly #server: Server;
  readonly #injector: ConnectionInjector;
  readonly #http2: Http2Guard;
  readonly #drainTimeoutMs: number;
  #inFlight = 0;
  #idle = Promise.resolve();
  #onIdle = (): void => {};
  #isClosed = false;

  constructor(options: GrpcRelaysOptions, modules: GrpcRelaysModules) {
    const { handler } = modules;
    this.#drainTimeoutMs = options.drainTimeoutMs;
    this.#server = new Server({
      // Also of what is decompressed.
      "grpc.max_receive_message_length": options.maxRequestBytes,
      "grpc.max_concurrent_streams": MAX_STREAMS,
      "grpc.enable_channelz": 0,
      interceptors: [boundRequests(options, modules)],
    });
    this.#server.addService(RELAY_SERVICE, {
      SendRelay: (call: ServerUnaryCall<Buffer, Buffer>, respond: sendUnaryData<Buffer>) => {
        const gone = new AbortController();
        call.on("cancelled", () => gone.abort());
        const [rpcType] = call.metadata.get("rpc-type");
        const fail = (code: status, details: string): void => respond({ code, details, metadata: new Metadata() });
        if (handler.isFull) {
          const refusal = handler.refuseUnread(REFUSALS.overloaded);
          return fail(statusOf(refusal), refusal.error);
        }
        this.#count(1);
        const served = handler.handle(call.request, rpcTypeOf(rpcType?.toString()), gone.signal).then(
          async (outcome) => {
            if (outcome.kind === "refused") return fail(statusOf(outcome.refusal), outcome.refusal.error);
            if (outcome.kind === "response") return respond(null, Buffer.from(outcome.bytes));
            // A unary call has one answer: what a stream begins with. The rest is not asked for.
            for await (const bytes of outcome.responses) return respond(null, Buffer.from(bytes));
            return fail(status.UNAVAILABLE, "backend error");
          },
          () => fail(status.INTERNAL, "relay failed"),
        );
        void served.finally(() => this.#count(-1));
      },
    });
    this.#injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    // Idle connections are its matter too: the library's own time-out reads addresses of sessions that are gone, and throws.
    this.#http2 = new Http2Guard({ idleTimeoutMs: options.idleTimeoutMs ?? IDLE_TIMEOUT_MS }, modules);
    this.#http2.watchGrpc(this.#server);
  }

  #count(by: 1 | -1): void {
    this.#inFlight += by;
    if (this.#inFlight === 0) this.#onIdle();
    else if (by === 1 && this.#inFlight === 1) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = promise;
      this.#onIdle = resolve;
    }
  }

  /** Serves HTTP/2 on a connection. */
  accept(socket: Duplex): void {
    if (this.#isClosed) socket.destroy();
    else this.#injector.injectConnection(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#http2[Symbol.dispose]();
    this.#injector.drain(this.#drainTimeoutMs);
    await Promise.race([this.#idle, once(AbortSignal.timeout(this.#drainTimeoutMs), "abort")]);
    // The last answers are written in this turn.
    await new Promise(setImmediate);
    this.#server.forceShutdown();
    this.#http2.closeAllConnections();
  }
}
