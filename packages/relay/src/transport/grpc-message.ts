import type { IncomingHttpHeaders } from "node:http2";
import { decodedText } from "./backend-url.ts";

/** Of each message: whether it is compressed, and its length. */
const PREFIX_BYTES = 5;

/** A message as it is sent: not compressed, behind its length. */
export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, PREFIX_BYTES);
  return framed;
}

/** What the bytes so far are: the beginning or the whole of one message, one above the bound, or no single plain message. */
export type MessageState = "open" | "whole" | "too-large" | "malformed";

/** Collects the one message of an answer. It holds twice of what has come at the most, whatever length was announced. */
export class MessageReader {
  readonly #maxBytes: number;
  #prefix: Buffer = Buffer.alloc(0);
  #message: Buffer = Buffer.alloc(0);
  #bytes = 0;
  #length = 0;

  constructor(options: { readonly maxBytes: number }) {
    this.#maxBytes = options.maxBytes;
  }

  /** Takes the next bytes. After `too-large` or `malformed` nothing more may be given. */
  push(chunk: Buffer): MessageState {
    let rest = chunk;
    if (this.#prefix.length < PREFIX_BYTES) {
      const missing = PREFIX_BYTES - this.#prefix.length;
      this.#prefix = Buffer.concat([this.#prefix, chunk.subarray(0, missing)]);
      rest = chunk.subarray(missing);
      // No compression was offered.
      if (this.#prefix.length > 0 && this.#prefix[0] !== 0) return "malformed";
      if (this.#prefix.length < PREFIX_BYTES) return "open";
      this.#length = this.#prefix.readUInt32BE(1);
      if (this.#length > this.#maxBytes) return "too-large";
    }
    // A second message, or what is none.
    if (this.#bytes + rest.length > this.#length) return "malformed";
    this.#append(rest);
    return this.state;
  }

  #append(chunk: Buffer): void {
    if (chunk.length === this.#length) this.#message = chunk;
    else {
      const needed = this.#bytes + chunk.length;
      if (needed > this.#message.length) {
        // Chunks are not kept: of a message in single bytes they would be a hundred times its size.
        const grown = Buffer.allocUnsafe(Math.min(this.#length, Math.max(2 * this.#message.length, needed)));
        this.#message.copy(grown, 0, 0, this.#bytes);
        this.#message = grown;
      }
      chunk.copy(this.#message, this.#bytes);
    }
    this.#bytes += chunk.length;
  }

  /** What has come so far. */
  get state(): "open" | "whole" {
    return this.#prefix.length === PREFIX_BYTES && this.#bytes === this.#length ? "whole" : "open";
  }

  /** The message, once it is whole. */
  get message(): Buffer {
    return this.#message.subarray(0, this.#bytes);
  }
}

/** How a call ended, as its server says. */
export interface GrpcStatus {
  /** 0 to 16; 0 is success. */
  readonly code: number;
  /** Why it failed. */
  readonly text: string;
}

const MOST_CODE = 16;
/** Longest text that is read of a status: more is of no use, and no bound on messages counts it. */
const MAX_STATUS_CHARS = 2_048;

/** The status in headers or trailers; undefined where there is none that gRPC knows. */
export function readGrpcStatus(headers: IncomingHttpHeaders): GrpcStatus | undefined {
  const code = headers["grpc-status"];
  if (typeof code !== "string" || !/^[0-9]{1,2}$/.test(code) || Number(code) > MOST_CODE) return undefined;
  const text = headers["grpc-message"];
  return { code: Number(code), text: typeof text === "string" ? decodedText(text.slice(0, MAX_STATUS_CHARS)) : "" };
}

/** HTTP statuses of gRPC's codes from 0 on. */
const HTTP_STATUSES = [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];

/** The HTTP status that says the same as a gRPC code; 500 for one that is not known. */
export function httpStatusOf(code: number): number {
  return HTTP_STATUSES[code] ?? 500;
}
