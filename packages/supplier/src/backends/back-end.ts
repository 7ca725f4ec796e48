import {
  type Clock,
  Deadlines,
  type EvmRules,
  evmRefusal,
  type Log,
  type Metrics,
  noMetrics,
  silentLog,
} from "@turnpike/base";
import { HttpPool, RequestHead } from "@turnpike/http1";
import type { HttpHeader, HttpRequestPayload, HttpResponsePayload, RpcType } from "@turnpike/protocol";
import { type Dispatcher, errors, Pool } from "undici";
import { supplierBackendUp } from "../serving-metrics.ts";
import { backEndPath } from "./back-end-path.ts";
import { backEndHeaders, isToken, type RelayParties, responseHeaders } from "./headers.ts";
import { callOverPool } from "./pool-call.ts";

/** A back-end over HTTP. */
export interface HttpBackEndOptions {
  readonly serviceId: string;
  readonly rpcType: RpcType;
  readonly url: string;
  /** Sent with each request, such as an API key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxAnswerBytes: number;
  /** Path that answers 2xx to GET while it is well: without one only calls show how it is. */
  readonly healthPath?: string;
  /** Between two looks at {@link healthPath}; 5,000 by default. */
  readonly healthIntervalMs?: number;
  /** For an EVM node: calls beyond these are answered here with a JSON-RPC error. */
  readonly evmRules?: EvmRules;
}

interface HttpBackEndModules {
  readonly clock: Clock;
  readonly log?: Log;
  readonly metrics?: Metrics;
  /** In the place of a pool of connections. */
  readonly dispatcher?: Dispatcher;
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
  /** Not asked: the request has a method or URL that HTTP has not. */
  | { readonly kind: "bad-request" }
  | { readonly kind: "down" }
  | { readonly kind: "unreachable" }
  | { readonly kind: "timeout" }
  | { readonly kind: "too-large" };

/** After so many faults in a row nothing is asked for {@link PAUSE_MS}. */
const FAULTS_TO_PAUSE = 5;
const PAUSE_MS = 30_000;
const HEALTH_INTERVAL_MS = 5_000;
const HEALTH_TIMEOUT_MS = 5_000;
/** So many looks in a row that fail: one may be a restart. */
const ILL_LOOKS = 2;
const STREAMED = /^(text\/event-stream|application\/x-ndjson)\b/i;

const CONNECTIONS = 128;
const KEEP_ALIVE_MS = 30_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** Time-outs of calls come so late at most. */
const DEADLINE_STEP_MS = 10;

/** CONNECT asks for a tunnel, which no relay is. */
const isMethod = (method: string): boolean => isToken(method) && method !== "CONNECT";

const isStream = ({ statusCode, headers }: Omit<HttpResponsePayload, "body">): boolean =>
  statusCode < 500 && STREAMED.test(contentTypeOf(headers));

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
  /** For GET and POST. */
  readonly #pool: HttpPool;
  readonly #deadlines: Deadlines;
  readonly #base: URL;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #ended = new AbortController();
  #faultsInRow = 0;
  #pausedUntilMs = 0;
  #badLooks = 0;
  #healthTimer: NodeJS.Timeout | undefined;

