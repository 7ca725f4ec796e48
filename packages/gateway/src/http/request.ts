import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestId } from "@turnpike/base";
import type { Answer } from "./answer.ts";
import type { Target } from "./target.ts";

/** Doors of the gateway, as metrics call them. */
export type Door = "paid" | "free" | "discovery" | "monitoring";

/** One request on its way through a door. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly requestId: RequestId;
  readonly target: Target;
  /** Monotonic milliseconds at which its head was here. */
  readonly startMs: number;
}

/** A place among the concurrent requests of a door. */
export interface Slot {
  /**
   * Waits for the client without holding the place: a slow sender must not keep others from working. Undefined when
   * there is no place left afterwards.
   */
  outside<T>(wait: () => Promise<T>): Promise<T | undefined>;
}

/** What a door needs of the server that it is in. */
export interface Desk {
  /** Writes an answer, and counts it. */
  answer(exchange: Exchange, door: Door, service: string, answer: Answer): void;
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
