import { Writable } from "node:stream";
import { gunzipSync } from "node:zlib";
import type { Chance } from "@turnpike/testkit/chance";
import { isKilled, never, step } from "./simulated-process.ts";
import { type SimulatedTime, untilAborted } from "./simulated-time.ts";

/** Maximum bytes of a body that are carried: more than a story's client reads. */
const MAX_BODY_BYTES = 2 * 1_048_576;
/** Statuses without a body (Fetch standard, null body status). */
const NULL_BODY: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

/** The server's side of a response, with the part of `ServerResponse` that a seller's modes use. */
export class SimulatedResponse extends Writable {
  status = 200;
  headers: Readonly<Record<string, string>> = {};
  /** Resolves when the head is sent; rejects where the connection ends before. */
  readonly head = Promise.withResolvers<void>();
  /** Resolves at the end, with false where the connection ended before the body did. */
  readonly isWhole = Promise.withResolvers<boolean>();
  readonly #parts: Buffer[] = [];
  #length = 0;

  constructor() {
    super();
    this.head.promise.catch(() => {});
    this.on("error", () => {});
  }

  get body(): Buffer {
    return Buffer.concat(this.#parts);
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): this {
    this.status = status;
    this.headers = headers;
    this.head.resolve();
    return this;
  }

  override _write(part: Buffer, _encoding: string, done: () => void): void {
    this.#parts.push(part);
    this.#length += part.length;
    if (this.#length > MAX_BODY_BYTES) {
      this.isWhole.resolve(true);
      this.destroy();
    }
    done();
  }

  override _final(done: () => void): void {
    this.head.resolve();
    this.isWhole.resolve(true);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.head.reject(new TypeError("fetch failed"));
    this.isWhole.resolve(false);
    done(error);
  }
}

/** A request as it arrives at a server. */
export interface ArrivedRequest {
  readonly url: URL;
  readonly verb: string;
  readonly body: string;
  readonly headers: Headers;
}

export type Server = (request: ArrivedRequest, response: SimulatedResponse) => void;

/** Faults of a network on one exchange, and how long it takes. */
export interface ExchangePlan {
  readonly requestMs: number;
  readonly answerMs: number;
  readonly fault: "none" | "refused" | "answer lost" | "body cut";
  /** Time after which the same request arrives once more; undefined for once only. */
  readonly repeatMs: number | undefined;
}

/** Draws an exchange; `isFaulty` is false on a network that works. */
export function drawExchange(chance: Chance, isFaulty: boolean): ExchangePlan {
  const quick = (): number => 5 + chance.below(200);
  if (!isFaulty) return { requestMs: quick(), answerMs: quick(), fault: "none", repeatMs: undefined };
  const latency = (): number => (chance.often(0.04) ? chance.below(120_000) : quick());
  const fault = chance.weighted([
    [86, "none"],
    [5, "refused"],
    [6, "answer lost"],
    [3, "body cut"],
  ] as const);
  return {
    requestMs: latency(),
    answerMs: latency(),
    fault,
    repeatMs: chance.often(0.04) ? chance.below(90_000) : undefined,
  };
}

/** The bytes that a client reads of a body. @throws where its coding is broken. */
function decoded(response: SimulatedResponse): Buffer {
  const { body, headers } = response;
  if (headers["content-encoding"] !== "gzip") return body;
  try {
    return gunzipSync(body, { maxOutputLength: MAX_BODY_BYTES });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return Buffer.alloc(MAX_BODY_BYTES, '{"data":"aaaaaaa');
  }
}

function bodyStream(response: SimulatedResponse, plan: ExchangePlan, signal: AbortSignal | null | undefined) {
  return new ReadableStream<Uint8Array>({
    async start(controller) {
      try {
        const isWhole = (await untilAborted(signal, response.isWhole.promise)) && plan.fault !== "body cut";
        const bytes = decoded(response);
        if (!isWhole) throw new TypeError("terminated");
        if (bytes.length > 0) controller.enqueue(bytes);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
    },
  });
}

/** Network that carries the requests of a process. */
export interface SimulatedFetchModules {
  readonly time: SimulatedTime;
  readonly plan: () => ExchangePlan;
  readonly serve: Server;
  /** Called when a request is on its way, and cannot be taken back. */
  readonly onSend?: (request: ArrivedRequest) => void;
  /** Called when the head of an answer has arrived. */
  readonly onAnswer?: (request: ArrivedRequest, headers: Headers) => void;
}

/** `fetch` of a process of the simulation. What is sent arrives also where its process has ended meanwhile. */
export function simulatedFetch({
  time,
  plan,
  serve,
  onSend,
  onAnswer,
}: SimulatedFetchModules): typeof globalThis.fetch {
  return async (input, init = {}) => {
    await step("request begins");
    if (isKilled()) await never();
    const exchange = plan();
    const { signal } = init;
    const url = new URL(typeof input === "string" || input instanceof URL ? input : input.url);
    const body = typeof init.body === "string" ? init.body : "";
    const request = { url, verb: init.method ?? "GET", body, headers: new Headers(init.headers) };
    if (exchange.fault === "refused") {
      await untilAborted(signal, time.delay(exchange.requestMs));
      await step("request failed");
      throw new TypeError("fetch failed");
    }
    const response = new SimulatedResponse();
    onSend?.(request);
    time.after(exchange.requestMs, () => serve(request, response));
    const { repeatMs } = exchange;
    if (repeatMs !== undefined)
      time.after(exchange.requestMs + repeatMs, () => serve(request, new SimulatedResponse()));
    try {
      await untilAborted(signal, response.head.promise);
      await untilAborted(signal, time.delay(exchange.answerMs));
      if (exchange.fault === "answer lost") throw new TypeError("fetch failed");
    } catch (error) {
      await step("request failed");
      throw error;
    }
    await step("answer arrives");
    if (isKilled()) await never();
    const { status } = response;
    const headers = new Headers(response.headers);
    onAnswer?.(request, headers);
    return new Response(NULL_BODY.has(status) ? null : bodyStream(response, exchange, signal), { status, headers });
  };
}
