import { type Bytes, MAX_KEY_BYTES, MAX_VALUE_BYTES } from "@turnpike/chain-store";

/** Number of the format that this program writes and reads; docs/decisions/0010-chain-snapshots.md says it. */
export const SNAPSHOT_FORMAT = 1;
/** Most bytes of a chunk before it is compressed; what this program makes has as many, but for the last. CometBFT's messages hold 16 MB of a compressed one. */
export const CHUNK_BYTES = 8_388_608;
/** Most chunks: a state of 32 GiB, and 128 KiB of metadata. CometBFT's messages hold 4 MB of it. */
export const MAX_CHUNKS = 4_096;
/** Bytes of a hash: SHA-256. */
export const HASH_BYTES = 32;

const HEAD_BYTES = 6;

/** The state as a stream of bytes: length of the key (2 bytes), of the value (4), key, value; in the order of the keys. */
export class ChunkCutter {
  readonly #chunkBytes: number;
  #chunk: Buffer | undefined;
  #size = 0;

  constructor({ chunkBytes }: { readonly chunkBytes: number }) {
    this.#chunkBytes = chunkBytes;
  }

  /** Adds an entry; gives the chunks that became whole. They are the caller's. */
  add(key: Bytes, value: Bytes): Buffer[] {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt16BE(key.length);
    head.writeUInt32BE(value.length, 2);
    const whole: Buffer[] = [];
    for (const part of [head, key, value]) {
      for (let at = 0; at < part.length; ) {
        this.#chunk ??= Buffer.allocUnsafeSlow(this.#chunkBytes);
        const some = Math.min(part.length - at, this.#chunkBytes - this.#size);
        this.#chunk.set(part.subarray(at, at + some), this.#size);
        at += some;
        this.#size += some;
        if (this.#size < this.#chunkBytes) continue;
        whole.push(this.#chunk);
        this.#chunk = undefined;
        this.#size = 0;
      }
    }
    return whole;
  }

  /** The last chunk; undefined when the one before ended with the stream. */
  end(): Buffer | undefined {
    return this.#chunk?.subarray(0, this.#size);
  }
}

/** What the bytes received so far give. */
export type NextEntry =
  | { readonly kind: "entry"; readonly key: Buffer; readonly value: Buffer }
  /** More bytes are needed. */
  | { readonly kind: "partial" }
  /** They are no state; nothing behind them can be read. */
  | { readonly kind: "malformed"; readonly fault: string };

const PARTIAL = { kind: "partial" } as const;

/** Reads {@link ChunkCutter}'s stream, which is untrusted: sizes are bounded, and keys must follow each other. */
export class EntryReader {
  #parts: Buffer[] = [];
  #sizeBytes = 0;
  #neededBytes = HEAD_BYTES;
  #at = 0;
  #last: Buffer | undefined;

  /** Adds a chunk, once {@link next} gave all entries before it. */
  push(chunk: Buffer): void {
    const [first] = this.#parts;
    if (first !== undefined && this.#at > 0) this.#parts[0] = first.subarray(this.#at);
    this.#at = 0;
    this.#parts.push(chunk);
    this.#sizeBytes += chunk.length;
    // Joined only once the entry is whole: else a long one would be copied again with every chunk.
    const isWhole = this.#sizeBytes >= this.#neededBytes;
    if (isWhole && this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)];
    // The chunk that it stands in is not kept for it.
    if (this.#last !== undefined) this.#last = Buffer.from(this.#last);
  }

  /** True when no part of an entry waits for the rest. */
  get isAtEnd(): boolean {
    return this.#sizeBytes === 0;
  }

  /** The next entry. Its bytes are the chunk's own. */
  next(): NextEntry {
    const [bytes] = this.#parts;
    if (bytes === undefined || this.#sizeBytes < this.#neededBytes) return PARTIAL;
    if (this.#sizeBytes < HEAD_BYTES) return this.#waitFor(HEAD_BYTES);
    const keyBytes = bytes.readUInt16BE(this.#at);
    const valueBytes = bytes.readUInt32BE(this.#at + 2);
    if (keyBytes === 0 || keyBytes > MAX_KEY_BYTES) return malformed(`a key has ${keyBytes} bytes`);
    if (valueBytes > MAX_VALUE_BYTES) return malformed(`a value has ${valueBytes} bytes`);
    const wholeBytes = HEAD_BYTES + keyBytes + valueBytes;
    if (this.#sizeBytes < wholeBytes) return this.#waitFor(wholeBytes);
    const from = this.#at + HEAD_BYTES;
    const key = bytes.subarray(from, from + keyBytes);
    const value = bytes.subarray(from + keyBytes, from + keyBytes + valueBytes);
    if (this.#last !== undefined && Buffer.compare(this.#last, key) >= 0)
      return malformed("keys are not in their order");
    this.#last = key;
    this.#at += wholeBytes;
    this.#sizeBytes -= wholeBytes;
    this.#neededBytes = HEAD_BYTES;
    if (this.#sizeBytes === 0) this.#parts = [];
    return { kind: "entry", key, value };
  }

  #waitFor(bytes: number): NextEntry {
    this.#neededBytes = bytes;
    return PARTIAL;
  }
}

function malformed(fault: string): NextEntry {
  return { kind: "malformed", fault };
}
