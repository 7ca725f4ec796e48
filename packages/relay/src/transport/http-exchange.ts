import type { Deadlines } from "@turnpike/base";
import type { Dispatcher } from "undici";
import { unwatchAbort, watchAbort } from "./abort-watch.ts";
import { AnswerPipe, type StreamSlots } from "./answer-pipe.ts";
import type { ByteBudget } from "./byte-budget.ts";
import {
  headerOf,
  type ResponseHeaders,
  type TransportFailure,
  type UpstreamRequest,
  type UpstreamResponse,
} from "./transport.ts";

/** What {@link exchange} uses. */
export interface ExchangeModules {
  readonly budget: ByteBudget;
  readonly deadlines: Deadlines;
}

/** Where a request goes: a path and query at an origin, with all headers. */
export interface ExchangeTarget {
  readonly pool: Dispatcher;
  /** Of the pool's origin. */
  readonly streams: StreamSlots;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

const NO_BYTES = new Uint8Array(0);
const NO_HEADERS: ResponseHeaders = {};
const BLAME = { timeout: "wire", connection: "wire", overloaded: "client", aborted: "client" } as const;

function failure(reason: keyof typeof BLAME, isUnsent: boolean): TransportFailure {
  return { ok: false, blame: BLAME[reason], reason, isUnsent };
}

/**
 * Sends one request and buffers the whole response. Never rejects. Ends by the time-out, by the signal, and as soon as
 * the body is larger than the bound (said by `Content-Length` or seen in the bytes), and closes that connection.
 */
export function exchange(
  { pool, streams, path, headers: sent }: ExchangeTarget,
  request: UpstreamRequest,
  { budget, deadlines }: ExchangeModules,
): Promise<UpstreamResponse | TransportFailure> {
  const { promise, resolve } = Promise.withResolvers<UpstreamResponse | TransportFailure>();
  const { signal, maxResponseBytes, stream } = request;
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
    budget.release(held);
    if (!isComplete) controller?.abort(new Error(result.ok ? "answer too large" : result.reason));
    resolve(result);
  };
  const fail = (reason: keyof typeof BLAME, isComplete = false): void =>
    finish(failure(reason, controller === undefined), isComplete);
  const onAbort = (): void => fail("aborted");
  const deadline = deadlines.after(request.timeoutMs, () => fail("timeout"));
  const cutOff = (): void =>
    finish({ ok: true, status, headers, body: NO_BYTES, isTruncated: true, stream: undefined }, false);
  if (signal !== undefined) watchAbort(signal, onAbort);
  if (request.handle !== undefined) request.handle.cancel = onAbort;

  pool.dispatch(
    {
      path,
      method: request.method,
      headers: sent,
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
        if (saidBytes > (mayStream && stream !== undefined ? stream.maxBytes : maxResponseBytes)) cutOff();
      },
      onResponseData(_started, chunk) {
        if (pipe !== undefined) {
          pipe.push(chunk);
          return;
        }
        if (isDone) return;
        if (held + chunk.length > maxResponseBytes) {
          cutOff();
          return;
        }
        if (!budget.acquire(chunk.length)) {
          fail("overloaded");
          return;
        }
        held += chunk.length;
        chunks.push(chunk);
        if (mayStream && stream !== undefined && controller !== undefined && held >= stream.afterBytes) {
          mayStream = false;
          const head = stream.head(Buffer.concat(chunks), status);
          if (head === undefined || !streams.acquire()) {
            if (saidBytes > maxResponseBytes) cutOff();
            return;
          }
          const passed = held;
          held = 0;
          pipe = new AnswerPipe(stream, controller, head, () => {
            budget.release(passed);
            streams.release();
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
