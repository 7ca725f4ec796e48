/** Bodies of this many bytes and less get their memory when their length is known. */
export const MAX_EXACT_BYTES = 262_144;
const FIRST_BLOCK_BYTES = 16_384;
const MAX_BLOCK_BYTES = 262_144;

/**
 * Collects a body from pieces that are there for a moment only. Each byte is copied once when the length is known, and no
 * piece costs a buffer of its own: a body in chunks of one byte takes no more than one in large chunks.
 *
 * The body has memory of its own, of exactly its length: it may be kept for long, and what is cut from a pool would hold
 * all of that.
 */
export class BodyCollector {
  readonly #full: Buffer[] = [];
  /** What is written to; its first `#used` bytes are. */
  #block: Buffer | undefined;
  #used = 0;
  #size = 0;

  /** @param length of the whole body when it is known, and to be held from now on */
  constructor(length?: number) {
    if (length !== undefined && length > 0) this.#block = Buffer.allocUnsafeSlow(length);
  }

  /** Bytes so far. */
  get size(): number {
    return this.#size;
  }

  /** Copies `bytes[start, end)`. */
  add(bytes: Buffer, start: number, end: number): void {
    this.#size += end - start;
    // The whole of most bodies.
    if (this.#block === undefined) this.#newBlock(end - start);
    let at = start;
    while (at < end) {
      if (this.#block === undefined || this.#used === this.#block.length) {
        if (this.#block !== undefined) this.#full.push(this.#block);
        this.#newBlock(Math.min(MAX_BLOCK_BYTES, Math.max(FIRST_BLOCK_BYTES, this.#size)));
      }
      const block = this.#block as Buffer;
      const count = Math.min(end - at, block.length - this.#used);
      bytes.copy(block, this.#used, at, at + count);
      this.#used += count;
      at += count;
    }
  }

  #newBlock(size: number): void {
    this.#block = Buffer.allocUnsafeSlow(size);
    this.#used = 0;
  }

  /** All bytes so far. Further ones may be added; the caller changes none. */
  bytes(): Buffer {
    const block = this.#block;
    if (block === undefined) return Buffer.alloc(0);
    if (this.#full.length === 0 && this.#used === block.length) return block;
    const all = Buffer.allocUnsafeSlow(this.#size);
    let at = 0;
    for (const one of this.#full) at += one.copy(all, at);
    block.copy(all, at, 0, this.#used);
    return all;
  }
}
