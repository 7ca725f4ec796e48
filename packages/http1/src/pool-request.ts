import type { RequestHead } from "./request-head.ts";
import type { ResponseSink } from "./response-reader.ts";

/**
 * Why a request brought no response. `closed`: the pool takes none any more. `queue-full`: too many wait for a
 * connection. `connection`: it could not be made, was lost, or brought what is no response.
 */
export type RequestError = "closed" | "queue-full" | "connection";

/** Gets the response to one request. Either `onEnd` or `onError` comes last, once; neither does after an abort. */
export interface ResponseHandler extends ResponseSink {
  /** The response is whole. Must not throw. */
  onEnd(): void;
  /** There is no response, or no more of it. `isSent`: the server may have seen the request. Must not throw. */
  onError(error: RequestError, isSent: boolean): void;
}

/** The connection that carries a request, as far as the request controls it. */
export interface RequestConnection {
  pause(): void;
  resume(): void;
  /** Closes it at once; its request has failed, or goes over another connection when the server cannot have seen it. */
  fail(): void;
}

/** One request in flight, from {@link HttpPool.send}. */
export class PoolRequest {
  readonly head: RequestHead;
  readonly body: Uint8Array | string | undefined;
  readonly handler: ResponseHandler;
  /** True: bytes of it were written, so that the server may have seen it. */
  isSent = false;
  /** True: its connection was closed before it was written, and it waits, or goes, for the second and last time; set by the pool. */
  isRequeued = false;
  /** True: its handler is called no more. */
  isOver = false;
  /** What carries it now; set by the pool. */
  connection: RequestConnection | undefined;
  /** Neighbours in the queue; set by the pool. */
  before: PoolRequest | undefined;
  after: PoolRequest | undefined;
  /** The queue that it waits in; set by the pool. */
  queue: RequestQueue | undefined;

  constructor(head: RequestHead, body: Uint8Array | string | undefined, handler: ResponseHandler) {
    this.head = head;
    this.body = body;
    this.handler = handler;
  }

  /** Ends it at once, with its connection when it is on one. Its handler is called no more. */
  abort(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.queue?.remove(this);
    this.connection?.fail();
  }

  /** Reads no more of the response for now; up to one read of the connection comes nevertheless. */
  pause(): void {
    this.connection?.pause();
  }

  /** Reads on. */
  resume(): void {
    this.connection?.resume();
  }

  /** Ends it with an error; for the pool and its connections. */
  fail(error: RequestError): void {
    if (this.isOver) return;
    this.isOver = true;
    this.handler.onError(error, this.isSent);
  }
}

/** Requests that wait for a connection, first in, first out; any of them may leave. */
export class RequestQueue {
  #first: PoolRequest | undefined;
  #last: PoolRequest | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(request: PoolRequest): void {
    request.queue = this;
    request.before = this.#last;
    if (this.#last === undefined) this.#first = request;
    else this.#last.after = request;
    this.#last = request;
    this.#size++;
  }

  /** Puts a request before all others. */
  unshift(request: PoolRequest): void {
    request.queue = this;
    request.after = this.#first;
    if (this.#first === undefined) this.#last = request;
    else this.#first.before = request;
    this.#first = request;
    this.#size++;
  }

  shift(): PoolRequest | undefined {
    const first = this.#first;
    if (first !== undefined) this.remove(first);
    return first;
  }

  /** @param request one of this queue */
  remove(request: PoolRequest): void {
    const { before, after } = request;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    request.before = undefined;
    request.after = undefined;
    request.queue = undefined;
    this.#size--;
  }
}
