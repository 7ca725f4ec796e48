import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import type { Deadline, Deadlines } from "@turnpike/base";
import { type AbortWatch, unwatchAbort, watchAbort } from "./abort-watch.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { frameMessage, type GrpcStatus, httpStatusOf, MessageReader, readGrpcStatus } from "./grpc-message.ts";
import type { GrpcLink, GrpcOrigin } from "./grpc-origin.ts";
import type { ResponseHeaders, TransportFailure, UpstreamRequest, UpstreamResponse } from "./transport.ts";

interface GrpcExchangeModules {
  readonly budget: ByteBudget;
  readonly deadlines: Deadlines;
}

/** Where a unary call goes. */
export interface GrpcTarget {
  readonly origin: GrpcOrigin;
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Names in lower case. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Largest time-out that gRPC can say in milliseconds: eight digits. */
const MAX_TIMEOUT_MS = 99_999_999;
const NO_BYTES = new Uint8Array(0);
const NO_HEADERS: ResponseHeaders = {};
const BLAME = { timeout: "wire", connection: "wire", overloaded: "client", aborted: "client" } as const;

type Failure = keyof typeof BLAME;

/** A status as an HTTP response says it: the text is the body. */
function responseOf(status: number, body: Uint8Array, isTruncated = false): UpstreamResponse {
  return { ok: true, status, headers: NO_HEADERS, body, isTruncated, stream: undefined };
}

/** A refusal is a response; an answer that is not one whole message is a failed connection. */
function outcomeOf(status: GrpcStatus | undefined, reader: MessageReader): UpstreamResponse | undefined {
  if (status === undefined) return undefined;
  if (status.code !== 0) return responseOf(httpStatusOf(status.code), Buffer.from(status.text));
  return reader.state === "whole" ? responseOf(200, reader.message) : undefined;
}

/**
 * Makes one unary call and buffers its answer. Never rejects. Ends as an HTTP exchange does: by the time-out, by the signal,
 * by the bound on bytes. The message is the body of a response of 200; any other status of gRPC is the HTTP status that says
 * the same, with its text as the body.
 */
export function grpcExchange(
  target: GrpcTarget,
  request: UpstreamRequest,
  modules: GrpcExchangeModules,
): Promise<UpstreamResponse | TransportFailure> {
  return new GrpcExchange(target, request, modules).run();
}

class GrpcExchange {
  readonly #target: GrpcTarget;
  readonly #request: UpstreamRequest;
  readonly #modules: GrpcExchangeModules;
  readonly #ended = Promise.withResolvers<UpstreamResponse | TransportFailure>();
  readonly #onAbort = (): void => this.#fail("aborted");
  #watch: AbortWatch | undefined;
  #deadline: Deadline | undefined;
  #stopWaiting = (): void => {};
  #link: GrpcLink | undefined;
  #stream: ClientHttp2Stream | undefined;
  #reader: MessageReader;
  #status: GrpcStatus | undefined;
  #heldBytes = 0;
  #isAnswered = false;
  #isDone = false;
  /** Its server has said once that it did not look at the request. */
  #wasRefused = false;

  constructor(target: GrpcTarget, request: UpstreamRequest, modules: GrpcExchangeModules) {
    this.#target = target;
    this.#request = request;
    this.#modules = modules;
    this.#reader = new MessageReader({ maxBytes: request.maxResponseBytes });
  }

  run(): Promise<UpstreamResponse | TransportFailure> {
    const { signal, handle, timeoutMs } = this.#request;
    if (signal?.aborted === true) this.#fail("aborted");
    else {
      this.#deadline = this.#modules.deadlines.after(timeoutMs, () => this.#fail("timeout"));
      if (signal !== undefined) this.#watch = watchAbort(signal, this.#onAbort);
      if (handle !== undefined) handle.cancel = this.#onAbort;
      this.#acquire();
    }
    return this.#ended.promise;
  }

