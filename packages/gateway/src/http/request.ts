import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { ErrorCode, RequestId, Span } from "@turnpike/base";
import { type AnyServerResponse, type FastResponse, FastServerResponse } from "@turnpike/http1";
import type { Target } from "./target.ts";

/** Groups of routes; each has its own limit of concurrent requests. Metrics and logs have them as `door`. */
export type RouteGroup = "paid" | "free" | "discovery" | "monitoring";

/** What logs and traces need of one request while it is served. */
export interface RequestContext {
  /** What was called, once that is known: a declared name, `batch`, or undefined. */
  operation: string | undefined;
  readonly span: Span;
  /** True when it is in the sample of the access log. */
  readonly isSampled: boolean;
}

/** Fields that `node:http` knows, and gives as one text. */
type StandardField =
  | "accept"
  | "access-control-request-headers"
  | "content-encoding"
  | "content-length"
  | "expect"
  | "host"
  | "if-none-match"
  | "transfer-encoding";
type FurtherField =
  | "payment-signature"
  | "target-service-id"
  | "traceparent"
  | "x-api-key"
  | "x-cosmos-block-height"
  | "x-forwarded-for"
  | "x-request-id";

/** Header fields of requests that handlers read; of a plain request these alone are known. */
export type ReadField = StandardField | FurtherField;

type ReadHeaders = { readonly [name in StandardField]?: string | undefined } & {
  readonly [name in FurtherField]?: string | string[] | undefined;
};

/**
 * A plain request that came the fast way: a POST whose whole body is here. It has what handlers read of a request of
 * `node:http`, and none of its events.
 */
export class PlainRequest {
  readonly method = "POST";
  readonly httpVersion = "1.1";
  readonly complete = true;
  readonly url: string;
  readonly headers: ReadHeaders;
  /** Its one Host: how many lines there are, the listener has checked. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array;
  readonly socket: Socket;

  constructor(url: string, headers: ReadHeaders, body: Uint8Array, socket: Socket) {
    this.url = url;
    this.headers = headers;
    this.rawHeaders = ["Host", headers.host ?? ""];
    this.body = body;
    this.socket = socket;
  }
}

/** A request of `node:http`, or a plain one that came the fast way. */
export type AnyRequest = IncomingMessage | PlainRequest;

/** Where a response is written to: one of `node:http`, or that of a plain request. */
export interface ResponseSink extends AnyServerResponse {
  readonly req: AnyRequest;
}

/** Where the response to a plain request is written to. */
export class PlainResponse extends FastServerResponse implements ResponseSink {
  readonly req: PlainRequest;

  constructor(req: PlainRequest, response: FastResponse) {
    super(response);
    this.req = req;
  }
}

/** One request and the response to it. */
export interface Exchange {
  readonly req: AnyRequest;
  readonly res: ResponseSink;
  readonly requestId: RequestId;
  readonly target: Target;
  /** Monotonic milliseconds at which its head was here. */
  readonly startMs: number;
  readonly context: RequestContext;
}

/**
 * True when what is left of the request can be thrown away, so that its connection can serve the next one: the body is
 * on its way and has a declared length of at most six digits.
 */
export function canDiscard(req: AnyRequest): boolean {
  const { headers } = req;
  const length = headers["content-length"];
  return (
    (length === undefined || length.length <= 6) &&
    headers["transfer-encoding"] === undefined &&
    headers.expect === undefined
  );
}

/** Why a request's head cannot be served; undefined when it can. Its host is checked before its path. */
export function headFault(
  { req, target }: Pick<Exchange, "req" | "target">,
  maxHeaders: number,
): ErrorCode | undefined {
  if (req.rawHeaders.length > maxHeaders * 2) return "HEADERS_TOO_LARGE";
  const hosts = countHosts(req.rawHeaders);
  const noHost = hosts === 0 && req.httpVersion === "1.1";
  return target.path === "" || hosts > 1 || noHost ? "MALFORMED_REQUEST" : undefined;
}

/** `Host` lines of raw headers. */
export function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count;
}
