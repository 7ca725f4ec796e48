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
  wasSeen(key: string): boolean {
    const hash = hashOf(key);
    const at = (hash >>> 1) & this.#mask;
    const wasSeen = this.#seen[at] === hash;
    this.#seen[at] = hash;
    return wasSeen;
  }
}

/** FNV-1a over the last characters, where calls differ; never 0. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5 ^ key.length;
  for (let at = Math.max(0, key.length - 96); at < key.length; at++) {
    hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  }
  hash ^= hash >>> 15;
  return (hash | 1) >>> 0;
}
