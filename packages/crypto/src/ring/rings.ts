import { randomBytes } from "node:crypto";
import { AppError, bytesEqual } from "@turnpike/base";
import type { Secp256k1 } from "../backend.ts";
import { curve as defaultCurve } from "../curve.ts";
import { loadNative } from "../native.ts";
import { pure } from "../pure.ts";
import { isReduced, reduceScalar } from "../scalars.ts";
import { compressedKeyOf, finishAttempt, imageOf, MOST_ATTEMPTS, prepareAttempt, signingRing } from "./attempt.ts";
import { type Challenge, challengeOf } from "./challenge.ts";
import { decodeRingSignature, encodeRingSignature, MAX_RING_MEMBERS, type RingSignature } from "./codec.ts";
import { canonicalRing } from "./placeholder.ts";
import { compressPoint, type RingPoint, RingPoints } from "./points.ts";

/** What {@link Rings} is made of. */
export interface RingOptions {
  /** Signatures of more members are refused before anything is computed on the curve. Default {@link MAX_RING_MEMBERS}. */
  readonly maxMembers?: number;
  /** Most keys whose points are kept. Default 4096, about a kilobyte each. */
  readonly maxCachedKeys?: number;
  /** Which implementation of secp256k1; by default the native one where it loads. */
  readonly backend?: "native" | "pure";
}

/** Why a ring signature is refused. */
export type RingFault = "malformed" | "non-member" | "signature" | "not-canonical" | "short-challenge";

/** What a check of a ring signature found. */
export type RingVerdict =
  | { readonly ok: true; readonly signature: RingSignature }
  | { readonly ok: false; readonly fault: RingFault };

// Images of signatures that held: as many as there are members that sign in the sessions of now.
const MOST_IMAGES = 1_024;
// How the network's default curve library spells the point at infinity.
const INFINITY = Uint8Array.of(2, ...new Uint8Array(32));

const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");

const refused = (fault: RingFault): RingVerdict => ({ ok: false, fault });

/** True when every member of a ring is one of `allowed`. */
export function isWithin({ members }: RingSignature, allowed: readonly Uint8Array[]): boolean {
  const names = new Set(allowed.map(latin1));
  return members.every((member) => names.has(latin1(member)));
}

/**
 * Ring signatures (bLSAG on secp256k1) as ring-go makes them: anyone can verify that one member of the ring signed, and
 * that two signatures are of the same member, but not of which. Keeps points of public keys, never a secret.
 */
export class Rings {
  readonly #curve: Secp256k1;
  readonly #points: RingPoints;
  readonly #images = new Map<string, Uint8Array>();
  readonly #maxMembers: number;
  readonly #random: (length: number) => Uint8Array;

  /** @throws AppError DEPENDENCY_MISSING when the native backend is asked for and cannot be loaded. */
  constructor(opts: RingOptions = {}, modules: { readonly random?: (length: number) => Uint8Array } = {}) {
    const chosen = opts.backend === undefined ? defaultCurve : opts.backend === "pure" ? pure : loadNative();
    if (chosen === undefined) {
      throw new AppError("DEPENDENCY_MISSING", { message: "The native secp256k1 binding does not load." });
    }
    this.#curve = chosen;
    this.#points = new RingPoints({ maxKeys: opts.maxCachedKeys ?? 4096 }, { curve: chosen });
    this.#maxMembers = opts.maxMembers ?? MAX_RING_MEMBERS;
    this.#random = modules.random ?? randomBytes;
  }

  /** How many public keys have their points kept. */
  get cachedKeys(): number {
    return this.#points.size;
  }

