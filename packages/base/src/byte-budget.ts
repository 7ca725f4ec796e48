/** Counts bytes that are held for clients, so that many slow ones together stay bounded. */
export class ByteBudget {
  readonly #maxBytes: () => number;
  readonly #whole: ByteBudget | undefined;
  #held = 0;

  /** `maxBytes` may change. With `whole`, this is a part of that one: what is acquired is acquired from both. */
  constructor(maxBytes: () => number, whole?: ByteBudget) {
    this.#maxBytes = maxBytes;
    this.#whole = whole;
  }

  /** False, with nothing acquired, when there are too few left. */
  acquire(bytes: number): boolean {
    if (this.#held + bytes > this.#maxBytes() || this.#whole?.acquire(bytes) === false) return false;
    this.#held += bytes;
    return true;
  }

  /** Acquires bytes, also when there are too few left. */
  forceAcquire(bytes: number): void {
    this.#held += bytes;
    this.#whole?.forceAcquire(bytes);
  }

  release(bytes: number): void {
    this.#held -= bytes;
    this.#whole?.release(bytes);
  }
}
