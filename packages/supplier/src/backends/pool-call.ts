import type { Deadline, Deadlines } from "@turnpike/base";
import type { HttpPool, PoolRequest, RequestHead, ResponseHandler, ResponseHead } from "@turnpike/http1";
import type { HttpResponsePayload } from "@turnpike/protocol";
import { BodyStream } from "./body-stream.ts";
import { relayedFields } from "./headers.ts";

/** What came of a call. */
export type PoolCallResult =
  | { readonly kind: "answer"; readonly answer: HttpResponsePayload }
  | { readonly kind: "stream"; readonly head: ResponseStart; readonly body: AsyncIterable<Uint8Array> }
  | { readonly kind: "too-large" | "aborted" | "timeout" | "failed" };

/** Status and headers of a response. */
export type ResponseStart = Omit<HttpResponsePayload, "body">;

/** A call to a back-end. */
export interface PoolCallOptions {
  readonly head: RequestHead;
  readonly body: Uint8Array | undefined;
  /** Of the whole answer, a stream too. */
  readonly timeoutMs: number;
  readonly maxAnswerBytes: number;
  /** True for a response that is passed on while it arrives. */
  readonly isStream: (start: ResponseStart) => boolean;
  /** Aborts when nothing of the answer is wanted any more. */
  readonly signal: AbortSignal;
}

/** Asks over a pool. Never rejects; a stream's body may. */
export function callOverPool(
  pool: HttpPool,
  options: PoolCallOptions,
  modules: { readonly deadlines: Deadlines },
): Promise<PoolCallResult> {
  if (options.signal.aborted) return Promise.resolve({ kind: "aborted" });
  const { promise, resolve } = Promise.withResolvers<PoolCallResult>();
  new PoolCall(options, modules.deadlines, resolve).start(pool);
  return promise;
}

class PoolCall implements ResponseHandler {
  readonly #options: PoolCallOptions;
  readonly #deadlines: Deadlines;
  readonly #resolve: (result: PoolCallResult) => void;
  readonly #deadline: Deadline;
  readonly #onAbort = (): void => this.#breakOff("aborted");
  #request: PoolRequest | undefined;
  #start: ResponseStart = { statusCode: 0, headers: [] };
  #chunks: Buffer[] = [];
  #bytes = 0;
  #stream: BodyStream | undefined;
  #isOver = false;

  constructor(options: PoolCallOptions, deadlines: Deadlines, resolve: (result: PoolCallResult) => void) {
    this.#options = options;
    this.#deadlines = deadlines;
    this.#resolve = resolve;
    this.#deadline = deadlines.after(options.timeoutMs, () => this.#breakOff("timeout"));
    options.signal.addEventListener("abort", this.#onAbort);
  }

  start(pool: HttpPool): void {
    const { head, body } = this.#options;
    this.#request = pool.send(head, body, this);
  }

  onHead(head: ResponseHead): void {
    const start = { statusCode: head.status, headers: relayedFields(head.allFields()) };
    this.#start = start;
    if (this.#options.isStream(start)) {
      this.#stream = new BodyStream({
        pause: () => this.#request?.pause(),
        resume: () => this.#request?.resume(),
        leave: () => this.#breakOff("aborted"),
      });
      this.#resolve({ kind: "stream", head: start, body: this.#stream });
    } else if (head.contentLength > this.#options.maxAnswerBytes) this.#breakOff("too-large");
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (this.#isOver) return;
    // The connection's own buffer is read into again.
    const chunk = Buffer.from(bytes.subarray(start, end));
    if (this.#stream !== undefined) {
      this.#stream.push(chunk);
      return;
    }
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.maxAnswerBytes) this.#breakOff("too-large");
    else this.#chunks.push(chunk);
  }

  onEnd(): void {
    if (!this.#end()) return;
    if (this.#stream !== undefined) {
      this.#stream.end();
      return;
    }
    const [only] = this.#chunks;
    const body = this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks, this.#bytes);
    this.#resolve({ kind: "answer", answer: { ...this.#start, body } });
  }

  onError(): void {
    if (!this.#end()) return;
    this.#stream?.fail();
    this.#resolve({ kind: "failed" });
  }

  #breakOff(kind: "too-large" | "aborted" | "timeout"): void {
    if (!this.#end()) return;
    this.#request?.abort();
    this.#stream?.fail();
    this.#resolve({ kind });
  }

  /** False when it had ended before. */
  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#deadlines.cancel(this.#deadline);
    this.#options.signal.removeEventListener("abort", this.#onAbort);
    return true;
  }
}
