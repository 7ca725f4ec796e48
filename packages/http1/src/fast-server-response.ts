import { AppError } from "@turnpike/base";
import type { ChunkedBody } from "./chunked-body.ts";
import type { FastResponse } from "./fast-request.ts";

/** What handlers use of a response, be it one of `node:http` or a {@link FastServerResponse}. */
export interface AnyServerResponse {
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  /** `headers`: name, value, name, value. */
  writeHead(status: number, headers: string[]): unknown;
  /** False when the client does not keep up: `drain` says that it does again. */
  write(chunk: Uint8Array): boolean;
  end(): unknown;
  end(body: Uint8Array | string): unknown;
  end(body: string, encoding: "latin1"): unknown;
  on(event: "close" | "drain", listener: () => void): unknown;
  once(event: "close" | "drain", listener: () => void): unknown;
  off(event: "close" | "drain", listener: () => void): unknown;
  destroy(): unknown;
}

/** Resolves when more can be written, or the client has left. */
export function whenWritable(response: AnyServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => {
    response.off("drain", done);
    response.off("close", done);
    resolve();
  };
  response.on("drain", done);
  response.on("close", done);
  if (response.destroyed) done();
  return promise;
}

/** Bytes that no field value may hold (RFC 9110 §5.5). */
const INVALID = /[^\t\x20-\x7e\x80-\xff]/;

/** @throws AppError INTERNAL for a value that no field may have: the text after it would be another field's */
export function checkFieldValue(name: string, value: string): void {
  if (INVALID.test(value)) throw new AppError("INTERNAL", { message: `A value of ${name} is no valid header value.` });
}

/** The response to a plain request with what handlers use of a response of `node:http`. */
export class FastServerResponse implements AnyServerResponse {
  readonly #response: FastResponse;
  #status = 0;
  #fields = "";
  #isClosing = false;
  #isOver = false;
  #body: ChunkedBody | undefined;
  #onClose: (() => void)[] | undefined;
  #onDrain: (() => void)[] | undefined;

  constructor(response: FastResponse) {
    this.#response = response;
  }

  get headersSent(): boolean {
    return this.#status !== 0;
  }

  get destroyed(): boolean {
    if (this.#isOver) return true;
    return this.#body === undefined ? !this.#response.isOpen : this.#response.socket?.destroyed !== false;
  }

  /** `Content-Length` and `Connection` are the listener's own, but for `close`. */
  writeHead(status: number, headers: readonly string[]): this {
    let fields = "";
    for (let at = 0; at + 1 < headers.length; at += 2) {
      const name = headers[at] ?? "";
      const value = headers[at + 1] ?? "";
      if (name === "Content-Length") continue;
      if (name === "Connection") {
        this.#isClosing = value === "close";
        continue;
      }
      checkFieldValue(name, value);
      fields += `${name}: ${value}\r\n`;
    }
    this.#status = status;
    this.#fields = fields;
    return this;
  }

  /** Writes a whole response. `fields`: whole lines, whose values are checked. */
  sendWhole(status: number, fields: string, body: Uint8Array | string, close: boolean): void {
    this.#status = status;
    this.#fields = fields;
    this.#isClosing = close;
    this.end(body);
  }

  write(chunk: Uint8Array): boolean {
    if (this.#isOver) return false;
    this.#body ??= this.#response.sendInChunks(this.#status, this.#fields, {
      close: this.#isClosing,
      onDrain: () => call(this.#onDrain),
      onClose: () => this.#close(),
    });
    return this.#body?.write(chunk) ?? false;
  }

  end(body: Uint8Array | string = "", encoding?: "latin1"): this {
    if (this.#isOver) return this;
    if (this.#body !== undefined) {
      this.#body.end(() => this.#close());
      return this;
    }
    // The listener writes texts in UTF-8, which of ASCII is the same.
    const isBytes = typeof body === "string" && encoding === "latin1" && Buffer.byteLength(body) !== body.length;
    const bytes = isBytes ? Buffer.from(body, "latin1") : body;
    const onSent = this.#onClose === undefined ? undefined : () => this.#close();
    this.#response.send(this.#status, this.#fields, bytes, { close: this.#isClosing, onSent });
    this.#isOver = onSent === undefined;
    return this;
  }

  on(event: "close" | "drain", listener: () => void): this {
    if (event === "close") {
      this.#onClose = [...(this.#onClose ?? []), listener];
      this.#response.onAbort ??= () => this.#close();
    } else this.#onDrain = [...(this.#onDrain ?? []), listener];
    return this;
  }

  /** Each of these events comes to a listener once, or its listener takes itself off. */
  once(event: "close" | "drain", listener: () => void): this {
    return this.on(event, listener);
  }

  off(event: "close" | "drain", listener: () => void): this {
    if (event === "close") this.#onClose = this.#onClose?.filter((one) => one !== listener);
    else this.#onDrain = this.#onDrain?.filter((one) => one !== listener);
    return this;
  }

  destroy(): this {
    this.#response.socket?.destroy();
    return this;
  }

  #close(): void {
    this.#isOver = true;
    const listeners = this.#onClose;
    this.#onClose = undefined;
    call(listeners);
  }
}

function call(listeners: readonly (() => void)[] | undefined): void {
  for (const listener of listeners ?? []) listener();
}
