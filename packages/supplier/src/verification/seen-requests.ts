/**
 * The requests of a session that were served or are being served, by digest: a signed request is good for one answer. A
 * gateway that repeats a call signs anew.
 */
export class SeenRequests {
  readonly #seen = new Set<string>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#seen.size;
  }

  /** True when it is new, and there is room to remember it. */
  add(digest: Uint8Array): boolean {
    const name = nameOf(digest);
    if (this.#seen.has(name) || this.#seen.size >= this.#most) return false;
    this.#seen.add(name);
    return true;
  }

  /** Lets a request be sent again that was not answered. */
  delete(digest: Uint8Array): void {
    this.#seen.delete(nameOf(digest));
  }
}

/** Half of a SHA-256 tells requests apart, and costs half the memory. */
function nameOf(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, 16).toString("latin1");
}
