import type { StateReads } from "../src/state/overlay.ts";

/** A state that counts the entries that are read of the one below. */
export class CountedReads implements StateReads {
  reads = 0;
  readonly #base: StateReads;

  constructor(base: StateReads) {
    this.#base = base;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    this.reads++;
    return this.#base.get(key);
  }

  *range(options: Parameters<StateReads["range"]>[0]): Generator<readonly [Uint8Array, Uint8Array]> {
    for (const entry of this.#base.range(options)) {
      this.reads++;
      yield entry;
    }
  }
}
