import { constants, type ServerHttp2Stream } from "node:http2";
import { Duplex } from "node:stream";
import { ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import { REFUSALS, type Refusal } from "../verification/refusal.ts";
import type { BodyBudget } from "./body-budget.ts";
import type { RelayHandler } from "./relay-handler.ts";

export interface GrpcBoundsOptions {
  readonly maxRequestBytes: number;
  /** Time for a whole request to arrive; and for a client to read on while its answer waits. */
  readonly requestTimeoutMs: number;
}

interface GrpcBoundsModules {
  readonly handler: Pick<RelayHandler, "isFull" | "refuseUnread">;
  readonly bodies: BodyBudget;
}

/** Of each message: whether it is compressed, and its length. */
const PREFIX_BYTES = 5;

/** The gRPC status of a refusal. */
export function statusOf({ status: http }: Refusal): status {
  if (http === 400) return status.INVALID_ARGUMENT;
  if (http === 403) return status.PERMISSION_DENIED;
  if (http === 404) return status.NOT_FOUND;
  if (http === 413 || http === 429) return status.RESOURCE_EXHAUSTED;
  return status.UNAVAILABLE;
}

/** @NOTE grpc-js shows interceptors whole messages only: what a client has sent of one is seen on its stream. */
function streamOf(call: object): ServerHttp2Stream | undefined {
  const stream: unknown = Reflect.get(call, "stream");
  return stream instanceof Duplex && "rstCode" in stream ? (stream as ServerHttp2Stream) : undefined;
}

/** Bounds requests while they arrive as those of HTTP are bounded: each in bytes and time, all together in bytes. */
export function boundRequests(options: GrpcBoundsOptions, { handler, bodies }: GrpcBoundsModules): ServerInterceptor {
  return (_, call) => {
    const stream = streamOf(call);
    const end = (code: status, details: string): void => {
      call.sendStatus({ code, details });
      // The client may not have ended its side, and what it still sends is of no use. Later: the status goes first.
      setImmediate(() => stream?.close(constants.NGHTTP2_NO_ERROR));
    };
    const refuse = (refusal: Refusal): void => end(statusOf(handler.refuseUnread(refusal)), refusal.error);
    if (stream === undefined) end(status.INTERNAL, "relay failed");
    else if (handler.isFull) refuse(REFUSALS.overloaded);
    else {
      let prefix = Buffer.alloc(0);
      let bytes = 0;
      const onData = (chunk: Buffer): void => {
        if (prefix.length < PREFIX_BYTES) {
          prefix = Buffer.concat([prefix, chunk.subarray(0, PREFIX_BYTES - prefix.length)]);
        }
        const messageBytes = prefix.length < PREFIX_BYTES ? 0 : prefix.readUInt32BE(1);
        if (Math.max(messageBytes, bytes + chunk.length - PREFIX_BYTES) > options.maxRequestBytes) {
          stop(REFUSALS.tooLarge);
        } else if (bodies.acquire(chunk.length)) bytes += chunk.length;
        else stop(REFUSALS.overloaded);
      };
      const late = setTimeout(
        () => end(status.DEADLINE_EXCEEDED, "the request did not arrive in time"),
        options.requestTimeoutMs,
      ).unref();
      const release = (): void => {
        clearTimeout(late);
        stream.off("data", onData);
        bodies.release(bytes);
        bytes = 0;
      };
      const stop = (refusal: Refusal): void => {
        release();
        refuse(refusal);
      };
      // Before gRPC's own listener, which keeps what it gets.
      stream.prependListener("data", onData);
      stream.once("end", release);
      stream.once("close", release);
    }
    return new ServerInterceptingCall(call, {
      sendMessage(message, next) {
        // Of a stream that nothing is written to although it has something: its client does not read.
        stream?.setTimeout(options.requestTimeoutMs, () => stream.close(constants.NGHTTP2_CANCEL));
        next(message);
      },
    });
  };
}
