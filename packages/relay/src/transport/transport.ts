import type { RpcType } from "@turnpike/protocol";
import type { FailureReason } from "../families/family.ts";
import type { Blame } from "../types.ts";

/** What a request is sent for: what suppliers are sent is counted and budgeted by it. */
export type SendPurpose =
  /** The first attempt at a client's call. */
  | "client"
  /** A further attempt, after one that failed. */
  | "retry"
  /** A second supplier, asked because the first is slow. */
  | "hedge"
  /** A question of ours: whether a supplier lives, and what it has. */
  | "probe"
  /** A further supplier, asked to confirm an answer. */
  | "comparison";

/** One way of reaching one supplier of a service. */
export interface SupplierEndpoint {
  /** Name or address of who runs it. Together with `rpcType` it is what quality is kept by. */
  readonly operator: string;
  readonly rpcType: RpcType;
  /** Equal for endpoints that lead to the same back-end in the same way: these are probed together. Holds no secret. */
  readonly backendKey: string;
  /** What logs and the admin API show of where it leads. Holds no secret. */
  readonly label: string;
  /** True: each request to it is paid for, so that nothing is asked that can be done without. */
  readonly isPaid?: boolean;
  /** True: it is asked only where no other endpoint of the service can be hoped for. */
  readonly isReserve?: boolean;
  /** What reaches it. */
  readonly transport: SupplierTransport;
  /** What the transport needs to know of it, and nothing else reads. */
  readonly handle: object;
}

/** One HTTP request to an endpoint. */
export interface UpstreamRequest {
  readonly purpose: SendPurpose;
  readonly method: "GET" | "POST";
  /** Path and query below the endpoint's root; empty for the root. */
  readonly path: string;
  /** Beside those that the transport sets itself; names in lower case. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly body: Uint8Array | undefined;
  readonly timeoutMs: number;
  /** A larger body is cut off, and comes back as truncated. */
  readonly maxResponseBytes: number;
  readonly signal: AbortSignal | undefined;
  /** Gets a way to end the request as `aborted`. */
  readonly handle?: SendHandle | undefined;
  /** When the body may be streamed. A transport that has to see all of it before need not. */
  readonly stream?: StreamRules | undefined;
}

/** A cheap way to end one request early. The transport sets `cancel`. */
export interface SendHandle {
  cancel?: () => void;
  /** Its result is not waited for any more. */
  isOver?: boolean;
}

/** When a body is passed on while it arrives. */
export interface StreamRules {
  /** Smaller bodies are buffered. */
  readonly afterBytes: number;
  /** Larger ones are cut off. */
  readonly maxBytes: number;
  /** Longest time from its first byte passed on to its last. */
  readonly timeoutMs: number;
  /** Reads the beginning of a body; what to pass on in its place, or undefined: this one is buffered. */
  head(beginning: Buffer, status: number): Uint8Array | undefined;
  /** Called when bytes that were passed on turn out not to be JSON: their supplier's fault. */
  malformed?(): void;
}

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

/**
 * Why a request brought no response. `over_limit`: the supplier serves no more of this session, which is not held against
 * it. `bad_signature`: what came is not signed by the supplier, so it must not be used, and the supplier no more.
 */
export type TransportReason = Extract<
  FailureReason,
  "timeout" | "connection" | "overloaded" | "aborted" | "over_limit" | "bad_signature"
>;

/** A request that brought no response. */
export interface TransportFailure {
  readonly ok: false;
  readonly blame: Blame;
  readonly reason: TransportReason;
  /** True when nothing of the request was sent: even a write may go to another supplier. */
  readonly isNotSent: boolean;
}

/** What a WebSocket to an endpoint is opened with. */
export interface SocketRequest {
  readonly purpose: SendPurpose;
  readonly timeoutMs: number;
  /** A larger message ends the socket. */
  readonly maxMessageBytes: number;
  readonly signal: AbortSignal | undefined;
}

/** What is done with what comes over a WebSocket. */
export interface SocketHandlers {
  message(bytes: Buffer): void;
  pong(): void;
  /** Called once, also after `terminate`. */
  closed(code?: number): void;
}

/** An open WebSocket to an endpoint. It reads nothing before `listen`, so that what comes at once is not lost. */
export interface TransportSocket {
  readonly ok: true;
  readonly isOpen: boolean;
  /** Bytes that were not yet written. */
  readonly bufferedBytes: number;
  /** Sets the handlers and begins to read. Called once. */
  listen(handlers: SocketHandlers): void;
  /** Sends one text message; bytes are sent as they are. */
  send(text: string | Uint8Array): void;
  ping(): void;
  pause(): void;
  resume(): void;
  /** Ends it at once. */
  terminate(): void;
}

/** Reaches suppliers: the one way from the engine to an endpoint. Neither method rejects for what a supplier does. */
export interface SupplierTransport {
  /** Sends one HTTP request. It ends by its time-out, by its signal or handle, or with a response. */
  send(endpoint: SupplierEndpoint, request: UpstreamRequest): Promise<UpstreamResponse | TransportFailure>;
  /** Opens a WebSocket. */
  openSocket(endpoint: SupplierEndpoint, request: SocketRequest): Promise<TransportSocket | TransportFailure>;
}

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
