import type { IncomingHttpHeaders } from "node:http";
import type { Deadlines } from "@turnpike/base";
import type { Dispatcher } from "undici";
import type { SupplierAnswer } from "../answer.ts";
import type { FailureReason } from "../families/family.ts";
import { unwatchAbort, watchAbort } from "./abort-watch.ts";
import { AnswerPipe, type StreamSlots } from "./answer-pipe.ts";

/** What one HTTP exchange ended in, when not in an answer. */
export interface ExchangeFault {
  readonly ok: false;
  readonly reason: Extract<FailureReason, "timeout" | "connection" | "overloaded" | "aborted">;
  /** True when the request did not get a connection: nothing of it was sent. */
  readonly isUnsent: boolean;
}

/** Result of {@link exchange}. */
export type ExchangeResult =
  | { readonly ok: true; readonly answer: SupplierAnswer; readonly retryAfterMs: number | undefined }
  | { readonly ok: true; readonly streamed: StreamedAnswer }
  | ExchangeFault;

/** An answer that is passed on while it arrives. */
export interface StreamedAnswer {
  readonly status: number;
  readonly contentType: string;
  /** All its bytes. Rejects when the supplier breaks off. Ends the exchange when it is left. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** When an answer is passed on while it arrives. */
export interface StreamRules {
  /** Smaller answers are taken whole. */
  readonly afterBytes: number;
  /** Larger answers are cut off. */
  readonly maxBytes: number;
  /** Longest time from its first byte passed on to its last. */
  readonly timeoutMs: number;
  /** Reads the beginning of an answer; what to pass on in its place, or undefined: this one is taken whole. */
  head(beginning: Buffer, status: number, contentType: string): Uint8Array | undefined;
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

function headerText(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? "";
}

function readRetryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const text = headerText(headers["retry-after"]);
  return /^[0-9]{1,6}$/.test(text) ? Number(text) * 1_000 : undefined;
}

/**
 * Sends one request and takes the whole answer. Never rejects. Ends by the time-out, by the signal, and as soon as the
 * answer is larger than what is taken (said by `Content-Length` or seen in the bytes), and closes that connection.
 */
export function exchange(request: ExchangeRequest, modules: ExchangeModules): Promise<ExchangeResult> {
  const { pool, streams, budget, deadlines } = modules;
  const { promise, resolve } = Promise.withResolvers<ExchangeResult>();
  const { signal, maxAnswerBytes, stream } = request;
  if (signal?.aborted === true) return Promise.resolve({ ok: false, reason: "aborted", isUnsent: true });
  let controller: Dispatcher.DispatchController | undefined;
  let isDone = false;
  let held = 0;
  let status = 0;
  let contentType = "";
  let consensusVersion = "";
  let retryAfterMs: number | undefined;
  let saidBytes = 0;
  let mayStream = stream !== undefined;
  let pipe: AnswerPipe | undefined;
  const chunks: Uint8Array[] = [];

  const finish = (result: ExchangeResult, isComplete: boolean): void => {
    if (isDone) return;
    isDone = true;
    deadlines.cancel(deadline);
    if (signal !== undefined) unwatchAbort(signal, onAbort);
    budget.give(held);
    if (!isComplete) controller?.abort(new Error(result.ok ? "answer too large" : result.reason));
    resolve(result);
  };
  const fail = (reason: ExchangeFault["reason"], isComplete = false): void =>
    finish({ ok: false, reason, isUnsent: controller === undefined }, isComplete);
  const onAbort = (): void => fail("aborted");
  const deadline = deadlines.after(request.timeoutMs, () => fail("timeout"));
  const cutOff = (): void =>
    finish({ ok: true, answer: { status, contentType, body: new Uint8Array(), truncated: true }, retryAfterMs }, false);
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
      onResponseStart(_started, statusCode, headers) {
        status = statusCode;
        contentType = headerText(headers["content-type"]);
        consensusVersion = headerText(headers["eth-consensus-version"]);
        retryAfterMs = readRetryAfterMs(headers);
        saidBytes = Number(headerText(headers["content-length"]));
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
          const head = stream.head(Buffer.concat(chunks), status, contentType);
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
          finish({ ok: true, streamed: { status, contentType, body: pipe } }, true);
        }
      },
      onResponseEnd() {
        if (pipe !== undefined) {
          pipe.end();
          return;
        }
        const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
        const answer = { status, contentType, body, truncated: false };
        const whole = consensusVersion === "" ? answer : { ...answer, consensusVersion };
        finish({ ok: true, answer: whole, retryAfterMs }, true);
      },
      onResponseError() {
        if (pipe !== undefined) pipe.breakOff();
        else fail("connection", true);
      },
    },
  );
  return promise;
}
