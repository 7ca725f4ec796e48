import type { Server } from "node:http";
import type { Socket } from "node:net";
import { ChunkedBody, type ChunkedResponseOptions } from "./chunked-body.ts";
import { type FastRequest, FastResponse, type ResponseConnection } from "./fast-request.ts";
import { INCOMPLETE, REFUSED } from "./head.ts";
import type { PlainForm } from "./plain-form.ts";
import type { ResponseOptions, ResponseWriter } from "./response-writer.ts";

/** What the connections of one listener share. */
export interface ConnectionHost {
  readonly server: Server;
  readonly form: PlainForm;
  readonly request: FastRequest;
  readonly writer: ResponseWriter;
  /** True for a request that is, or will be, answered. */
  readonly handle: (request: FastRequest) => boolean;
  /** Counts checks, which come at an even pace. */
  readonly now: () => number;
  /** Time between two checks. */
  readonly checkMs: number;
  /** The number of checks that surely take this long. */
  readonly checksOf: (timeMs: number) => number;
  readonly isClosing: () => boolean;
  /** Undefined: a connection on which nothing comes is handed over. */
  readonly firstByteTimeoutMs: number | undefined;
  readonly stallTimeoutMs: () => number;
  readonly allowsHalfOpen: boolean;
  /** Reserves bytes of requests that are not whole; false when there are none left. */
  readonly reserve: (bytes: number) => boolean;
  readonly release: (bytes: number) => void;
  /** Has {@link FastConnection.flush} called at the end of the turn of the event loop. */
  readonly flush: (connection: FastConnection) => void;
  /** The connection is no longer this listener's. */
  readonly left: (connection: FastConnection, isHandedOver: boolean) => void;
}

/** A head in more pieces is handed over: each piece is read from the head's beginning. */
const MAX_HEAD_PIECES = 16;
/** Checks that a request which is not whole may see before it is handed over. */
const PARTIAL_CHECKS = 2;
const MIN_HELD_BYTES = 1_024;
const LINGER_MS = 2_000;
const LINGER_BYTES = 2_097_152;
/** `node:http` keeps an idle connection this much longer than it says. */
const KEEP_ALIVE_BUFFER_MS = 1_000;
const NONE: Buffer = Buffer.alloc(0);

/** `open`: served here. `lingering`: half-closed, what comes is thrown away. `left`: closed, or handed over. */
type Phase = "open" | "lingering" | "left";

/**
 * One connection on the fast way. It reads in paused mode: bytes behind a request that is not answered stay in the
 * socket's own bounded buffer, and the end of the stream is seen while bytes may still be put back.
 */
export class FastConnection implements ResponseConnection {
  readonly socket: Socket;
  readonly #host: ConnectionHost;
  #phase: Phase = "open";
  /** True while a request is not answered, its response not written, or an earlier one not read. */
  #isBusy = false;
  #isInHandler = false;
  /** Where the response to the request that is under way goes; undefined once it was given. */
  #current: FastResponse | undefined;
  #closesAfter = false;
  /** The stream became readable, or ended, while it was not read. */
  #hasUnread = false;
  #hasEnded = false;
  #isSlow = false;
  #served = 0;
  /** The check at which the present state began. */
  #since: number;
  /** Bytes of one request that is not whole. */
  #held: Buffer | undefined;
  #heldBytes = 0;
  #pieces = 0;
  /** Bytes of the whole request, once its head is known. */
  #needed = 0;
  /** Bytes behind the request that is under way. */
  #rest: Buffer = NONE;
  #payload: ReturnType<ResponseWriter["payload"]> | undefined;
  #onSent: (() => void) | undefined;
  /** The body of a response that is written while it arrives. */
  #body: ChunkedBody | undefined;
  #readAtEnd = 0;
  readonly #listeners: readonly (readonly [string, () => void])[];

