import type { AnswerReader, Clock, ReleaseBytes, WriteBufferBudget } from "@turnpike/base";
import type { WebSocket } from "ws";
import { LARGE_ANSWER_BYTES } from "../write-buffer.ts";
import { type RpcId, successHead } from "./answers.ts";
import { goJsonText } from "./go-json.ts";
import type { RpcEvent } from "./rpc-event.ts";

/** Maximum bytes of one frame: what a client reads of a long message shows at the end of each. */
const FRAME_BYTES = 1024 * 1024;
/** Bytes for which a client that reads them gets its whole time anew. */
const PROGRESS_BYTES = 8 * FRAME_BYTES;
/** Part of the unread bytes that a client reads in a second so that it is not closed for others. */
const READING_PART = 0.1;

interface Message {
  readonly bytes: number;
  readonly sinceMs: number;
  readonly release: ReleaseBytes | undefined;
  /** Data of its frames. They are created late. */
  frames(): readonly FrameData[];
}

interface FrameData {
  readonly data: string | Buffer;
  /** Those of the message that it has. */
  readonly bytes: number;
}

/** Part of a message that is fragmented (RFC 6455 section 5.4). */
interface Frame extends FrameData {
  readonly message: Message;
  readonly isLast: boolean;
}

function framesOf(message: Message): Frame[] {
  const frames = message.frames();
  return frames.map((frame, at) => ({ ...frame, message, isLast: at === frames.length - 1 }));
}

/** Divides bytes without a copy: all subscribers of an event share them. */
function divided(data: Buffer): readonly FrameData[] {
  return Array.from({ length: Math.ceil(data.length / FRAME_BYTES) }, (_, at) => {
    const frame = data.subarray(at * FRAME_BYTES, (at + 1) * FRAME_BYTES);
    return { data: frame, bytes: frame.length };
  });
}

export interface SocketOutboxModules {
  readonly socket: WebSocket;
  readonly reader: AnswerReader;
  readonly writeBuffer: WriteBufferBudget;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Called when the client has not read a message in time. */
  readonly onSlow: () => void;
}

/**
 * Messages to one WebSocket client, in their order. They are created as frames when earlier ones were written, so that a client that
 * is behind costs what its messages share with others' once. Each must be read within a time after it was sent, or after the client
 * read 8 MiB more: a long message, or many, may take any number of such times.
 */
