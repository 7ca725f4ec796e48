import type { Deadline, Deadlines } from "@turnpike/base";
import type { HttpPool, PoolRequest, RequestError, RequestHead, ResponseHandler, ResponseHead } from "@turnpike/http1";
import { type AbortWatch, unwatchAbort, watchAbort } from "./abort-watch.ts";
import { AnswerPipe, type StreamSlots } from "./answer-pipe.ts";
import { BodyCollector, MAX_EXACT_BYTES } from "./body-collector.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { ResponseHeaders, TransportFailure, UpstreamRequest, UpstreamResponse } from "./transport.ts";

interface ExchangeModules {
  readonly budget: ByteBudget;
  readonly deadlines: Deadlines;
}

/** Where a request goes. */
export interface ExchangeTarget {
  readonly pool: HttpPool;
  /** Of the pool's origin. */
  readonly streams: StreamSlots;
  /** Undefined: the path or a header cannot be sent. */
  readonly head: RequestHead | undefined;
}

type Result = UpstreamResponse | TransportFailure;

const NO_BYTES = new Uint8Array(0);
/** Bodies that get their memory with their first byte. */
const SMALL_BYTES = 16_384;
const NO_HEADERS: ResponseHeaders = {};
const BLAME = { timeout: "wire", connection: "wire", overloaded: "client", aborted: "client" } as const;

function failure(reason: keyof typeof BLAME, isNotSent: boolean): TransportFailure {
  return { ok: false, blame: BLAME[reason], reason, isNotSent };
}

/**
 * Sends one request and buffers the whole response. Never rejects. Ends by the time-out, by the signal, and as soon as
 * the body is larger than the bound (said by `Content-Length` or seen in the bytes), and closes that connection.
 */
export function exchange(target: ExchangeTarget, request: UpstreamRequest, modules: ExchangeModules): Promise<Result> {
  if (request.signal?.aborted === true) return Promise.resolve(failure("aborted", true));
  if (target.head === undefined) return Promise.resolve(failure("connection", true));
  const { promise, resolve } = Promise.withResolvers<Result>();
  new Exchange(target, request, modules, resolve).start(target.head);
  return promise;
}

class Exchange implements ResponseHandler {
  readonly #target: ExchangeTarget;
  readonly #request: UpstreamRequest;
  readonly #modules: ExchangeModules;
  readonly #resolve: (result: Result) => void;
  readonly #deadline: Deadline;
  readonly #onAbort = (): void => this.#fail("aborted");
  #watch: AbortWatch | undefined;
  #sent: PoolRequest | undefined;
  #isDone = false;
  /** Bytes of the budget. */
  #held = 0;
  #status = 0;
  #headers = NO_HEADERS;
  /** -1: not said. */
  #saidBytes = -1;
  #mayStream: boolean;
  #body: BodyCollector | undefined;
  #pipe: AnswerPipe | undefined;

  constructor(
    target: ExchangeTarget,
    request: UpstreamRequest,
    modules: ExchangeModules,
    resolve: (result: Result) => void,
  ) {
    this.#target = target;
    this.#request = request;
    this.#modules = modules;
    this.#resolve = resolve;
    this.#mayStream = request.stream !== undefined;
    this.#deadline = modules.deadlines.after(request.timeoutMs, () => this.#fail("timeout"));
    if (request.signal !== undefined) this.#watch = watchAbort(request.signal, this.#onAbort);
    if (request.handle !== undefined) request.handle.cancel = this.#onAbort;
  }

  start(head: RequestHead): void {
    this.#sent = this.#target.pool.send(head, this.#request.body, this);
  }

  onHead(head: ResponseHead): void {
    const { maxResponseBytes, stream } = this.#request;
    this.#status = head.status;
    this.#headers = head.fields();
    this.#saidBytes = head.contentLength;
    if (this.#saidBytes > (stream?.maxBytes ?? maxResponseBytes)) this.#cutOff();
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (this.#pipe !== undefined) {
      this.#pipe.push(Buffer.from(bytes.subarray(start, end)));
      return;
    }
    if (this.#isDone) return;
    this.#body ??= this.#newBody(end - start);
    if (this.#body === undefined) return;
    const size = this.#body.size + end - start;
    if (size > this.#request.maxResponseBytes) {
      this.#cutOff();
      return;
    }
    if (size > this.#held && !this.#acquire(size - this.#held)) return;
    this.#body.add(bytes, start, end);
    if (this.#mayStream) this.#stream(this.#body);
  }

  onEnd(): void {
    if (this.#pipe !== undefined) {
      this.#pipe.end();
      return;
    }
    this.#finish(this.#response(this.#body?.bytes() ?? NO_BYTES), true);
  }

  onError(_error: RequestError, isSent: boolean): void {
    if (this.#pipe !== undefined) this.#pipe.breakOff();
    else this.#finish(failure("connection", !isSent), true);
  }

  /**
   * Where the body goes; undefined: there is no room. Memory for all of it is taken when a good part of it is here: what a
   * supplier says costs it nothing.
   */
  #newBody(firstBytes: number): BodyCollector | undefined {
    const { maxResponseBytes, stream } = this.#request;
    const said = this.#saidBytes;
    const isExact =
      said > 0 && said <= Math.min(MAX_EXACT_BYTES, maxResponseBytes) && said < (stream?.afterBytes ?? said + 1);
    const isComing = said <= SMALL_BYTES || firstBytes * 4 >= said;
    if (!isExact || !isComing) return new BodyCollector();
    return this.#acquire(said) ? new BodyCollector(said) : undefined;
  }

  #acquire(bytes: number): boolean {
    if (!this.#modules.budget.acquire(bytes)) {
      this.#fail("overloaded");
      return false;
    }
    this.#held += bytes;
    return true;
  }

  /** Passes the body on from here when it is large, and begins as it may. */
  #stream(body: BodyCollector): void {
    const { stream, maxResponseBytes } = this.#request;
    if (stream === undefined || this.#sent === undefined || body.size < stream.afterBytes) return;
    this.#mayStream = false;
    const { streams } = this.#target;
    const beginning = stream.head(body.bytes(), this.#status);
    if (beginning === undefined || !streams.acquire()) {
      if (this.#saidBytes > maxResponseBytes) this.#cutOff();
      return;
    }
    const { budget } = this.#modules;
    const passed = this.#held;
    this.#held = 0;
    this.#body = undefined;
    this.#pipe = new AnswerPipe(stream, this.#sent, beginning, () => {
      budget.release(passed);
      streams.release();
    });
    this.#finish({ ...this.#response(NO_BYTES), stream: this.#pipe }, true);
  }

  #response(body: Uint8Array): UpstreamResponse {
    return { ok: true, status: this.#status, headers: this.#headers, body, isTruncated: false, stream: undefined };
  }

  #cutOff(): void {
    this.#finish({ ...this.#response(NO_BYTES), isTruncated: true }, false);
  }

  #fail(reason: keyof typeof BLAME): void {
    this.#finish(failure(reason, this.#sent?.isSent !== true), false);
  }

  #finish(result: Result, isComplete: boolean): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const { signal } = this.#request;
    this.#modules.deadlines.cancel(this.#deadline);
    if (signal !== undefined && this.#watch !== undefined) unwatchAbort(signal, this.#watch);
    this.#modules.budget.release(this.#held);
    if (!isComplete) this.#sent?.abort();
    this.#resolve(result);
  }
}
