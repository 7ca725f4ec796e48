/**
 * The requests of a session that were served or are being served: a signed request is good for one answer. A gateway that
 * repeats a call signs anew.
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
  add(name: string): boolean {
    if (this.#seen.has(name) || this.#seen.size >= this.#most) return false;
    this.#seen.add(name);
    return true;
  }

  /** Lets a request be sent again that was not answered. */
  delete(name: string): void {
    this.#seen.delete(name);
  }
}
