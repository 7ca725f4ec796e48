import type { Socket } from "node:net";

/** What a {@link ChunkedBody} reports to its writer. */
export interface ChunkedBodyEvents {
  /** More may be written, after a `write` that returned false. */
  readonly onDrain: () => void;
  /** The connection is gone before the body was whole. */
  readonly onClose: () => void;
}

/** How a response with such a body is written. */
export interface ChunkedResponseOptions extends ChunkedBodyEvents {
  /** True: the connection ends after it. */
  readonly close?: boolean;
}

/** What a {@link ChunkedBody} reports to its connection. */
interface ChunkedBodyOwner {
  readonly wrote: () => void;
  /** `canGoOn`: false while the client has to read first. */
  readonly ended: (canGoOn: boolean) => void;
}

/** The body of a response that is written while it arrives, in chunks (RFC 9112 §7.1). */
export class ChunkedBody {
  readonly #socket: Socket;
  readonly #events: ChunkedBodyEvents;
  readonly #owner: ChunkedBodyOwner;
  #isOver = false;

  constructor(socket: Socket, events: ChunkedBodyEvents, owner: ChunkedBodyOwner) {
    this.#socket = socket;
    this.#events = events;
    this.#owner = owner;
  }

  /** False when the client does not keep up: wait for `onDrain`. The bytes must not change until then. */
  write(bytes: Uint8Array): boolean {
    if (this.#isOver || this.#socket.destroyed) return false;
    // An empty chunk would be the end.
    if (bytes.length === 0) return true;
    const socket = this.#socket;
    socket.cork();
    socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    socket.write(bytes);
    const canGoOn = socket.write("\r\n", "latin1");
    socket.uncork();
    this.#owner.wrote();
    return canGoOn;
  }

  /**
   * The body is whole.
   * @param onSent called once, when its last byte is the system's or its connection is gone; not where `onClose` is
   */
  end(onSent?: () => void): void {
    if (this.#isOver || this.#socket.destroyed) return;
    this.#isOver = true;
    const canGoOn = this.#socket.write("0\r\n\r\n", "latin1", onSent === undefined ? undefined : () => onSent());
    this.#owner.wrote();
    this.#owner.ended(canGoOn);
  }

  /** Breaks the body off by closing the connection, so that the client does not take a part for the whole. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Called by the connection. */
  drained(): void {
    this.#events.onDrain();
  }

  /** Called by the connection, which is gone. */
  closed(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.onClose();
  }
}
