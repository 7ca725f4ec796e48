import { Readable } from "node:stream";
import { AppError } from "@turnpike/base";
import type { StreamRules } from "./transport.ts";

const CLOSE = 0x7d;
const SPACES = new Set([0x20, 0x0a, 0x0d, 0x09]);

/** Last byte that is no white space; undefined when there is none. */
function lastByte(chunk: Uint8Array): number | undefined {
  for (let at = chunk.length - 1; at >= 0; at--) {
    const byte = chunk[at];
    if (byte !== undefined && !SPACES.has(byte)) return byte;
  }
  return undefined;
}

/** The request whose answer is passed on. */
export interface PipeSource {
  pause(): void;
  resume(): void;
  /** Ends it, and closes its connection. */
  abort(): void;
}

/**
 * A large JSON-RPC answer on its way from a supplier to a client, no faster than the client takes it. The newest chunk
 * is held back, so that an answer that does not end as an object does is broken off before it looks whole.
 */
export class AnswerPipe implements AsyncIterable<Uint8Array> {
  readonly #readable: Readable;
  readonly #source: PipeSource;
  readonly #maxBytes: number;
  readonly #timer: NodeJS.Timeout;
  #held: Uint8Array;
  #last: number | undefined;
  #bytes: number;
  #isOver = false;

  constructor(rules: StreamRules, source: PipeSource, head: Uint8Array, done: () => void) {
    this.#source = source;
    this.#maxBytes = rules.maxBytes;
    this.#held = head;
    this.#last = lastByte(head);
    this.#bytes = head.length;
    // Also when the supplier is done: who reads slowly holds what is left of it, and a slot.
    this.#timer = setTimeout(() => this.#readable.destroy(new AppError("SUPPLIERS_FAILED")), rules.timeoutMs);
    this.#readable = new Readable({
      read: () => source.resume(),
      destroy: (error, callback) => {
        clearTimeout(this.#timer);
        if (!this.#isOver) source.abort();
        this.#isOver = true;
        done();
        callback(error);
      },
    });
    // Its reader gets the error; without a reader it must not end the process.
    this.#readable.on("error", () => undefined);
  }

  /** For one reader. Ends the exchange when it is left, also before anything was read. */
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    const chunks = this.#readable[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    return {
      next: () => chunks.next(),
      return: async () => {
        // The stream's own iterator does nothing when it was not begun.
        this.#readable.destroy();
        await chunks.return?.();
        return { done: true, value: undefined };
      },
    };
  }

  push(chunk: Uint8Array): void {
    if (this.#isOver || chunk.length === 0) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) {
      this.breakOff();
      return;
    }
    const ready = this.#held;
    this.#held = chunk;
    this.#last = lastByte(chunk) ?? this.#last;
    if (!this.#readable.push(ready)) this.#source.pause();
  }

  end(): void {
    if (this.#isOver) return;
    if (this.#last !== CLOSE) {
      this.breakOff();
      return;
    }
    this.#isOver = true;
    this.#readable.push(this.#held);
    this.#readable.push(null);
  }

  /** The supplier has failed half-way: the client must not take what it has for the whole. */
  breakOff(): void {
    if (!this.#isOver) this.#readable.destroy(new AppError("SUPPLIERS_FAILED"));
  }
}

/**
 * Answers from one origin that are passed on at once. Each keeps a connection for as long as its client takes to read it:
 * without a limit a few slow readers would hold up all calls to that origin.
 */
export class StreamSlots {
  #free: number;

  constructor(most: number) {
    this.#free = most;
  }

  /** False when there is none. */
  acquire(): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    return true;
  }

  release(): void {
    this.#free++;
  }
}
