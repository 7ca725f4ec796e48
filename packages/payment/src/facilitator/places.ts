/** Bounds what each of many, clients or payers, has under way at once: none can take all places. */
export class Places {
  readonly #maxEach: number;
  readonly #taken = new Map<string, number>();

  constructor(maxEach: number) {
    this.#maxEach = maxEach;
  }

  /** Takes a place; undefined when there is none. The result gives it back, and is to be called once. */
  take(key: string): (() => void) | undefined {
    const places = this.#taken.get(key) ?? 0;
    if (places >= this.#maxEach) return undefined;
    this.#taken.set(key, places + 1);
    return () => {
      const others = (this.#taken.get(key) ?? 1) - 1;
      if (others === 0) this.#taken.delete(key);
      else this.#taken.set(key, others);
    };
  }
}