  constructor(options: HttpBackEndOptions, modules: HttpBackEndModules) {
    const { clock, dispatcher, log = silentLog, metrics = noMetrics } = modules;
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#metrics = metrics;
    this.#base = new URL(options.url);
    this.#dispatcher =
      dispatcher ??
      new Pool(this.#base.origin, {
        connections: CONNECTIONS,
        pipelining: 1,
        keepAliveTimeout: KEEP_ALIVE_MS,
        headersTimeout: options.timeoutMs,
        bodyTimeout: options.timeoutMs,
      });
    this.#pool = new HttpPool(
      {
        origin: this.#base.origin,
        connections: CONNECTIONS,
        // The relays that are under way at once are bounded, and with them those that wait here.
        maxQueued: Number.POSITIVE_INFINITY,
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        keepAliveMs: KEEP_ALIVE_MS,
        fields: [],
      },
      { clock },
    );
    this.#deadlines = new Deadlines({ stepMs: DEADLINE_STEP_MS }, { clock });
    this.#show(true);
    if (options.healthPath !== undefined) void this.#watch(options.healthPath);
  }

  /** True while it is not asked: it failed several times in a row, or it says that it is not well. */
  get isPaused(): boolean {
    return this.#badLooks >= ILL_LOOKS || this.#isPausedByCalls;
  }

  #show(isUp: boolean): void {
    const { serviceId: service, rpcType } = this.#options;
    this.#metrics.set(supplierBackendUp, isUp ? 1 : 0, { service, rpc_type: rpcType });
  }

  /** Looks at its health, again and again. */
  async #watch(healthPath: string): Promise<void> {
    const wasWell = this.#badLooks < ILL_LOOKS;
    const isGood = await this.#isWell(healthPath);
    if (this.#ended.signal.aborted) return;
    this.#badLooks = isGood ? 0 : this.#badLooks + 1;
    // What calls found before is out of date.
    if (isGood) this.#pausedUntilMs = 0;
    const isWell = this.#badLooks < ILL_LOOKS;
    const { serviceId, rpcType, healthIntervalMs } = this.#options;
    if (isWell !== wasWell) {
      if (isWell) this.#log.info({ serviceId, rpcType }, "a back-end is well again");
      else this.#log.error({ serviceId, rpcType }, "a back-end is not well: its relays are refused");
    }
    this.#show(!this.isPaused);
    this.#healthTimer = setTimeout(() => void this.#watch(healthPath), healthIntervalMs ?? HEALTH_INTERVAL_MS);
    this.#healthTimer.unref();
  }

  async #isWell(path: string): Promise<boolean> {
    try {
      const { statusCode, body } = await this.#dispatcher.request({
        method: "GET",
        path,
        headers: this.#options.headers,
        signal: AbortSignal.any([this.#ended.signal, AbortSignal.timeout(HEALTH_TIMEOUT_MS)]),
      });
      await body.dump();
      return statusCode >= 200 && statusCode < 300;
    } catch {
      return false;
    }
  }

  /** Asks it. Never rejects; a stream's body may. */
  async ask(request: HttpRequestPayload, parties: RelayParties, signal: AbortSignal): Promise<BackEndResult> {
    if (this.isPaused) return { kind: "down" };
    const path = backEndPath(this.#base, request.url);
    if (path === undefined || !isMethod(request.method)) return { kind: "bad-request" };
    const refusal = this.#refusalOf(request.body);
    if (refusal !== undefined) return { kind: "answer", answer: refusal };
    const headers = backEndHeaders(request.headers, this.#options.headers, parties);
    const head = this.#poolHead(request, path, headers);
    if (head === undefined) return this.#askOtherwise(request, path, headers, signal);
    const { timeoutMs, maxAnswerBytes } = this.#options;
    const body = request.body.length > 0 ? request.body : undefined;
    const result = await callOverPool(
      this.#pool,
      { head, body, timeoutMs, maxAnswerBytes, isStream, signal },
      { deadlines: this.#deadlines },
    );
    // A relay that its client gave up says nothing of the back-end.
    if (result.kind === "aborted" || signal.aborted) return { kind: "timeout" };
    if (result.kind === "timeout" || result.kind === "failed") {
      this.#onFault();
      return { kind: result.kind === "timeout" ? "timeout" : "unreachable" };
    }
    this.#onAnswer();
    if (result.kind === "stream") return { ...result, body: bounded(result.body, maxAnswerBytes) };
    return result.kind === "answer" ? result : { kind: "too-large" };
  }

  /** The answer to a body that may not reach an EVM node. It says nothing of the node's health. */
  #refusalOf(body: Uint8Array): HttpResponsePayload | undefined {
    const { evmRules } = this.#options;
    const text = evmRules === undefined || body.length === 0 ? undefined : evmRefusal(body, evmRules);
    if (text === undefined) return undefined;
    return { statusCode: 200, headers: [["Content-Type", ["application/json"]]], body: Buffer.from(text) };
  }

  /** The head of a request that the pool can send; undefined for others, which undici sends or refuses. */
  #poolHead(
    { method, body }: HttpRequestPayload,
    path: string,
    headers: Readonly<Record<string, string | string[]>>,
  ): RequestHead | undefined {
    if (method !== "GET" && method !== "POST") return undefined;
    // A back-end that leaves the body of a GET unread takes it for the next request: undici closes the connection then.
    if (method === "GET" && body.length > 0) return undefined;
    const isSingle = (entry: [string, string | string[]]): entry is [string, string] => typeof entry[1] === "string";
    const entries = Object.entries(headers);
    // A certificate is checked for the name in `Host`.
    if (!entries.every(isSingle) || (headers.host !== undefined && this.#base.protocol === "https:")) return undefined;
    return RequestHead.of({ method, path, host: this.#base.host, headers: headers as Record<string, string> });
  }

  async #askOtherwise(
    request: HttpRequestPayload,
    path: string,
    requestHeaders: Record<string, string | string[]>,
    signal: AbortSignal,
  ): Promise<BackEndResult> {
    const { timeoutMs, maxAnswerBytes } = this.#options;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const hasBody = request.body.length > 0;
      const { statusCode, headers, body } = await this.#dispatcher.request({
        method: request.method as Dispatcher.HttpMethod,
        path,
        headers: requestHeaders,
        body: hasBody ? request.body : null,
        signal: AbortSignal.any([signal, timeout]),
      });
      const head = { statusCode, headers: responseHeaders(headers) };
      if (isStream(head)) {
        this.#onAnswer();
        return { kind: "stream", head, body: bounded(body, maxAnswerBytes) };
      }
      const bytes = await collect(body, maxAnswerBytes);
      this.#onAnswer();
      return bytes === undefined ? { kind: "too-large" } : { kind: "answer", answer: { ...head, body: bytes } };
    } catch (cause) {
      // A relay that its client gave up says nothing of the back-end, nor does a request that was never sent.
      if (signal.aborted) return { kind: "timeout" };
      if (cause instanceof errors.InvalidArgumentError) return { kind: "bad-request" };
      this.#onFault();
      return { kind: timeout.aborted ? "timeout" : "unreachable" };
    }
  }

  /** Calls that were under way when the pause began say nothing new: an answer does not end it, a fault does not prolong it. */
  get #isPausedByCalls(): boolean {
    return this.#clock.monotonicMs() < this.#pausedUntilMs;
  }

  #onAnswer(): void {
    if (this.#isPausedByCalls) return;
    if (this.#faultsInRow >= FAULTS_TO_PAUSE - 1) this.#show(true);
    this.#faultsInRow = 0;
  }

  #onFault(): void {
    if (this.#isPausedByCalls) return;
    this.#faultsInRow++;
    if (this.#faultsInRow < FAULTS_TO_PAUSE) return;
    const { serviceId, rpcType } = this.#options;
    this.#log.error({ serviceId, rpcType, pauseMs: PAUSE_MS }, "a back-end fails: its relays are refused for a while");
    this.#show(false);
    this.#pausedUntilMs = this.#clock.monotonicMs() + PAUSE_MS;
    this.#faultsInRow = FAULTS_TO_PAUSE - 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    clearTimeout(this.#healthTimer);
    this.#pool.destroy();
    await this.#dispatcher.destroy();
  }
}

/** The content type of headers by canonical names; empty when there is none. */
function contentTypeOf(headers: readonly HttpHeader[]): string {
  return headers.find(([name]) => name === "Content-Type")?.[1][0] ?? "";
}
