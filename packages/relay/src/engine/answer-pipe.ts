import { Readable } from "node:stream";
import { AppError } from "@turnpike/base";
import type { Dispatcher } from "undici";
import type { StreamRules } from "./exchange.ts";

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

/**
 * A large JSON-RPC answer on its way from a supplier to a client, no faster than the client takes it. The newest chunk
 * is held back, so that an answer that does not end as an object does is broken off before it looks whole.
 */
export class AnswerPipe implements AsyncIterable<Uint8Array> {
  readonly #readable: Readable;
  readonly #controller: Dispatcher.DispatchController;
  readonly #maxBytes: number;
  readonly #timer: NodeJS.Timeout;
  #held: Uint8Array;
  #last: number | undefined;
  #bytes: number;
  #isOver = false;

  constructor(rules: StreamRules, controller: Dispatcher.DispatchController, head: Uint8Array, done: () => void) {
    this.#controller = controller;
    this.#maxBytes = rules.maxBytes;
    this.#held = head;
    this.#last = lastByte(head);
    this.#bytes = head.length;
    // Also when the supplier is done: who reads slowly holds what is left of it, and a slot.
    this.#timer = setTimeout(() => this.#readable.destroy(new AppError("SUPPLIERS_FAILED")), rules.timeoutMs);
    this.#readable = new Readable({
      read: () => controller.resume(),
      destroy: (error, callback) => {
        clearTimeout(this.#timer);
        if (!this.#isOver) controller.abort(new AppError("SUPPLIERS_FAILED"));
        this.#isOver = true;
        done();
        callback(error);
      },
    });
    // Whoever reads it hears of its end; nobody may be there any more.
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
    if (!this.#readable.push(ready)) this.#controller.pause();
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

  /** Takes one; false when there is none. */
  take(): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    return true;
  }

  give(): void {
    this.#free++;
  }
}

const ID = String.raw`("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|null)`;
const VERSION = String.raw`"jsonrpc"\s*:\s*"2\.0"`;
const BEGINNING = new RegExp(
  String.raw`^\s*\{\s*(?:${VERSION}\s*,\s*"id"\s*:\s*${ID}|"id"\s*:\s*${ID}\s*,\s*${VERSION})\s*,\s*"result"\s*:\s*[[{"]`,
);
/** Members before the result are read in so many bytes. */
const BEGINNING_BYTES = 4_096;

/**
 * The beginning of a JSON-RPC result with the client's own id; undefined when it is not known to answer this call before
 * its end: then the answer has to be taken whole.
 */
export function streamHead(beginning: Buffer, wantedId: string, clientId: string | undefined): Uint8Array | undefined {
  const text = beginning.toString("latin1", 0, BEGINNING_BYTES);
  const found = BEGINNING.exec(text);
  const raw = found?.[1] ?? found?.[2];
  if (raw === undefined || raw !== Buffer.from(wantedId).toString("latin1")) return undefined;
  if (clientId === undefined) return beginning;
  const at = text.indexOf(raw, text.indexOf('"id"') + 4);
  return Buffer.concat([beginning.subarray(0, at), Buffer.from(clientId), beginning.subarray(at + raw.length)]);
}
