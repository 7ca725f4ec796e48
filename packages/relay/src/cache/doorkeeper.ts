import type { CallKey } from "./call-key.ts";

/**
 * Tells keys that were asked for before from those that were not, roughly and in little memory: an answer that is true
 * for half a second is worth keeping only where the same is asked again and again. Most keys are asked for once, and to
 * store their answers costs more than it can bring.
 */
export class Doorkeeper {
  readonly #seen: Uint32Array;
  readonly #mask: number;

  /** Makes one that remembers about so many keys; a power of two. */
  constructor(slots: number) {
    this.#seen = new Uint32Array(slots);
    this.#mask = slots - 1;
  }

  /** True when this key was the last that was seen in its place; it is from now on. */
  wasSeen({ hash }: CallKey): boolean {
    const at = hash & this.#mask;
    const wasSeen = this.#seen[at] === hash;
    this.#seen[at] = hash;
    return wasSeen;
  }
}
