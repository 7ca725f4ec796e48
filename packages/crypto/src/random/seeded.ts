import { base64ToBytes, concatBytes } from "@turnpike/base";
import { sha256 } from "../hash.ts";
import { LAGGED_FIBONACCI_WORDS } from "./lagged-fibonacci-words.ts";

const LENGTH = 607;
const TAP = 273;
const SEEDS = 0x7fff_ffffn;
const MASK_64 = (1n << 64n) - 1n;
const MASK_63 = (1n << 63n) - 1n;

function readWords(): BigInt64Array {
  const bytes = base64ToBytes(LAGGED_FIBONACCI_WORDS) ?? new Uint8Array(0);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return BigInt64Array.from({ length: LENGTH }, (_, i) => view.getBigInt64(i * 8));
}

const WORDS = readWords();

// How many numbers Go throws away before the first word.
const SKIPPED = 20;
const SHIFTS = [40n, 20n, 0n] as const;

// Both the conversion and the division round as Go's do.
const toFloat64 = (int63: bigint): number => Number(int63) / 2 ** 63;

/** For one word of the state: what the start is multiplied by to give each of its three parts. */
function factorsOf(word: number): readonly (readonly [factor: bigint, shift: bigint])[] {
  let factor = 1n;
  for (let i = 0; i < SKIPPED + 3 * word; i++) factor = (factor * 48_271n) % SEEDS;
  return SHIFTS.map((shift) => {
    factor = (factor * 48_271n) % SEEDS;
    return [factor, shift] as const;
  });
}

// The first number is the sum of two words of the state: the others need not be made.
const FIRST_WORDS = [LENGTH - TAP - 1, LENGTH - 1].map((word) => ({
  mask: WORDS[word] ?? 0n,
  factors: factorsOf(word),
}));

/** The first 64 bits of {@link GoRandom}, from the two words that they are made of. */
function firstUint64(seed: bigint): bigint {
  const start = startOf(seed);
  let sum = 0n;
  for (const { mask, factors } of FIRST_WORDS) {
    let word = mask;
    for (const [factor, shift] of factors) word ^= ((start * factor) % SEEDS) << shift;
    sum += word;
  }
  return sum & MASK_64;
}

// Schrage's way of 48271·x mod 2^31 − 1. All products are below 2^53.
function nextSeed(x: number): number {
  return (48_271 * x) % 0x7fff_ffff;
}

// What the generator is seeded with: the remainder, made positive, and never zero.
function startOf(seed: bigint): bigint {
  const reduced = BigInt.asIntN(64, seed) % SEEDS;
  const positive = reduced < 0n ? reduced + SEEDS : reduced;
  return positive === 0n ? 89_482_311n : positive;
}

/**
 * Go's `math/rand` source (version 1): an additive lagged Fibonacci generator. Two sources of one seed give the same
 * numbers. The seed is a signed 64-bit integer, of which the remainder by 2^31 − 1 counts. Not for secrets.
 */
export class GoRandom {
  readonly #state = new BigUint64Array(LENGTH);
  #tap = 0;
  #feed = LENGTH - TAP;

  constructor(seed: bigint) {
    let x = Number(startOf(seed));
    for (let i = 0; i < SKIPPED; i++) x = nextSeed(x);
    for (let i = 0; i < LENGTH; i++) {
      let word = 0n;
      for (const shift of SHIFTS) {
        x = nextSeed(x);
        word ^= BigInt(x) << shift;
      }
      this.#state[i] = BigInt.asUintN(64, word ^ (WORDS[i] ?? 0n));
    }
  }

  /** The next 64 bits. */
  uint64(): bigint {
    this.#tap = (this.#tap + LENGTH - 1) % LENGTH;
    this.#feed = (this.#feed + LENGTH - 1) % LENGTH;
    const sum = ((this.#state[this.#feed] ?? 0n) + (this.#state[this.#tap] ?? 0n)) & MASK_64;
    this.#state[this.#feed] = sum;
    return sum;
  }

  /** The next integer of 0 to 2^63 − 1. */
  int63(): bigint {
    return this.uint64() & MASK_63;
  }

  /** The next number of 0 (with) to 1 (without). */
  float64(): number {
    for (;;) {
      const value = toFloat64(this.int63());
      if (value !== 1) return value;
    }
  }
}

/** Go's `binary.Varint`: a zigzag integer in groups of seven bits, lowest first; 0 when it does not end or is too large. */
export function goVarint(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const [i, byte] of bytes.entries()) {
    if (i === 10 || (i === 9 && byte > 1)) return 0n;
    value |= BigInt(byte & 127) << BigInt(7 * i);
    if (byte < 128) return (value & 1n) === 0n ? value >> 1n : -(value >> 1n) - 1n;
  }
  return 0n;
}

/**
 * The chain's dice: a number of 0 to 1 from the SHA-256 of all parts, read as a varint and taken as the seed of
 * {@link GoRandom}. About half of all seeds have seven bits only.
 */
export function seededFloat64(...parts: readonly Uint8Array[]): number {
  const seed = goVarint(sha256(concatBytes(...parts)));
  const value = toFloat64(firstUint64(seed) & MASK_63);
  return value === 1 ? new GoRandom(seed).float64() : value;
}
