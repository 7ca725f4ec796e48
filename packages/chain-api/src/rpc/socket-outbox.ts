import type { AnswerReader, Clock, ReleaseBytes, WriteBufferBudget } from "@turnpike/base";
import type { WebSocket } from "ws";
import { LARGE_ANSWER_BYTES } from "../write-buffer.ts";
import { type RpcId, successHead } from "./answers.ts";
import { goJsonText } from "./go-json.ts";
import type { RpcEvent } from "./rpc-event.ts";

interface Message {
  readonly bytes: number;
  readonly sinceMs: number;
  readonly release: ReleaseBytes | undefined;
  write(socket: WebSocket, onWritten: () => void): void;
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
 * is behind costs what its messages share with others' once. Each must be read within a time after it was sent.
 */
export class SocketOutbox {
  readonly #timeoutMs: number;
  readonly #modules: SocketOutboxModules;
  readonly #queue: Message[] = [];
  /** Messages in the socket's own buffer. */
  readonly #written: Message[] = [];
  readonly #waiters = new Set<() => void>();
  #bytes = 0;
  #writtenBytes = 0;
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
      (socket, onWritten) => socket.send(text, onWritten),
    );
  }

  /** Sends an event to a subscription. False, with nothing sent, when there is no room for it. */
  sendEvent(id: RpcId, query: string, event: RpcEvent): boolean {
    const write = (socket: WebSocket, onWritten: () => void): void => {
      const { data } = event;
      const head = `${successHead(id)}{"query":${goJsonText(query)},`;
      if (typeof data === "string") {
        socket.send(`${head}${data}}}`, onWritten);
        return;
      }
      // Its frames (RFC 6455 section 5.4) have the bytes that all subscribers share.
      socket.send(head, { fin: false });
      socket.send(data, { binary: false, fin: false });
      socket.send("}}", onWritten);
    };
    return this.#add(event.data.length, () => event.reserve(this.#modules.reader), write);
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
    for (const { release } of [...this.#written, ...this.#queue]) release?.();
    this.#written.length = 0;
    this.#queue.length = 0;
    this.#wake();
  }

  #add(bytes: number, reserve: () => ReleaseBytes | undefined, write: Message["write"]): boolean {
    if (this.#isClosed) return true;
    const isLarge = this.#bytes + bytes >= LARGE_ANSWER_BYTES;
    const release = isLarge ? reserve() : undefined;
    if (isLarge && release === undefined) return false;
    // Making room may have closed this connection itself, when a proxy has it.
    if (this.#isClosed) release?.();
    else {
      this.#bytes += bytes;
      this.#queue.push({ bytes, sinceMs: this.#modules.clock.monotonicMs(), release, write });
      this.#writeNext();
    }
    return true;
  }

  #writeNext(): void {
    while (this.#writtenBytes < LARGE_ANSWER_BYTES) {
      const message = this.#queue.shift();
      if (message === undefined) break;
      this.#written.push(message);
      this.#writtenBytes += message.bytes;
      message.write(this.#modules.socket, () => this.#onWritten(message));
    }
    const oldest = this.#written[0];
    if (oldest !== undefined) this.#timer ??= this.#timerFor(oldest);
  }

  #onWritten(message: Message): void {
    if (this.#isClosed) return;
    this.#written.shift();
    this.#writtenBytes -= message.bytes;
    this.#bytes -= message.bytes;
    message.release?.();
    this.#writeNext();
    if (this.#written.length === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    this.#wake();
  }

  /** The time of the oldest message; it is set again when that one was read. */
  #timerFor(message: Message): NodeJS.Timeout {
    const remainingMs = this.#timeoutMs - (this.#modules.clock.monotonicMs() - message.sinceMs);
    return setTimeout(
      () => {
        const oldest = this.#written[0];
        if (oldest === message) this.#modules.onSlow();
        else this.#timer = oldest === undefined ? undefined : this.#timerFor(oldest);
      },
      Math.max(0, remainingMs),
    );
  }

  #wake(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }
}