  #acquire(): void {
    this.#stopWaiting = this.#target.origin.acquire((link) => {
      if (link === undefined) this.#fail("connection");
      else this.#send(link);
    });
  }

  #send(link: GrpcLink): void {
    this.#link = link;
    const { path, metadata } = this.#target;
    const { body = NO_BYTES, timeoutMs } = this.#request;
    let stream: ClientHttp2Stream;
    try {
      stream = link.session.request({
        ":method": "POST",
        ":path": path,
        te: "trailers",
        "content-type": "application/grpc",
        "grpc-timeout": `${Math.min(MAX_TIMEOUT_MS, Math.max(1, Math.ceil(timeoutMs)))}m`,
        ...metadata,
      });
    } catch {
      // The connection has closed, which its event has not said yet.
      this.#fail("connection");
      return;
    }
    this.#stream = stream;
    // What failed is seen when it closes; an error without a listener would end the process.
    stream.on("error", () => undefined);
    stream.once("response", (headers, flags) => this.#onResponse(headers, flags));
    stream.once("trailers", (trailers) => {
      this.#status = readGrpcStatus(trailers);
    });
    stream.on("data", (chunk: Buffer) => this.#onData(chunk));
    stream.once("end", () => this.#finish(outcomeOf(this.#status, this.#reader) ?? this.#failure("connection")));
    stream.once("close", () => this.#onClose(stream));
    stream.end(frameMessage(body));
  }

  #onResponse(headers: IncomingHttpHeaders & { readonly ":status"?: number | undefined }, flags: number): void {
    this.#isAnswered = true;
    const status = headers[":status"] ?? 0;
    // Some proxy's page.
    if (status !== 200) this.#finish(responseOf(status, NO_BYTES));
    else if (headers["content-type"]?.startsWith("application/grpc") !== true) this.#fail("connection");
    // An answer of headers alone, which a refusal is.
    else if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) this.#status = readGrpcStatus(headers);
  }

  #onData(chunk: Buffer): void {
    if (this.#isDone) return;
    if (!this.#modules.budget.acquire(chunk.length)) {
      this.#fail("overloaded");
      return;
    }
    this.#heldBytes += chunk.length;
    const state = this.#reader.push(chunk);
    if (state === "too-large") this.#finish(responseOf(200, NO_BYTES, true));
    else if (state === "malformed") this.#fail("connection");
  }

  #onClose(stream: ClientHttp2Stream): void {
    const link = this.#link;
    if (this.#isDone || stream !== this.#stream || link === undefined) return;
    const isRefused = stream.rstCode === constants.NGHTTP2_REFUSED_STREAM && !this.#isAnswered;
    if (!isRefused || this.#wasRefused) {
      this.#fail("connection");
      return;
    }
    // Its server has not looked at it, as where GOAWAY crosses a request. The same bytes go to the same server once more:
    // where it has lied, it has them twice.
    this.#wasRefused = true;
    this.#stream = undefined;
    this.#link = undefined;
    this.#target.origin.retire(link);
    this.#target.origin.release(link);
    this.#acquire();
  }

  #failure(reason: Failure): TransportFailure {
    const isNotSent = this.#stream === undefined && !this.#wasRefused;
    return { ok: false, blame: BLAME[reason], reason, isNotSent };
  }

  #fail(reason: Failure): void {
    this.#finish(this.#failure(reason));
  }

  #finish(result: UpstreamResponse | TransportFailure): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const { budget, deadlines } = this.#modules;
    if (this.#deadline !== undefined) deadlines.cancel(this.#deadline);
    const { signal } = this.#request;
    if (signal !== undefined && this.#watch !== undefined) unwatchAbort(signal, this.#watch);
    this.#stopWaiting();
    budget.release(this.#heldBytes);
    const stream = this.#stream;
    if (stream !== undefined && !stream.closed) stream.close(constants.NGHTTP2_CANCEL);
    const link = this.#link;
    if (link !== undefined) {
      const { origin } = this.#target;
      // A dead connection may bring no other event.
      if (!result.ok && result.reason === "timeout") origin.retire(link);
      origin.release(link);
    }
    this.#ended.resolve(result);
  }
}