export class SocketOutbox {
  readonly #timeoutMs: number;
  readonly #modules: SocketOutboxModules;
  readonly #queue: Message[] = [];
  /** Messages of which frames were created, the oldest first; a socket that closes may report them in another order. */
  readonly #begun = new Set<Message>();
  /** Their frames that wait. */
  #frames: Frame[] = [];
  readonly #waiters = new Set<() => void>();
  #bytes = 0;
  /** Bytes in the socket's own buffer. */
  #writtenBytes = 0;
  /** Time of the latest progress, and bytes that were read after it. */
  #progressMs = Number.NEGATIVE_INFINITY;
  #progressBytes = 0;
  /** Bytes that are read in a second, as of a time; earlier ones count e times less for each second. */
  #rate = 0;
  #rateMs = 0;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(writeTimeoutMs: number, modules: SocketOutboxModules) {
    this.#timeoutMs = writeTimeoutMs;
    this.#modules = modules;
  }

  /** Sends a text. False, with nothing sent, when there is no room for it. */
  send(text: string): boolean {
    const bytes = Buffer.byteLength(text);
    const { writeBuffer, reader } = this.#modules;
    return this.#add(
      bytes,
      () => writeBuffer.reserve(bytes, reader),
      () => (bytes < FRAME_BYTES ? [{ data: text, bytes }] : divided(Buffer.from(text))),
    );
  }

  /** Sends an event to a subscription. False, with nothing sent, when there is no room for it. */
  sendEvent(id: RpcId, query: string, event: RpcEvent): boolean {
    const frames = (): readonly FrameData[] => {
      const { data } = event;
      const head = `${successHead(id)}{"query":${goJsonText(query)},`;
      return typeof data === "string"
        ? [{ data: `${head}${data}}}`, bytes: data.length }]
        : [{ data: head, bytes: 0 }, ...divided(data), { data: "}}", bytes: 0 }];
    };
    return this.#add(event.data.length, () => event.reserve(this.#modules.reader), frames);
  }

  /** True: the client would read all that is unread in 10 s, at its rate of the last second. */
  isReading(): boolean {
    return this.#rateAt(this.#modules.clock.monotonicMs()) >= this.#bytes * READING_PART;
  }

  /** Resolves when at most so many bytes are unread, or the connection has ended. */
  async drained(maxBytes: number): Promise<void> {
    while (this.#bytes > maxBytes && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }

  /** Releases all messages: the connection has ended. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const { release } of [...this.#begun, ...this.#queue]) release?.();
    this.#begun.clear();
    this.#frames.length = 0;
    this.#queue.length = 0;
    this.#wake();
  }

  #add(bytes: number, reserve: () => ReleaseBytes | undefined, frames: Message["frames"]): boolean {
    if (this.#isClosed) return true;
    const isLarge = this.#bytes + bytes >= LARGE_ANSWER_BYTES;
    const release = isLarge ? reserve() : undefined;
    if (isLarge && release === undefined) return false;
    // Making room may have closed this connection itself, when a proxy has it.
    if (this.#isClosed) release?.();
    else {
      this.#bytes += bytes;
      this.#queue.push({ bytes, sinceMs: this.#modules.clock.monotonicMs(), release, frames });
      this.#writeNext();
    }
    return true;
  }

  #writeNext(): void {
    while (this.#writtenBytes < LARGE_ANSWER_BYTES) {
      const frame = this.#nextFrame();
      if (frame === undefined) break;
      const { data, bytes, isLast } = frame;
      this.#writtenBytes += bytes;
      this.#modules.socket.send(data, { binary: false, fin: isLast }, () => this.#onWritten(frame));
    }
    const [oldest] = this.#begun;
    if (oldest !== undefined) this.#timer ??= this.#timerFor(oldest);
  }

  #nextFrame(): Frame | undefined {
    if (this.#frames.length === 0) {
      const message = this.#queue.shift();
      if (message === undefined) return undefined;
      this.#begun.add(message);
      this.#frames = framesOf(message);
    }
    return this.#frames.shift();
  }

  #onWritten({ bytes, message, isLast }: Frame): void {
    if (this.#isClosed) return;
    this.#writtenBytes -= bytes;
    this.#bytes -= bytes;
    this.#countRead(bytes);
    if (isLast) {
      this.#begun.delete(message);
      message.release?.();
    }
    this.#writeNext();
    if (this.#begun.size === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#progressBytes = 0;
    }
    this.#wake();
  }

  #countRead(bytes: number): void {
    const nowMs = this.#modules.clock.monotonicMs();
    this.#rate = this.#rateAt(nowMs) + bytes;
    this.#rateMs = nowMs;
    this.#progressBytes += bytes;
    if (this.#progressBytes < PROGRESS_BYTES) return;
    this.#progressBytes = 0;
    this.#progressMs = nowMs;
  }

  #rateAt(nowMs: number): number {
    return this.#rate * Math.exp((this.#rateMs - nowMs) / 1000);
  }

  /** The time of the oldest message; it is set again when that one was read, or enough of it. */
  #timerFor(message: Message): NodeJS.Timeout {
    const progressMs = this.#progressMs;
    const elapsedMs = this.#modules.clock.monotonicMs() - Math.max(message.sinceMs, progressMs);
    return setTimeout(
      () => {
        const [oldest] = this.#begun;
        if (oldest === message && this.#progressMs === progressMs) this.#modules.onSlow();
        else this.#timer = oldest === undefined ? undefined : this.#timerFor(oldest);
      },
      Math.max(0, this.#timeoutMs - elapsedMs),
    );
  }

  #wake(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }
}
