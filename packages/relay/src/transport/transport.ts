import type { FailureReason } from "../families/family.ts";
import type { Blame } from "../types.ts";

/** Headers of a response, names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What an endpoint answered, as it came. */
export interface UpstreamResponse {
  readonly ok: true;
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** Empty when the body is streamed, or was truncated. */
  readonly body: Uint8Array;
  /** True when the body is larger than the request allows. */
  readonly isTruncated: boolean;
  /** The bytes of a large body while they arrive, for one reader. Rejects when the supplier breaks off. */
  readonly stream: AsyncIterable<Uint8Array> | undefined;
}

/** A request that brought no response. */
export interface TransportFailure {
  readonly ok: false;
  readonly blame: Blame;
  readonly reason: TransportReason;
  /** True when nothing of the request was sent: even a write may go to another supplier. */
  readonly isUnsent: boolean;
}

/** Why a request brought no response. */
export type TransportReason = Extract<FailureReason, "timeout" | "connection" | "overloaded" | "aborted">;

/** The value of a header, the first of several; empty when there is none. */
export function headerOf({ headers }: Pick<UpstreamResponse, "headers">, name: string): string {
  const value = headers[name];
  return (typeof value === "string" ? value : value?.[0]) ?? "";
}

/** How long the supplier asks to be left alone (`Retry-After` in seconds); undefined when it does not. */
export function retryAfterMsOf(response: Pick<UpstreamResponse, "headers">): number | undefined {
  const text = headerOf(response, "retry-after");
  return /^[0-9]{1,6}$/.test(text) ? Number(text) * 1_000 : undefined;
}
