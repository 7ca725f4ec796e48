/** Bytes of requests that are in memory while they are being read, of all connections together. */
export class BodyBudget {
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** False when there is no room for so many more bytes: then none are counted. */
  acquire(bytes: number): boolean {
    if (this.#bytes + bytes > this.#mostBytes) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