  constructor(socket: Socket, host: ConnectionHost) {
    this.socket = socket;
    this.#host = host;
    this.#since = host.now();
    this.#listeners = [
      ["readable", () => this.#onReadable()],
      ["end", () => this.#onEnd()],
      ["drain", () => this.#onDrain()],
      ["close", () => this.#onClose()],
      ["timeout", () => this.#onTimeout()],
      // `close` follows.
      ["error", () => {}],
    ];
    for (const [event, listener] of this.#listeners) socket.on(event, listener);
  }

  /** Time since its last response, or its beginning; undefined while a response is due. */
  get idleMs(): number | undefined {
    return this.#isBusy ? undefined : (this.#host.now() - this.#since) * this.#host.checkMs;
  }

  isOpenFor(response: FastResponse): boolean {
    return this.#current === response && this.#isOpen;
  }

  respond(
    response: FastResponse,
    status: number,
    fields: string,
    body: Uint8Array | string,
    { close = false, onSent }: ResponseOptions,
  ): void {
    if (!this.isOpenFor(response)) return;
    this.#current = undefined;
    this.#closesAfter = close || this.#host.isClosing();
    this.#payload = this.#host.writer.payload(status, fields, body, this.#closesAfter);
    this.#onSent = onSent;
    this.#host.flush(this);
  }

  respondInChunks(
    response: FastResponse,
    status: number,
    fields: string,
    { close = false, ...events }: ChunkedResponseOptions,
  ): ChunkedBody | undefined {
    if (!this.isOpenFor(response)) return undefined;
    this.#current = undefined;
    this.#closesAfter = close || this.#host.isClosing();
    this.socket.write(this.#host.writer.chunkedHead(status, fields, this.#closesAfter), "latin1");
    this.#wrote();
    this.#body = new ChunkedBody(this.socket, events, {
      wrote: () => this.#wrote(),
      ended: (canGoOn) => {
        this.#body = undefined;
        this.#afterResponse(canGoOn);
      },
    });
    return this.#body;
  }

  /** Writes the response that was given, and goes on. */
  flush(): void {
    const payload = this.#payload;
    this.#payload = undefined;
    if (!this.#isOpen || payload === undefined) return;
    const onSent = this.#onSent;
    this.#onSent = undefined;
    const canGoOn = this.#host.writer.write(this.socket, payload, onSent);
    this.#wrote();
    this.#afterResponse(canGoOn);
  }

  /** From now on the client has to read what waits, or the connection ends by its time-out. */
  #wrote(): void {
    this.#since = this.#host.now();
    if (this.socket.writableLength > 0 && !this.#isSlow) {
      this.#isSlow = true;
      this.socket.setTimeout(this.#host.stallTimeoutMs());
    }
  }

  #afterResponse(canGoOn: boolean): void {
    if (this.#closesAfter) this.#linger();
    else if (canGoOn) this.#goOn();
  }

  /** Ends an idle connection, and hands over one whose request is not whole: the listener takes no more. */
  close(): void {
    if (this.#phase !== "open" || this.#isBusy) return;
    if (this.#held === undefined) this.#linger();
    else this.#handOver(this.#takeHeld());
  }

  /** Applies the time-outs. */
  check(): void {
    const { server, now, checksOf } = this.#host;
    if (this.#isSlow && this.socket.writableLength === 0) {
      this.#isSlow = false;
      this.socket.setTimeout(0);
    }
    const passed = now() - this.#since;
    if (this.#phase === "lingering") this.#checkLinger(passed);
    else if (this.#held !== undefined) {
      if (passed >= PARTIAL_CHECKS) this.#handOver(this.#takeHeld());
    } else if (this.#isBusy) {
      // Writes that wait have a timer of their own, which sees their progress.
      if (server.timeout > 0 && passed >= checksOf(server.timeout) && !this.#isSlow) this.socket.destroy();
    } else if (this.#served === 0) this.#checkFirst(passed);
    else if (!this.#isSlow) {
      const idleMs = server.keepAliveTimeout > 0 ? server.keepAliveTimeout + KEEP_ALIVE_BUFFER_MS : server.timeout;
      if (idleMs > 0 && passed >= checksOf(idleMs)) this.socket.destroy();
    }
  }

  /** Of a connection on which nothing came yet. */
  #checkFirst(passed: number): void {
    const { server, checksOf, firstByteTimeoutMs } = this.#host;
    if (firstByteTimeoutMs !== undefined) {
      if (passed >= checksOf(firstByteTimeoutMs)) this.socket.destroy();
    } else if (server.headersTimeout > 0 && passed >= checksOf(server.headersTimeout / 2)) {
      // The server's own time-out begins anew then: together they are one and a half of it.
      this.#handOver(NONE);
    }
  }

  get #isOpen(): boolean {
    return this.#phase === "open" && !this.socket.destroyed;
  }

  #checkLinger(passed: number): void {
    const { socket } = this;
    if (!socket.writableFinished) this.#since = this.#host.now();
    else if (passed >= this.#host.checksOf(LINGER_MS)) socket.destroy();
    if (socket.bytesRead - this.#readAtEnd > LINGER_BYTES) socket.destroy();
  }

  #onReadable(): void {
    const isAtEnd = this.socket.readableLength === 0;
    if (this.#isBusy) {
      this.#hasUnread = true;
      // Bytes can be put back until the stream has emitted its end, which it does when it is empty.
      if (isAtEnd && this.#rest.length > 0) {
        // What is put back would hide the end, and that its client has left.
        if (this.#endsWithClient) {
          this.#rest = NONE;
          this.socket.destroySoon();
          return;
        }
        this.socket.unshift(this.#rest);
        this.#rest = NONE;
      }
    } else if (isAtEnd && this.#held !== undefined) this.#handOver(this.#takeHeld());
    else this.#read();
  }

  /** True while a response is due that a client which has ended its side does not wait for. */
  get #endsWithClient(): boolean {
    return !this.#host.allowsHalfOpen && (this.#current !== undefined || this.#body !== undefined);
  }

  #onEnd(): void {
    this.#hasEnded = true;
    if (this.#phase !== "open") return;
    if (this.#isBusy) {
      if (this.#endsWithClient) this.socket.destroySoon();
      return;
    }
    if (this.#held === undefined) this.socket.end();
    else this.socket.destroy();
  }

  /** Nothing was written for so long. It is the client's fault only while something waits to be written. */
  #onTimeout(): void {
    if (this.socket.writableLength > 0) this.socket.destroy();
    else {
      this.#isSlow = false;
      this.socket.setTimeout(0);
    }
  }

  #onDrain(): void {
    if (this.#body !== undefined) this.#body.drained();
    else if (this.#phase === "open" && this.#isBusy && this.#current === undefined && this.#payload === undefined)
      this.#goOn();
  }

  #onClose(): void {
    if (this.#held !== undefined) this.#takeHeld();
    const aborted = this.#current;
    const body = this.#body;
    const onSent = this.#onSent;
    this.#body = undefined;
    this.#onSent = undefined;
    this.#leave(false);
    aborted?.onAbort?.();
    body?.closed();
    onSent?.();
  }

  #leave(isHandedOver: boolean): void {
    this.#phase = "left";
    this.#rest = NONE;
    this.#current = undefined;
    this.#host.left(this, isHandedOver);
  }

  /** After a response: what came behind its request, if the loop that offered it does not go on itself. */
  #goOn(): void {
    this.#isBusy = false;
    this.#served++;
    if (this.#isInHandler) return;
    if (this.#rest.length > 0) {
      const rest = this.#rest;
      this.#rest = NONE;
      this.#consume(rest);
    }
    if (this.#hasUnread) this.#readMissed();
    else if (!this.#isBusy && this.#phase === "open" && this.#hasEnded) this.socket.end();
    else if (!this.#isBusy && this.#phase === "open" && this.#host.isClosing()) this.close();
  }

  /** Reads what came while nothing was read. The stream may have ended as well, and does not say so again. */
  #readMissed(): void {
    this.#read();
    if (this.#isBusy || this.#phase !== "open") return;
    this.#hasUnread = false;
    if (this.#held !== undefined) this.#handOver(this.#takeHeld());
    else if (this.#hasEnded) this.socket.end();
    else if (this.#host.isClosing()) this.close();
    else this.socket.read(0);
  }

  #read(): void {
    const { socket } = this;
    while (!this.#isBusy && this.#phase === "open") {
      // A size that is asked for exactly does not make the stream emit its end yet. A larger one than the stream's bound
      // would raise that.
      const size = Math.min(socket.readableLength, socket.readableHighWaterMark);
      if (size === 0) return;
      const chunk = socket.read(size) as Buffer | null;
      if (chunk === null) return;
      if (this.#held === undefined) this.#consume(chunk);
      else this.#append(this.#held, chunk);
    }
  }

  /** More of a request that is not whole. */
  #append(held: Buffer, chunk: Buffer): void {
    const end = this.#heldBytes + chunk.length;
    const grown = end <= held.length ? held : this.#grow(held, end);
    if (grown === undefined) {
      const bytes = this.#takeHeld();
      this.#handOver(Buffer.concat([bytes, chunk]));
      return;
    }
    chunk.copy(grown, this.#heldBytes);
    this.#held = grown;
    this.#heldBytes = end;
    this.#pieces++;
    if (this.#needed > 0 ? end >= this.#needed : true) this.#consume(this.#takeHeld());
  }

  #grow(held: Buffer, bytes: number): Buffer | undefined {
    const size = Math.max(bytes, held.length * 2);
    if (!this.#host.reserve(size - held.length)) return undefined;
    const grown = Buffer.allocUnsafeSlow(size);
    held.copy(grown, 0, 0, this.#heldBytes);
    return grown;
  }

  /** Serves the requests of these bytes until one is under way, is not whole, or is for the server. */
  #consume(bytes: Buffer): void {
    const { form, request } = this.#host;
    const end = bytes.length;
    let at = 0;
    while (at < end && this.#phase === "open") {
      const bodyAt = form.read(bytes, at, end, request.head);
      const bodyEnd = bodyAt + form.bodyBytes;
      if (bodyAt === INCOMPLETE) {
        this.#hold(bytes, at, 0);
        return;
      }
      if (bodyAt !== REFUSED && bodyEnd > end) {
        this.#hold(bytes, at, bodyEnd - at);
        return;
      }
      if (bodyAt === REFUSED || !this.#offer(bytes, bodyAt, bodyEnd)) {
        this.#handOver(bytes.subarray(at));
        return;
      }
      this.#pieces = 0;
      at = bodyEnd;
      if (this.#isBusy) {
        this.#rest = at < end ? bytes.subarray(at) : NONE;
        return;
      }
    }
  }

  #offer(bytes: Buffer, bodyStart: number, bodyEnd: number): boolean {
    const { request, handle } = this.#host;
    request.bytes = bytes;
    request.bodyStart = bodyStart;
    request.bodyEnd = bodyEnd;
    const response = new FastResponse(this);
    request.response = response;
    this.#current = response;
    this.#isBusy = true;
    this.#isInHandler = true;
    this.#since = this.#host.now();
    const isHandled = handle(request);
    this.#isInHandler = false;
    request.bytes = NONE;
    if (!isHandled) {
      this.#isBusy = false;
      this.#current = undefined;
    }
    return isHandled;
  }

  /** Keeps the beginning of a request until the rest comes. */
  #hold(bytes: Buffer, at: number, needed: number): void {
    const size = bytes.length - at;
    const room = Math.max(MIN_HELD_BYTES, size);
    if (this.#pieces === 0) this.#since = this.#host.now();
    if ((needed === 0 && this.#pieces >= MAX_HEAD_PIECES) || !this.#host.reserve(room)) {
      this.#handOver(bytes.subarray(at));
      return;
    }
    const held = Buffer.allocUnsafeSlow(room);
    bytes.copy(held, 0, at);
    this.#held = held;
    this.#heldBytes = size;
    this.#needed = needed;
  }

  #takeHeld(): Buffer {
    const held = this.#held ?? NONE;
    const bytes = held.subarray(0, this.#heldBytes);
    this.#host.release(held.length);
    this.#held = undefined;
    this.#heldBytes = 0;
    return bytes;
  }

  /** Gives the connection to the server for good, at the first byte of a request. No response is due. */
  #handOver(bytes: Buffer): void {
    const { socket } = this;
    if (this.#phase !== "open") return;
    for (const [event, listener] of this.#listeners) socket.off(event, listener);
    if (this.#isSlow) socket.setTimeout(0);
    this.#leave(true);
    if (socket.destroyed) return;
    if (bytes.length > 0) socket.unshift(bytes);
    this.#host.server.emit("connection", socket);
    // Its listeners find a stream that was read in paused mode, and do not start it. One that is to be read later stays as
    // it is: without a listener its bytes would be lost.
    if (socket.listenerCount("data") > 0) socket.resume();
  }

  /**
   * Half-closes, and throws away what still comes, within bounds of time and bytes (RFC 9112 §9.6): to close at once
   * would be a reset, which may take the response with it.
   */
  #linger(): void {
    const { socket } = this;
    const [readable] = this.#listeners;
    this.#phase = "lingering";
    this.#rest = NONE;
    this.#since = this.#host.now();
    this.#readAtEnd = socket.bytesRead;
    if (readable !== undefined) socket.off(...readable);
    socket.end();
    socket.resume();
  }
}
