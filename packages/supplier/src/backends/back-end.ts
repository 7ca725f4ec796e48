import type { Clock } from "@turnpike/base";
import type { HttpHeader, HttpRequestPayload, HttpResponsePayload, RpcType } from "@turnpike/protocol";
import { type Dispatcher, Pool } from "undici";
import { backEndPath } from "./back-end-path.ts";
import { backEndHeaders, responseHeaders } from "./headers.ts";

/** A back-end over HTTP. */
export interface HttpBackEndOptions {
  readonly serviceId: string;
  readonly rpcType: RpcType;
  readonly url: string;
  /** Sent with each request, such as an API key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxAnswerBytes: number;
}

/** Modules of {@link HttpBackEnd}. */
export interface HttpBackEndModules {
  readonly clock: Clock;
  /** In the place of a pool of connections. */
  readonly dispatcher?: Dispatcher;
}

/** For whom a back-end is asked: it gets these as headers. */
export interface RelayParties {
  readonly operatorAddress: string;
  readonly serviceId: string;
  readonly applicationAddress: string;
}

/** What a back-end gave. */
export type BackEndResult =
  | { readonly kind: "answer"; readonly answer: HttpResponsePayload }
  /** It passes on an answer while it arrives: events or lines. Rejects when it breaks off or is too large. */
  | {
      readonly kind: "stream";
      readonly head: Omit<HttpResponsePayload, "body">;
      readonly body: AsyncIterable<Uint8Array>;
    }
  | { readonly kind: "bad-path" }
  | { readonly kind: "down" }
  | { readonly kind: "unreachable" }
  | { readonly kind: "timeout" }
  | { readonly kind: "too-large" };

/** After so many faults in a row nothing is asked for {@link PAUSE_MS}. */
const FAULTS_TO_PAUSE = 5;
const PAUSE_MS = 30_000;
const STREAMED = /^(text\/event-stream|application\/x-ndjson)\b/i;

/** Collects a body within a bound; undefined when it is larger. */
async function collect(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  const [only] = chunks;
  return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size);
}

async function* bounded(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw new RangeError("The stream of the back-end is larger than allowed.");
    yield chunk;
  }
}

/** One back-end of a service: a node or an HTTP service that relays are forwarded to. */
export class HttpBackEnd implements AsyncDisposable {
  readonly #options: HttpBackEndOptions;
  readonly #clock: Clock;
  readonly #dispatcher: Dispatcher;
  readonly #base: URL;
  #faultsInRow = 0;
  #pausedUntilMs = 0;

  constructor(options: HttpBackEndOptions, { clock, dispatcher }: HttpBackEndModules) {
    this.#options = options;
    this.#clock = clock;
    this.#base = new URL(options.url);
    this.#dispatcher =
      dispatcher ??
      new Pool(this.#base.origin, {
        connections: 128,
        pipelining: 1,
        keepAliveTimeout: 30_000,
        headersTimeout: options.timeoutMs,
        bodyTimeout: options.timeoutMs,
      });
  }

  /** True while it is not asked because it failed several times in a row. */
  get isPaused(): boolean {
    return this.#clock.monotonicMs() < this.#pausedUntilMs;
  }

  /** Asks it. Never rejects; a stream's body may. */
  async ask(request: HttpRequestPayload, parties: RelayParties, signal: AbortSignal): Promise<BackEndResult> {
    if (this.isPaused) return { kind: "down" };
    const path = backEndPath(this.#base, request.url);
    if (path === undefined) return { kind: "bad-path" };
    const { timeoutMs, maxAnswerBytes } = this.#options;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const hasBody = request.body.length > 0;
      const { statusCode, headers, body } = await this.#dispatcher.request({
        method: request.method as Dispatcher.HttpMethod,
        path,
        headers: backEndHeaders(request.headers, this.#options.headers, parties),
        body: hasBody ? request.body : null,
        signal: AbortSignal.any([signal, timeout]),
      });
      const head = { statusCode, headers: responseHeaders(headers) };
      if (statusCode < 500 && STREAMED.test(contentTypeOf(head.headers))) {
        this.#faultsInRow = 0;
        return { kind: "stream", head, body: bounded(body, maxAnswerBytes) };
      }
      const bytes = await collect(body, maxAnswerBytes);
      this.#faultsInRow = 0;
      return bytes === undefined ? { kind: "too-large" } : { kind: "answer", answer: { ...head, body: bytes } };
    } catch {
      // A relay that its client gave up says nothing of the back-end.
      if (signal.aborted) return { kind: "timeout" };
      this.#onFault();
      return { kind: timeout.aborted ? "timeout" : "unreachable" };
    }
  }

  #onFault(): void {
    this.#faultsInRow++;
    if (this.#faultsInRow < FAULTS_TO_PAUSE) return;
    this.#pausedUntilMs = this.#clock.monotonicMs() + PAUSE_MS;
    this.#faultsInRow = FAULTS_TO_PAUSE - 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.destroy();
  }
}

/** The content type of headers by canonical names; empty when there is none. */
export function contentTypeOf(headers: readonly HttpHeader[]): string {
  return headers.find(([name]) => name === "Content-Type")?.[1][0] ?? "";
}
