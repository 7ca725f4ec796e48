import { Readable } from "node:stream";
import { AppError, JsonCheck } from "@turnpike/base";
import type { StreamRules } from "./transport.ts";

/** The request whose answer is passed on. */
export interface PipeSource {
  pause(): void;
  resume(): void;
  /** Ends it, and closes its connection. */
  abort(): void;
}

/**
 * A large JSON-RPC answer on its way from a supplier to a client, no faster than the client takes it. What is no JSON is
 * broken off where it is seen; the newest chunk is held back, so that an answer that does not end is broken off before it
 * looks whole.
 */
export class AnswerPipe implements AsyncIterable<Uint8Array> {
  readonly #readable: Readable;
  readonly #source: PipeSource;
  readonly #rules: StreamRules;
  readonly #timer: NodeJS.Timeout;
  readonly #json = new JsonCheck();
  readonly #utf8 = new TextDecoder("utf-8", { fatal: true });
  #held: Uint8Array;
  #bytes: number;
  #isOver = false;

  constructor(rules: StreamRules, source: PipeSource, head: Uint8Array, done: () => void) {
    this.#source = source;
    this.#rules = rules;
    this.#held = head;
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
    if (!this.#isText(head)) this.#refuse();
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
    if (this.#bytes > this.#rules.maxBytes) {
      this.breakOff();
      return;
    }
    if (!this.#isText(chunk)) {
      this.#refuse();
      return;
    }
    const ready = this.#held;
    this.#held = chunk;
    if (!this.#readable.push(ready)) this.#source.pause();
  }

  /** False when no JSON in UTF-8 begins with all that came. */
  #isText(chunk: Uint8Array): boolean {
    try {
      this.#utf8.decode(chunk, { stream: true });
    } catch {
      return false;
    }
    return this.#json.write(chunk);
  }

  #refuse(): void {
    this.#rules.malformed?.();
    this.breakOff();
  }

  end(): void {
    if (this.#isOver) return;
    if (!this.#json.end()) {
      this.#refuse();
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
