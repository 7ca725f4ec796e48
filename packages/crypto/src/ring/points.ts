import { AppError } from "@turnpike/base";
import type { Secp256k1 } from "../backend.ts";
import { sha3256 } from "../hash.ts";

/** A member's key, ready for arithmetic. */
export interface RingPoint {
  /** 65 bytes. */
  readonly point: Uint8Array;
  /** The key hashed to the curve, `Hp(P)`: 65 bytes. */
  readonly hashed: Uint8Array;
  /** The key image (65 bytes) once this process has signed with the key. Every signature shows it. */
  image?: Uint8Array;
}

/** The 33-byte form of a point of 65 bytes. */
export function compressPoint(point: Uint8Array): Uint8Array {
  const compressed = point.slice(0, 33);
  compressed[0] = 2 + ((point[64] ?? 0) & 1);
  return compressed;
}

const MOST_TRIES = 128;

/**
 * `Hp(P)`: SHA3-256 of the compressed key is the x of a point with even y; where there is no such point, the hash of the
 * hash is tried, 128 times at most (ring-go `hashToCurveSecp256k1`). Each try fails for half of all keys.
 */
export function hashToPoint(curve: Secp256k1, compressed: Uint8Array): Uint8Array {
  const candidate = new Uint8Array(33);
  candidate[0] = 2;
  let digest = sha3256(compressed);
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    candidate.set(digest, 1);
    const point = curve.point(candidate);
    if (point !== undefined) return point;
    digest = sha3256(digest);
  }
  throw new AppError("INTERNAL", { detail: { hashToPointTries: MOST_TRIES } });
}

/**
 * Keys that were met, with their points, bounded: two generations, of which the older one is dropped when the younger
 * is full. It holds public things only.
 */
export class RingPoints {
  readonly #curve: Secp256k1;
  readonly #half: number;
  #young = new Map<string, RingPoint>();
  #old = new Map<string, RingPoint>();

  constructor(opts: { readonly maxKeys: number }, modules: { readonly curve: Secp256k1 }) {
    this.#curve = modules.curve;
    this.#half = Math.max(1, opts.maxKeys >> 1);
  }

  /** How many keys are kept. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }

  /** The points of a compressed key; undefined when it is none. What is no key is not remembered. */
  get(compressed: Uint8Array): RingPoint | undefined {
    const name = Buffer.from(compressed.buffer, compressed.byteOffset, compressed.length).toString("latin1");
    const young = this.#young.get(name);
    if (young !== undefined) return young;
    const found = this.#old.get(name) ?? this.#make(compressed);
    if (found === undefined) return undefined;
    if (this.#young.size >= this.#half) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#old.delete(name);
    this.#young.set(name, found);
    return found;
  }

  #make(compressed: Uint8Array): RingPoint | undefined {
    const point = this.#curve.point(compressed);
    return point === undefined ? undefined : { point, hashed: hashToPoint(this.#curve, compressed) };
  }
}
