import type { IncomingMessage } from "node:http";
import type { MaybePromise, RequestId, Span } from "@turnpike/base";
import type { AnyServerResponse } from "@turnpike/http1";
import type { Ending } from "../monitoring/watch.ts";
import type { Answer } from "./answer.ts";
import type { PlainRequest } from "./plain-request.ts";
import type { Target } from "./target.ts";

/** Doors of the gateway, as metrics call them. */
export type Door = "paid" | "free" | "discovery" | "monitoring";

/** What logs and traces tell of a request; its operation is filled in on the way. */
export interface Trail {
  /** What was called: a declared name, `batch`, or undefined. */
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

/** Header fields of requests that the doors read; of a plain request these alone are known. */
export type ReadField = StandardField | FurtherField;

/** Their values. */
export type ReadHeaders = { readonly [name in StandardField]?: string | undefined } & {
  readonly [name in FurtherField]?: string | string[] | undefined;
};

/** A request of `node:http`, or a plain one that came the fast way. */
export type AnyRequest = IncomingMessage | PlainRequest;

/** Where a response is written to: one of `node:http`, or that of a plain request. */
export interface ResponseSink extends AnyServerResponse {
  readonly req: AnyRequest;
}

/** One request on its way through a door. */
export interface Exchange {
  readonly req: AnyRequest;
  readonly res: ResponseSink;
  readonly requestId: RequestId;
  readonly target: Target;
  /** Monotonic milliseconds at which its head was here. */
  readonly startMs: number;
  readonly trail: Trail;
}

/** A place among the concurrent requests of a door. */
export interface Slot {
  /** Gives the place up while the client is waited for: a slow sender must not keep others from working. */
  leave(): void;
  /** Takes a place again; false when there is none left. */
  enter(): boolean;
}

/** What a door needs of the server that it is in. */
export interface Desk {
  /** Writes an answer, and counts it. */
  answer(exchange: Exchange, door: Door, service: string, answer: Answer): void;
  /** Tells logs and traces of an answer that a door has written and counted itself. */
  told(exchange: Exchange, door: Door, service: string, ending: Ending): void;
  /**
   * Does work that may go on after its client has left. Each door but monitoring has its own limit of concurrent
   * requests, so that free calls cannot take the place of paid ones. An answer of `undefined` writes nothing; a
   * rejection, or what it throws, becomes 500 INTERNAL.
   */
  work(exchange: Exchange, door: Door, service: string, work: (slot: Slot) => MaybePromise<Answer | undefined>): void;
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
