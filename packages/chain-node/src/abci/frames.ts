/** Longest length prefix: CometBFT's lengths are below 2^31. */
const MAX_PREFIX_BYTES = 5;
const MAX_LENGTH = 2 ** 31 - 1;

/** What the bytes received so far give. */
export type NextFrame =
  | { readonly kind: "frame"; readonly body: Uint8Array }
  /** More bytes are needed. */
  | { readonly kind: "partial" }
  /** They are no frames; nothing behind them can be read. */
  | { readonly kind: "malformed"; readonly fault: string };

/** A message with its length before it, as an unsigned varint. */
export function encodeFrame(body: Uint8Array): Buffer {
  const prefix: number[] = [];
  let rest = body.length;
  for (; rest > 127; rest = Math.floor(rest / 128)) prefix.push((rest % 128) + 128);
  prefix.push(rest);
  return Buffer.concat([Buffer.from(prefix), body]);
}

/** Cuts a stream of bytes into length-prefixed messages of a bounded size. */
export class FrameReader {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #sizeBytes = 0;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#maxBytes = Math.min(maxBytes, MAX_LENGTH);
  }

  /** Adds what was received. */
  push(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
  }

  /** The next message, once it is whole. */
  next(): NextFrame {
    const prefix = this.#prefix();
    if (prefix === undefined) return { kind: "partial" };
    if (prefix === "malformed") return { kind: "malformed", fault: "the length of a message is malformed" };
    const { length, bytes } = prefix;
    if (length > this.#maxBytes) {
      return { kind: "malformed", fault: `a message of ${length} bytes is longer than ${this.#maxBytes}` };
    }
    if (this.#sizeBytes < bytes + length) return { kind: "partial" };
    const all = this.#chunks.length === 1 ? (this.#chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(this.#chunks);
    this.#chunks.length = 0;
    this.#sizeBytes = 0;
    this.push(all.subarray(bytes + length));
    return { kind: "frame", body: all.subarray(bytes, bytes + length) };
  }

  #prefix(): { readonly length: number; readonly bytes: number } | "malformed" | undefined {
    let length = 0;
    let bytes = 0;
    for (const chunk of this.#chunks) {
      for (const byte of chunk) {
        length += (byte % 128) * 128 ** bytes;
        bytes++;
        if (byte < 128) return { length, bytes };
        if (bytes === MAX_PREFIX_BYTES) return "malformed";
      }
    }
    return undefined;
  }
}
