import type { Clock } from "@turnpike/base";
import { FastListener, type FastRequest, fastListenerDefaults } from "@turnpike/http1";
import { PlainRequest, PlainResponse, type ReadField, type ResponseSink } from "./request.ts";
import type { HttpServer } from "./server.ts";

interface PlainListenerOptions {
  /** Most header lines of a request. */
  readonly maxHeaders: () => number;
  /** Most bytes of a request's head. */
  readonly maxHeaderBytes: number;
}

interface PlainListenerModules {
  /** Gets every request that is not plain. */
  readonly server: HttpServer;
  readonly handle: (req: PlainRequest, res: ResponseSink) => void;
  /** False: the server answers all requests. */
  readonly isReady: () => boolean;
  readonly clock: Clock;
}

/** Fields with which a request is not plain. */
type Excluded = "content-encoding" | "expect" | "transfer-encoding";
/** Fields that handlers read of other verbs than POST. */
type OfOtherVerbs = "access-control-request-headers" | "if-none-match";
/** Fields that handlers read of a plain request, beside its host and length. */
type PlainField = Exclude<ReadField, Excluded | OfOtherVerbs | "host" | "content-length">;

// All of them: a field that a handler comes to read of a POST must be added here.
const ALL: Readonly<Record<PlainField, true>> = {
  accept: true,
  "payment-signature": true,
  "target-service-id": true,
  traceparent: true,
  "x-api-key": true,
  "x-cosmos-block-height": true,
  "x-forwarded-for": true,
  "x-request-id": true,
};
const FIELDS = Object.keys(ALL) as readonly PlainField[];

/** Listens in the place of a server of `node:http`, and brings plain requests to the handlers by a shorter way. */
export function createPlainListener(
  { maxHeaders, maxHeaderBytes }: PlainListenerOptions,
  { server, handle, isReady, clock }: PlainListenerModules,
): FastListener {
  const serve = (request: FastRequest): boolean => {
    const { head, response } = request;
    const { socket } = response;
    if (socket === undefined || head.lines > maxHeaders() || !isReady()) return false;
    const headers: { [name in ReadField]?: string } = {
      host: request.field("host") ?? "",
      "content-length": request.field("content-length") ?? "",
    };
    for (const name of FIELDS) {
      const value = request.field(name);
      if (value !== undefined) headers[name] = value;
    }
    const req = new PlainRequest(request.target(), headers, Buffer.from(request.body()), socket);
    handle(req, new PlainResponse(req, response));
    return true;
  };
  return new FastListener(
    {
      ...fastListenerDefaults,
      maxHeadBytes: Math.min(fastListenerDefaults.maxHeadBytes, maxHeaderBytes),
      fields: ["host", "content-length", ...FIELDS],
    },
    { server: server.node, handle: serve, admit: (socket, idleMs) => server.admit(socket, idleMs), clock },
  );
}

/**
 * Closes a listener, which closes the server behind it. The server's idle connections are not closed here: to it, a connection
 * is idle that was handed to it in the middle of a request.
 */
export async function closeListener(listener: FastListener): Promise<void> {
  if (listener.net.listening) await listener.close();
}
