import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestId, Span } from "@turnpike/base";
import type { Ending } from "../monitoring/watch.ts";
import type { Answer } from "./answer.ts";
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

/** One request on its way through a door. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
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
   * rejection becomes 500 INTERNAL.
   */
  work(exchange: Exchange, door: Door, service: string, work: (slot: Slot) => Promise<Answer | undefined>): void;
}

/**
 * True when what is left of the request can be thrown away, so that its connection can serve the next one: the body is
 * on its way and has a declared length of at most six digits.
 */
export function canDiscard(req: IncomingMessage): boolean {
  const { headers } = req;
  const length = headers["content-length"];
  return (
    (length === undefined || length.length <= 6) &&
    headers["transfer-encoding"] === undefined &&
    headers.expect === undefined
  );
}
