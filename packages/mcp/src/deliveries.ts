import { AsyncLocalStorage } from "node:async_hooks";
import type { ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import type { McpServer, RequestId, Transport } from "@modelcontextprotocol/server";

/** Connection that an answer is written to. */
export interface AnswerSink {
  /**
   * To be called before an answer of `bytes` is sent. The function that it returns is to be called when it was: its callback is
   * called when at least that many bytes have been handed to the operating system, and never when they are lost.
   */
  expect(bytes: number): (onFlushed: () => void) => void;
}

interface Expected {
  readonly minWritten: number;
  readonly onFlushed: () => void;
}

/** The response of one HTTP request: what was written to it is delivered when it has finished. */
export class ResponseSink implements AnswerSink {
  #written = 0;
  #isFinished = false;
  #expected: Expected[] = [];

  /** Observes the writes of a response that nothing was written to so far. */
  constructor(response: ServerResponse) {
    const write = response.write.bind(response) as (...args: unknown[]) => boolean;
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.write = ((...args: unknown[]) => {
      this.#count(args[0]);
      return write(...args);
    }) as ServerResponse["write"];
    response.end = ((...args: unknown[]) => {
      this.#count(args[0]);
      return end(...args);
    }) as ServerResponse["end"];
    // Never emitted for a response whose connection was lost, nor while its socket still buffers a part of it.
    response.once("finish", () => {
      this.#isFinished = true;
      for (const { minWritten, onFlushed } of this.#expected) if (this.#written >= minWritten) onFlushed();
    });
    response.once("close", () => {
      this.#expected = [];
    });
  }

  expect(bytes: number): (onFlushed: () => void) => void {
    // An answer to a response that has finished is written nowhere.
    if (this.#isFinished) return () => {};
    const minWritten = this.#written + bytes;
    return (onFlushed) => {
      if (!this.#isFinished) this.#expected.push({ minWritten, onFlushed });
      else if (this.#written >= minWritten) onFlushed();
    };
  }

  #count(chunk: unknown): void {
    if (typeof chunk === "string") this.#written += Buffer.byteLength(chunk);
    else if (chunk instanceof Uint8Array) this.#written += chunk.length;
  }
}

/** A stream of messages, such as standard output. */
export class StreamSink implements AnswerSink {
  readonly #output: Writable;

  constructor(output: Writable) {
    this.#output = output;
  }

  expect(): (onFlushed: () => void) => void {
    // Writes are flushed in their order: that of nothing is flushed after the answer.
    return (onFlushed) => {
      if (!this.#output.writable) return;
      this.#output.write("", (error) => {
        if ((error ?? undefined) === undefined && !this.#output.destroyed) onFlushed();
      });
    };
  }
}

/**
 * The response of the HTTP request that is being served. The SDK's servers and transports have no place for it, and route
 * answers by the id alone, which the client chooses.
 */
export const servedResponse = new AsyncLocalStorage<ResponseSink>();

interface Awaited {
  readonly sink: AnswerSink;
  readonly callback: () => void;
}

/** Calls back when the result of a request has been delivered, by the bytes of the connection that it was written to. */
export class Deliveries {
  readonly #awaited = new Map<RequestId, Awaited>();
  readonly #sinkOf: () => AnswerSink | undefined;

  /** Watches what the server sends over transports that it is connected to from now on. */
  constructor(server: McpServer, sinkOf: () => AnswerSink | undefined) {
    this.#sinkOf = sinkOf;
    const connect = server.connect.bind(server);
    server.connect = (transport) => {
      this.#watch(transport);
      return connect(transport);
    };
  }

  /** Calls back when the result of this request is delivered: never where it is cancelled, or its connection is gone. */
  onDelivered(id: RequestId, signal: AbortSignal, callback: () => void): void {
    const sink = this.#sinkOf();
    if (signal.aborted || sink === undefined) return;
    this.#awaited.set(id, { sink, callback });
    signal.addEventListener("abort", () => void this.#awaited.delete(id), { once: true });
  }

  #watch(transport: Transport): void {
    const send = transport.send.bind(transport);
    transport.send = async (message, options) => {
      const isAnswer = "result" in message || "error" in message;
      const id = isAnswer ? message.id : undefined;
      const awaited = id === undefined ? undefined : this.#awaited.get(id);
      // Taken out first: a connection of one request ends, and aborts it, as soon as the answer is handed over.
      if (id !== undefined) this.#awaited.delete(id);
      if (awaited === undefined || !("result" in message)) {
        await send(message, options);
        return;
      }
      const onSent = awaited.sink.expect(Buffer.byteLength(JSON.stringify(message)));
      await send(message, options);
      onSent(awaited.callback);
    };
  }
}
