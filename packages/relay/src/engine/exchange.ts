import type { Deadlines } from "@turnpike/base";
import type { Dispatcher } from "undici";
import {
  headerOf,
  type ResponseHeaders,
  type TransportFailure,
  type TransportReason,
  type UpstreamResponse,
} from "../transport/transport.ts";
import { unwatchAbort, watchAbort } from "./abort-watch.ts";
import { AnswerPipe, type StreamSlots } from "./answer-pipe.ts";

/** When an answer is passed on while it arrives. */
export interface StreamRules {
  /** Smaller answers are taken whole. */
  readonly afterBytes: number;
  /** Larger answers are cut off. */
  readonly maxBytes: number;
  /** Longest time from its first byte passed on to its last. */
  readonly timeoutMs: number;
  /** Reads the beginning of an answer; what to pass on in its place, or undefined: this one is taken whole. */
  head(beginning: Buffer, status: number): Uint8Array | undefined;
}

/** Bytes that all exchanges together may hold. */
export interface ByteBudget {
  /** Takes bytes; false when there are not enough. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}

/** What {@link exchange} works with. */
export interface ExchangeModules {
  readonly pool: Dispatcher;
  /** Of the pool's origin. */
  readonly streams: StreamSlots;
  readonly budget: ByteBudget;
  readonly deadlines: Deadlines;
}

/** One request to one supplier. */
export interface ExchangeRequest {
  readonly verb: "GET" | "POST";
  /** Path and query at the origin. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
  readonly timeoutMs: number;
  /** Larger answers are cut off and come back as truncated. */
  readonly maxAnswerBytes: number;
  readonly signal: AbortSignal | undefined;
  readonly stream?: StreamRules | undefined;
  /** Gets a way to end the exchange as `aborted`. */
  readonly handle?: AttemptHandle | undefined;
}

/** A way to end an exchange early; the exchange fills it in. */
export interface AttemptHandle {
  cancel?: () => void;
  /** Nobody waits for it any more. */
  isOver?: boolean;
}

const NO_BYTES = new Uint8Array(0);
const NO_HEADERS: ResponseHeaders = {};
const BLAME = { timeout: "wire", connection: "wire", overloaded: "client", aborted: "client" } as const;

function failure(reason: TransportReason, isUnsent: boolean): TransportFailure {
  return { ok: false, blame: BLAME[reason], reason, isUnsent };
}

/**
 * Sends one request and takes the whole answer. Never rejects. Ends by the time-out, by the signal, and as soon as the
 * answer is larger than what is taken (said by `Content-Length` or seen in the bytes), and closes that connection.
 */
export function exchange(
  request: ExchangeRequest,
  modules: ExchangeModules,
): Promise<UpstreamResponse | TransportFailure> {
  const { pool, streams, budget, deadlines } = modules;
  const { promise, resolve } = Promise.withResolvers<UpstreamResponse | TransportFailure>();
  const { signal, maxAnswerBytes, stream } = request;
  if (signal?.aborted === true) return Promise.resolve(failure("aborted", true));
  let controller: Dispatcher.DispatchController | undefined;
  let isDone = false;
  let held = 0;
  let status = 0;
  let headers = NO_HEADERS;
  let saidBytes = 0;
  let mayStream = stream !== undefined;
  let pipe: AnswerPipe | undefined;
  const chunks: Uint8Array[] = [];

  const finish = (result: UpstreamResponse | TransportFailure, isComplete: boolean): void => {
    if (isDone) return;
    isDone = true;
    deadlines.cancel(deadline);
    if (signal !== undefined) unwatchAbort(signal, onAbort);
    budget.give(held);
    if (!isComplete) controller?.abort(new Error(result.ok ? "answer too large" : result.reason));
    resolve(result);
  };
  const fail = (reason: TransportReason, isComplete = false): void =>
    finish(failure(reason, controller === undefined), isComplete);
  const onAbort = (): void => fail("aborted");
  const deadline = deadlines.after(request.timeoutMs, () => fail("timeout"));
  const cutOff = (): void =>
    finish({ ok: true, status, headers, body: NO_BYTES, isTruncated: true, stream: undefined }, false);
  if (signal !== undefined) watchAbort(signal, onAbort);
  if (request.handle !== undefined) request.handle.cancel = onAbort;

  pool.dispatch(
    {
      path: request.path,
      method: request.verb,
      headers: request.headers,
      body: request.body ?? null,
      headersTimeout: 0,
      bodyTimeout: 0,
    },
    {
      onRequestStart(started) {
        controller = started;
        // The time-out may have passed while the request waited for a connection.
        if (isDone) started.abort(new Error("too late"));
      },
      onResponseStart(_started, statusCode, received) {
        status = statusCode;
        headers = received;
        saidBytes = Number(headerOf({ headers }, "content-length"));
        if (saidBytes > (mayStream && stream !== undefined ? stream.maxBytes : maxAnswerBytes)) cutOff();
      },
      onResponseData(_started, chunk) {
        if (pipe !== undefined) {
          pipe.push(chunk);
          return;
        }
        if (isDone) return;
        if (held + chunk.length > maxAnswerBytes) {
          cutOff();
          return;
        }
        if (!budget.take(chunk.length)) {
          fail("overloaded");
          return;
        }
        held += chunk.length;
        chunks.push(chunk);
        if (mayStream && stream !== undefined && controller !== undefined && held >= stream.afterBytes) {
          mayStream = false;
          const head = stream.head(Buffer.concat(chunks), status);
          if (head === undefined || !streams.take()) {
            if (saidBytes > maxAnswerBytes) cutOff();
            return;
          }
          const taken = held;
          held = 0;
          pipe = new AnswerPipe(stream, controller, head, () => {
            budget.give(taken);
            streams.give();
          });
          finish({ ok: true, status, headers, body: NO_BYTES, isTruncated: false, stream: pipe }, true);
        }
      },
      onResponseEnd() {
        if (pipe !== undefined) {
          pipe.end();
          return;
        }
        const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
        finish({ ok: true, status, headers, body, isTruncated: false, stream: undefined }, true);
      },
      onResponseError() {
        if (pipe !== undefined) pipe.breakOff();
        else fail("connection", true);
      },
    },
  );
  return promise;
}
