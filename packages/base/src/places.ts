import { clientKeys } from "./client-key.ts";

/** Bounds of {@link Places}; read each time, so that they may change. */
export interface PlacesOptions {
  /** Maximum number of places of all together. */
  readonly max: () => number;
  /** Maximum number of one: of a client, a payer or a caller. */
  readonly maxEach: () => number;
}

/** Result of {@link Places.acquire} when there is no place: the client has too many, or all together have. */
export type NoPlace = "each" | "all";

/**
 * Bounds what each of many, and all together, have under way at once: none can take all places. Clients of one /48 have
 * together four times a client's places, and at most half of all.
 */
export class Places {
  readonly #opts: PlacesOptions;
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(opts: PlacesOptions) {
    this.#opts = opts;
  }

  /** Takes a place for a client's key, or for other text. The result gives it back, and is to be called once. */
  acquire(key: string): (() => void) | NoPlace {
    const max = this.#opts.max();
    const maxEach = this.#opts.maxEach();
    const keys = clientKeys(key);
    for (const { name, shares } of keys) {
      const maxOfName = shares === 1 ? maxEach : Math.max(maxEach, Math.min(maxEach * shares, Math.floor(max / 2)));
      if ((this.#taken.get(name) ?? 0) >= maxOfName) return "each";
    }
    if (this.#all >= max) return "all";
    this.#all++;
    for (const { name } of keys) this.#taken.set(name, (this.#taken.get(name) ?? 0) + 1);
    return () => {
      this.#all--;
      for (const { name } of keys) {
        const others = (this.#taken.get(name) ?? 1) - 1;
        if (others === 0) this.#taken.delete(name);
        else this.#taken.set(name, others);
      }
    };
  }
}
