/** Most names of a table: each has a bit of a 32-bit set. */
const MAX_NAMES = 31;
const SLOTS = 256;
const SEEDS = 100_000;

/** Bytes of a field name, or of a method (RFC 9110 §5.6.2 `token`). */
const IS_TOKEN = new Uint8Array(256);
for (const char of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  IS_TOKEN[char.charCodeAt(0)] = 1;
}

/** True for a byte of a field name (RFC 9110 §5.6.2 `token`). */
export function isTokenByte(byte: number): boolean {
  return IS_TOKEN[byte] === 1;
}

/** One step of the hash of a name, which takes letters of both cases as the same. */
function step(hash: number, byte: number, seed: number): number {
  return (Math.imul(hash, seed) + (byte | 0x20)) | 0;
}

/**
 * The names of header fields that a reader of heads knows, in a fixed order: a name's place in it is its index. Found
 * by a perfect hash, made once, so that a name costs one pass over its bytes.
 */
export class FieldTable {
  /** Multiplier of the hash. */
  readonly seed: number;
  readonly #names: readonly Uint8Array[];
  readonly #slots = new Int8Array(SLOTS).fill(-1);

  /** @param names in lower case; at most 31 */
  constructor(names: readonly string[]) {
    if (names.length > MAX_NAMES) throw new RangeError(`A table has at most ${MAX_NAMES} names.`);
    this.#names = names.map((name) => Buffer.from(name, "latin1"));
    this.seed = this.#findSeed();
  }

  #findSeed(): number {
    for (let seed = 31; seed < SEEDS; seed += 2) if (this.#fits(seed)) return seed;
    throw new RangeError("No hash has a slot for each of the names.");
  }

  #fits(seed: number): boolean {
    this.#slots.fill(-1);
    for (const [at, name] of this.#names.entries()) {
      const slot = name.reduce((hash, byte) => step(hash, byte, seed), 0) & (SLOTS - 1);
      if (this.#slots[slot] !== -1) return false;
      this.#slots[slot] = at;
    }
    return true;
  }

  /** The index of the name in `bytes[start, end)`, whose hash by {@link seed} is `hash`; -1 when the table lacks it. */
  find(bytes: Uint8Array, start: number, end: number, hash: number): number {
    const at = this.#slots[hash & (SLOTS - 1)] ?? -1;
    if (at === -1) return -1;
    const name = this.#names[at];
    if (name === undefined || end - start !== name.length) return -1;
    for (let i = 0; i < name.length; i++) {
      const byte = bytes[start + i] ?? 0;
      // A letter that differs by its case alone; no other token byte does.
      const lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
      if (lower !== name[i]) return -1;
    }
    return at;
  }
}
