/** Answers at the largest size that is known to do, before a larger one is tried again. */
const GROW_AFTER = 50;

/**
 * How many blocks of logs a node is asked for at once: as many as it was found to answer. Starts with the most. The size
 * is searched for by halving between one that was answered and one that was not, which is remembered: what was refused is
 * not asked for again at once.
 */
export class WindowSize {
  readonly #most: number;
  #size: number;
  /** The smallest that was not answered. */
  #tooLarge: number;
  #answers = 0;

  constructor(most: number) {
    this.#most = most;
    this.#size = most;
    this.#tooLarge = most + 1;
  }

  current(): number {
    return this.#size;
  }

  /** The node did not answer for so many. */
  failed(blocks: number): void {
    this.#tooLarge = Math.max(2, Math.min(this.#tooLarge, blocks));
    this.#size = Math.max(1, Math.min(this.#size, Math.floor(blocks / 2)));
    this.#answers = 0;
  }

  answered(blocks: number): void {
    if (blocks < this.#size) return;
    this.#answers++;
    if (this.#size + 1 === this.#tooLarge && this.#answers >= GROW_AFTER) {
      this.#tooLarge = Math.min(this.#most + 1, this.#tooLarge * 2);
      this.#answers = 0;
    }
    this.#size = Math.floor((this.#size + this.#tooLarge) / 2);
  }

  /** Starts again with the most. */
  reset(): void {
    this.#size = this.#most;
    this.#tooLarge = this.#most + 1;
    this.#answers = 0;
  }
}
