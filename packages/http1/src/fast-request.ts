import type { Socket } from "node:net";
import type { ChunkedBody, ChunkedResponseOptions } from "./chunked-body.ts";
import type { Head } from "./head.ts";
import type { PlainForm } from "./plain-form.ts";
import type { ResponseOptions } from "./response-writer.ts";

const NONE: Buffer = Buffer.alloc(0);

/** The connection that a {@link FastResponse} is written to. */
export interface ResponseConnection {
  readonly socket: Socket;
  /** False once the response was given, or can no longer be sent. */
  isOpenFor(response: FastResponse): boolean;
  /** Answers the request that this response is for, if it is the one in flight. */
  respond(
    response: FastResponse,
    status: number,
    fields: string,
    body: Uint8Array | string,
    options: ResponseOptions,
  ): void;
  /** The same with a body that is written while it arrives; undefined where {@link respond} would do nothing. */
  respondInChunks(
    response: FastResponse,
    status: number,
    fields: string,
    options: ChunkedResponseOptions,
  ): ChunkedBody | undefined;
}

/** The response to one request. It is for no other: what is sent twice, or too late, goes nowhere. */
export class FastResponse {
  /** Called when the connection closes before the response was given. */
  onAbort: (() => void) | undefined;
  readonly #connection: ResponseConnection | undefined;

  constructor(connection: ResponseConnection | undefined) {
    this.#connection = connection;
  }

  /** The connection's socket, to be asked for addresses: not to be written to. */
  get socket(): Socket | undefined {
    return this.#connection?.socket;
  }

  /** False once the response was given, or can no longer be sent. */
  get isOpen(): boolean {
    return this.#connection?.isOpenFor(this) === true;
  }

  /**
   * Answers, once; does nothing when {@link isOpen} is false. `Content-Length`, `Date`, `Connection` and `Keep-Alive`
   * are added.
   * @param fields whole field lines in ASCII, each with its CR LF; they are not checked
   * @param body copied before this returns
   */
  send(status: number, fields: string, body: Uint8Array | string, options: ResponseOptions = {}): void {
    this.#connection?.respond(this, status, fields, body, options);
  }

  /**
   * Answers, once, with a body that is written while it arrives, in chunks; undefined when {@link isOpen} is false.
   * @param fields as those of {@link send}
   */
  sendInChunks(status: number, fields: string, options: ChunkedResponseOptions): ChunkedBody | undefined {
    return this.#connection?.respondInChunks(this, status, fields, options);
  }
}

/**
 * A plain request that is whole. One object serves for all requests of a listener: it, and all that it names by place,
 * is good until the handler returns.
 */
export class FastRequest {
  /** The bytes that the places of {@link head} and of the body are in. */
  bytes: Buffer = NONE;
  /** Its body is `[bodyStart, bodyEnd)`. */
  bodyStart = 0;
  bodyEnd = 0;
  /** Where its response goes. Good as long as the handler needs it. */
  response: FastResponse;
  readonly head: Head;
  readonly #form: PlainForm;

  constructor(head: Head, form: PlainForm) {
    this.head = head;
    this.#form = form;
    this.response = new FastResponse(undefined);
  }

  /** Path and query as they were sent. */
  target(): string {
    return this.bytes.toString("latin1", this.head.targetStart, this.head.targetEnd);
  }

  /** The value of a field that the listener knows, of one character a byte; undefined when the request lacks it. */
  field(name: string): string | undefined {
    const index = this.#form.indexOf(name);
    if (index === -1 || !this.head.has(index)) return undefined;
    return this.bytes.toString("latin1", this.head.spans[index * 2], this.head.spans[index * 2 + 1]);
  }

  /** The body, a view: copy what is needed for longer. */
  body(): Buffer {
    return this.bytes.subarray(this.bodyStart, this.bodyEnd);
  }
}
