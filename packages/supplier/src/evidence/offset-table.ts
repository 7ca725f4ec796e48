const FIRST_SLOTS = 1024;
const HASH_BYTES = 4;

/**
 * Where the relays of a log are, by hash: eight bytes a slot, at most half of them in use. It holds no hashes, so that what
 * it names has to be looked at.
 */
export class OffsetTable {
  // Offsets plus one; zero is free. A float64 holds them up to 2^53.
  #slots = new Float64Array(FIRST_SLOTS);
  #prefixes = new Uint32Array(FIRST_SLOTS);
  #size = 0;

  /** Adds an offset under a hash, which may be there already. */
  add(hash: Uint8Array, offset: number): void {
    if ((this.#size + 1) * 2 > this.#slots.length) this.#grow();
    this.#put(prefixOf(hash), offset + 1);
    this.#size++;
  }

  /** Offsets of records that may have this hash. */
  *candidates(hash: Uint8Array): Generator<number> {
    const prefix = prefixOf(hash);
    const mask = this.#slots.length - 1;
    for (let i = prefix & mask; ; i = (i + 1) & mask) {
      const found = this.#slots[i] ?? 0;
      if (found === 0) return;
      if (this.#prefixes[i] === prefix) yield found - 1;
    }
  }

  #put(prefix: number, value: number): void {
    const mask = this.#slots.length - 1;
    let i = prefix & mask;
    while (this.#slots[i] !== 0) i = (i + 1) & mask;
    this.#slots[i] = value;
    this.#prefixes[i] = prefix;
  }

  #grow(): void {
    const slots = this.#slots;
    const prefixes = this.#prefixes;
    this.#slots = new Float64Array(slots.length * 2);
    this.#prefixes = new Uint32Array(slots.length * 2);
    slots.forEach((value, i) => {
      if (value !== 0) this.#put(prefixes[i] ?? 0, value);
    });
  }
}

// Not the first bytes: those of mined relays are small where the difficulty is high.
function prefixOf(hash: Uint8Array): number {
  const at = hash.length - HASH_BYTES;
  return (
    (((hash[at] ?? 0) << 24) | ((hash[at + 1] ?? 0) << 16) | ((hash[at + 2] ?? 0) << 8) | (hash[at + 3] ?? 0)) >>> 0
  );
}
