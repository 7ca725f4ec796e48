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
import { REFUSALS, type Refusal } from "./refusal.ts";
import type { RelayHandler } from "./relay-handler.ts";
import { rpcTypeOf } from "./rpc-types.ts";

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

/** Larger requests than the handler's bound are refused, and counted, there; only larger ones than this by gRPC itself. */
const MAX_MESSAGE_BYTES = 4_194_304;

function statusOf({ status: http }: Refusal): status {
  if (http === 400) return status.INVALID_ARGUMENT;
  if (http === 403) return status.PERMISSION_DENIED;
  if (http === 404) return status.NOT_FOUND;
  if (http === 413 || http === 429) return status.RESOURCE_EXHAUSTED;
  return status.UNAVAILABLE;
}

/** The same relays over gRPC, on connections that another server accepted. */
export class GrpcRelays implements AsyncDisposable {
  readonly #server: Server;
  readonly #inject: (socket: Duplex) => void;

  constructor({ handler }: { readonly handler: RelayHandler }) {
    this.#server = new Server({ "grpc.max_receive_message_length": MAX_MESSAGE_BYTES });
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
        handler.handle(call.request, rpcTypeOf(rpcType?.toString()), gone.signal).then(
          async (outcome) => {
            if (outcome.kind === "refused") return fail(statusOf(outcome.refusal), outcome.refusal.error);
            if (outcome.kind === "response") return respond(null, Buffer.from(outcome.bytes));
            // A unary call has one answer: what a stream begins with. The rest is not asked for.
            for await (const bytes of outcome.responses) return respond(null, Buffer.from(bytes));
            return fail(status.UNAVAILABLE, "backend error");
          },
          () => fail(status.INTERNAL, "relay failed"),
        );
      },
    });
    const injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#inject = (socket) => injector.injectConnection(socket);
  }

  /** Serves HTTP/2 on a connection. */
  accept(socket: Duplex): void {
    this.#inject(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.forceShutdown();
    await Promise.resolve();
  }
}