  /** `x·Hp(P)`, 33 bytes: the same in every signature of this private key. @throws AppError CONFIG_INVALID */
  keyImage(key: Uint8Array): Uint8Array {
    const point = this.#points.get(compressedKeyOf(key, this.#curve));
    if (point === undefined) throw new AppError("INTERNAL", { detail: { reason: "a key without a point" } });
    return compressPoint(imageOf(point, key, this.#curve));
  }

  /**
   * Signs a 32-byte digest for a ring of compressed keys, two at least, in the order given; a key may stand in it twice.
   * Draws anew until no challenge is short, so that all curve libraries of the network accept it. 69 + 65n bytes.
   * @throws AppError CONFIG_INVALID when the private key is none or not of a member, or a member is no key;
   * INTERNAL when digest or ring have a wrong size
   */
  sign(digest: Uint8Array, members: readonly Uint8Array[], key: Uint8Array): Uint8Array {
    if (digest.length !== 32) throw new AppError("INTERNAL", { detail: { digestLength: digest.length } });
    const curve = this.#curve;
    const pointOf = (member: Uint8Array) => this.#points.get(member);
    const ring = signingRing({ members, key, maxMembers: this.#maxMembers }, { curve, pointOf });
    for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) {
      const attempt = prepareAttempt(ring, { curve, random: this.#random });
      const made = attempt && finishAttempt(ring, attempt, digest, curve);
      if (made !== undefined && !made.short) return encodeRingSignature(made);
    }
    throw new AppError("INTERNAL", { detail: { ringAttempts: MOST_ATTEMPTS } });
  }

  /**
   * True when the signature holds for the digest, exactly as the chain says: any order, repeated members, a ring of one
   * and numbers that are not reduced are fine. Whose keys they are is not looked at: see {@link verifyWithin}.
   */
  verify(digest: Uint8Array, signature: RingSignature): boolean {
    return this.#close(digest, signature).closes;
  }

  /**
   * The chain's whole check of a signature's bytes: every member is one of `allowed` (looked at before anything is
   * computed on the curve), and the signature holds.
   */
  verifyWithin(digest: Uint8Array, bytes: Uint8Array, allowed: readonly Uint8Array[]): RingVerdict {
    const signature = decodeRingSignature(bytes, this.#maxMembers);
    if (signature === undefined) return refused("malformed");
    if (!isWithin(signature, allowed)) return refused("non-member");
    return this.verify(digest, signature) ? { ok: true, signature } : refused("signature");
  }

  /**
   * A stricter check than the chain's, for what never goes there: the ring is the {@link canonicalRing} of `keys`, no
   * number is above the group order, no byte follows, and no challenge is short.
   */
  verifyStrictly(digest: Uint8Array, bytes: Uint8Array, keys: readonly Uint8Array[]): RingVerdict {
    const signature = decodeRingSignature(bytes, this.#maxMembers);
    if (signature === undefined) return refused("malformed");
    const ring = canonicalRing(keys);
    const { members, challenge, responses } = signature;
    if (members.length !== ring.length || !members.every((member, i) => bytesEqual(member, ring[i] ?? challenge))) {
      return refused("non-member");
    }
    if (bytes.length !== 69 + 65 * members.length || ![challenge, ...responses].every(isReduced)) {
      return refused("not-canonical");
    }
    const { closes, short } = this.#close(digest, signature);
    if (!closes) return refused("signature");
    return short ? refused("short-challenge") : { ok: true, signature };
  }

  #close(digest: Uint8Array, signature: RingSignature): { closes: boolean; short: boolean } {
    const open = { closes: false, short: false };
    const { members, responses } = signature;
    if (digest.length !== 32 || members.length === 0 || members.length > this.#maxMembers) return open;
    const imageName = latin1(signature.image);
    const known = this.#images.get(imageName);
    const image = known ?? this.#curve.point(signature.image);
    const points: RingPoint[] = [];
    for (const member of image === undefined ? [] : members) {
      const found = this.#points.get(member);
      if (found === undefined) return open;
      points.push(found);
    }
    if (image === undefined) return open;
    const first = reduceScalar(signature.challenge);
    let challenge: Challenge = { scalar: first, short: false };
    let short = false;
    for (const [index, { point, hashed }] of points.entries()) {
      const response = responses[index];
      if (response?.length !== 32) return open;
      const s = reduceScalar(response);
      const left = this.#curve.addBase(s, challenge.scalar, point) ?? INFINITY;
      const right = this.#curve.addPoints(s, hashed, challenge.scalar, image) ?? INFINITY;
      challenge = challengeOf(digest, left, right);
      short ||= challenge.short;
    }
    const closes = bytesEqual(first, challenge.scalar);
    if (closes && known === undefined) this.#keepImage(imageName, image);
    return { closes, short };
  }

  #keepImage(name: string, image: Uint8Array): void {
    const [oldest] = this.#images.size < MOST_IMAGES ? [] : this.#images.keys();
    if (oldest !== undefined) this.#images.delete(oldest);
    this.#images.set(name, image);
  }
}
