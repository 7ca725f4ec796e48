import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { asBuffer, type Clock } from "@turnpike/base";

/** Size of a buffer that is used again; a larger response has one of its own. */
const SLAB_BYTES = 65_536;
/** Most buffers that are kept for the next responses. */
const MAX_SLABS = 64;
/** A body up to this size is cheapest as text in one string with its head. */
const TEXT_BYTES = 4_096;

/** A response that is ready to be written: text of one byte a character, bytes, or a part of a buffer used again. */
export type Payload = string | Uint8Array | { readonly slab: Buffer; readonly bytes: number };

/** How a response is written. */
export interface ResponseOptions {
  /** True: the connection ends after it. */
  readonly close?: boolean;
  /** Called once, when its last byte is the system's or its connection is gone. */
  readonly onSent?: (() => void) | undefined;
}

/** Makes the bytes of whole responses, with the fields that `node:http` adds to its own. */
export class ResponseWriter {
  readonly #clock: Clock;
  readonly #keepAliveMs: () => number;
  readonly #slabs: Buffer[] = [];
  #second = -1;
  #date = "";

  /** @param keepAliveMs how long an idle connection stays open: what the `Keep-Alive` field says */
  constructor(keepAliveMs: () => number, modules: { readonly clock: Clock }) {
    this.#clock = modules.clock;
    this.#keepAliveMs = keepAliveMs;
  }

  /**
   * A response, whose body is copied. `Content-Length`, `Date`, `Connection` and `Keep-Alive` are added.
   * @param fields whole field lines in ASCII, each with its CR LF; they are not checked
   */
  payload(status: number, fields: string, body: Uint8Array | string, close: boolean): Payload {
    const isBodiless = status === 204 || status === 304;
    if (typeof body === "string" && Buffer.byteLength(body) === body.length) {
      return this.#head(status, fields, isBodiless ? -1 : body.length, close) + (isBodiless ? "" : body);
    }
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const head = this.#head(status, fields, isBodiless ? -1 : bytes.length, close);
    if (isBodiless || bytes.length === 0) return head;
    if (bytes.length <= TEXT_BYTES) {
      return head + asBuffer(bytes).toString("latin1");
    }
    const size = head.length + bytes.length;
    const slab = size <= SLAB_BYTES ? (this.#slabs.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES)) : undefined;
    const buffer = slab ?? Buffer.allocUnsafeSlow(size);
    buffer.write(head, "latin1");
    buffer.set(bytes, head.length);
    return slab === undefined ? buffer : { slab, bytes: size };
  }

  /** Writes a response in one piece. False when the client must read before more is written. */
  write(socket: Socket, payload: Payload, onSent: (() => void) | undefined): boolean {
    if (typeof payload === "string") return socket.write(payload, "latin1", onSent);
    if (payload instanceof Uint8Array) return socket.write(payload, onSent);
    const { slab, bytes } = payload;
    return socket.write(slab.subarray(0, bytes), (error) => {
      // After an error the bytes may still be the system's.
      if (!(error instanceof Error) && this.#slabs.length < MAX_SLABS) this.#slabs.push(slab);
      onSent?.();
    });
  }

  /** The head of a response whose body follows in chunks (RFC 9112 §7.1). See {@link payload}. */
  chunkedHead(status: number, fields: string, close: boolean): string {
    return this.#head(status, `${fields}Transfer-Encoding: chunked\r\n`, -1, close);
  }

  #head(status: number, fields: string, bodyBytes: number, close: boolean): string {
    const line = status === 200 ? "HTTP/1.1 200 OK\r\n" : `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n`;
    const length = bodyBytes === -1 ? "" : `Content-Length: ${bodyBytes}\r\n`;
    if (close) return `${line}${fields}${length}Connection: close\r\n${this.#dateLine()}\r\n`;
    const seconds = Math.floor(this.#keepAliveMs() / 1_000);
    const keepAlive = this.#keepAliveMs() > 0 ? `Keep-Alive: timeout=${seconds}\r\n` : "";
    return `${line}${fields}${length}${this.#dateLine()}Connection: keep-alive\r\n${keepAlive}\r\n`;
  }

  /** Made once a second. */
  #dateLine(): string {
    const second = Math.floor(this.#clock.nowMs() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = `Date: ${new Date(second * 1_000).toUTCString()}\r\n`;
    }
    return this.#date;
  }
}
