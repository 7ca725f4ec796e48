import { ServerResponse } from "node:http";
import type { Log } from "@turnpike/base";
import { type AnyServerResponse, whenWritable } from "@turnpike/http1";
import { REFUSALS, type Refusal, refusalBody } from "../verification/refusal.ts";
import type { RelayHandler } from "./relay-handler.ts";
import { rpcTypeOf } from "./rpc-types.ts";

/** Follows each response of a stream (interop: transport). */
const STREAM_DELIMITER: Uint8Array = Buffer.from("||POKT_STREAM||");

/** One relay over HTTP, whichever server has read its head. */
export interface RelayExchange {
  /** Its `Rpc-Type`. */
  readonly rpcType: string | undefined;
  /** Its `Accept`. */
  readonly accept: string | undefined;
  /** The whole body, or why it is not read. Rejects when the client breaks off. */
  readonly body: () => Promise<Buffer | Refusal>;
  readonly response: AnyServerResponse;
}

interface RelayExchangesModules {
  readonly handler: RelayHandler;
  readonly log: Log;
}

/** Serves relays over HTTP, and counts those in flight. */
export class RelayExchanges {
  readonly #handler: RelayHandler;
  readonly #log: Log;
  readonly #stallTimeoutMs: number;
  #inFlight = 0;
  #idle = Promise.withResolvers<void>();

  /** @param options `stallTimeoutMs`: time for a client to read on while an answer waits to be written */
  constructor(options: { readonly stallTimeoutMs: number }, { handler, log }: RelayExchangesModules) {
    this.#stallTimeoutMs = options.stallTimeoutMs;
    this.#handler = handler;
    this.#log = log;
    this.#idle.resolve();
  }

  /** Resolves when no relay is in flight: the responses have left, and are not only written. */
  get idle(): Promise<void> {
    return this.#idle.promise;
  }

  /** Serves one relay. Never throws. */
  serve(exchange: RelayExchange): void {
    const { response } = exchange;
    if (this.#handler.isFull) {
      answerRefusal(response, this.#handler.refuseUnread(REFUSALS.overloaded), true);
      return;
    }
    this.#count(1);
    // Not when it is written: what a relay is paid for has left only then.
    response.once("close", () => this.#count(-1));
    this.#serve(exchange).catch((cause: unknown) => {
      if (!response.destroyed) this.#log.error({ cause }, "relay failed");
      response.destroy();
    });
  }

  #count(by: 1 | -1): void {
    this.#inFlight += by;
    if (this.#inFlight === 0) this.#idle.resolve();
    else if (by === 1 && this.#inFlight === 1) this.#idle = Promise.withResolvers<void>();
  }

  async #serve({ rpcType, accept, body: read, response }: RelayExchange): Promise<void> {
    const gone = new AbortController();
    let isAnswered = false;
    response.on("close", () => {
      if (!isAnswered) gone.abort();
    });
    const body = await read();
    if (!Buffer.isBuffer(body)) {
      this.#limitStall(response);
      return answerRefusal(response, this.#handler.refuseUnread(body), true);
    }
    const outcome = await this.#handler.handle(body, rpcTypeOf(rpcType), gone.signal);
    const contentType = accept ?? "application/json";
    if (outcome.kind === "stream") {
      response.writeHead(200, ["Content-Type", contentType]);
      await this.#answerStream(response, outcome.responses);
      isAnswered = true;
      return;
    }
    this.#limitStall(response);
    isAnswered = true;
    if (outcome.kind === "refused") return answerRefusal(response, outcome.refusal, false);
    response.writeHead(200, ["Content-Type", contentType, "Content-Length", String(outcome.bytes.length)]);
    response.end(outcome.bytes);
  }

  async #answerStream(response: AnyServerResponse, responses: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const bytes of responses) {
      if (response.destroyed) return;
      if (response.write(Buffer.concat([bytes, STREAM_DELIMITER]))) continue;
      this.#limitStall(response);
      await whenWritable(response);
      // What the back-end has not sent yet is no fault of the client.
      endStallLimit(response);
    }
    this.#limitStall(response);
    response.end();
  }

  /**
   * Ends a connection that nothing is written to for so long although an answer waits: its client does not read. It holds
   * until the answer is finished, or {@link endStallLimit}. A plain listener has the same limit, and applies it itself.
   */
  #limitStall(response: AnyServerResponse): void {
    if (!(response instanceof ServerResponse)) return;
    response.setTimeout(this.#stallTimeoutMs);
    if (response.listenerCount("timeout") === 0) response.on("timeout", () => response.destroy());
  }
}

function endStallLimit(response: AnyServerResponse): void {
  if (response instanceof ServerResponse) response.setTimeout(0);
}

function answerRefusal(response: AnyServerResponse, refusal: Refusal, close: boolean): void {
  const body = refusalBody(refusal);
  const headers = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))];
  if (close) headers.push("Connection", "close");
  response.writeHead(refusal.status, headers);
  response.end(body);
}
