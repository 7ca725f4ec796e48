import { AppError, bytesEqual } from "@turnpike/base";
import type { Secp256k1 } from "../backend.ts";
import { isZero, reduceScalar } from "../scalars.ts";
import { type Challenge, challengeOf } from "./challenge.ts";
import type { RingSignature } from "./codec.ts";
import { compressPoint, type RingPoint } from "./points.ts";

/** A ring with the one member who signs. */
export interface SigningRing {
  /** Compressed keys, in the order of the ring. */
  readonly members: readonly Uint8Array[];
  readonly points: readonly RingPoint[];
  /** Place of the signer's key among the members. */
  readonly signer: number;
  readonly key: Uint8Array;
  /** The signer's key image: 65 bytes, and 33. */
  readonly image: Uint8Array;
  readonly compressedImage: Uint8Array;
}

/** All of one signature that does not depend on what is signed. Used once: the nonce is wiped with it. */
export interface RingAttempt {
  readonly nonce: Uint8Array;
  /** `u·G` and `u·Hp` of the signer, compressed. */
  readonly base: Uint8Array;
  readonly hashed: Uint8Array;
  /** For each other member, in the ring's order from the signer on: its response s, and `s·Hp` (65 bytes). */
  readonly others: readonly { readonly response: Uint8Array; readonly hashed: Uint8Array }[];
}

/** What ring attempts are made with. */
export interface RingModules {
  readonly curve: Secp256k1;
  /** Bytes that are drawn anew each time, in an array that may be wiped. */
  readonly random: (length: number) => Uint8Array;
}

/** A signature, and whether a challenge on the way was short. */
export type AttemptResult = RingSignature & { readonly short: boolean };

/** Most attempts at one signature. The chance of one at a ring of 256 is 1/e: this many never fail. */
export const MOST_ATTEMPTS = 512;

/** The compressed public key of a private one. @throws AppError CONFIG_INVALID */
export function compressedKeyOf(key: Uint8Array, curve: Secp256k1): Uint8Array {
  const point = key.length === 32 && !isZero(key) ? curve.publicKey(key) : undefined;
  if (point === undefined) {
    throw new AppError("CONFIG_INVALID", { message: "This is not a private key of secp256k1." });
  }
  return compressPoint(point);
}

/** `x·Hp(P)` of a member's key, computed once. */
export function imageOf(point: RingPoint, key: Uint8Array, curve: Secp256k1): Uint8Array {
  point.image ??= curve.multiplySecret(point.hashed, key);
  return point.image;
}

/**
 * A ring to sign for, with two members at least.
 * @throws AppError CONFIG_INVALID when the private key is none or not of a member, or a member is no key; INTERNAL when
 * the ring has a wrong size
 */
export function signingRing(
  opts: { readonly members: readonly Uint8Array[]; readonly key: Uint8Array; readonly maxMembers: number },
  modules: { readonly curve: Secp256k1; readonly pointOf: (member: Uint8Array) => RingPoint | undefined },
): SigningRing {
  const { members, key, maxMembers } = opts;
  const { curve, pointOf } = modules;
  if (members.length < 2 || members.length > maxMembers) {
    throw new AppError("INTERNAL", { detail: { ringMembers: members.length } });
  }
  const own = compressedKeyOf(key, curve);
  const points = members.map((member) => {
    const point = member.length === 33 ? pointOf(member) : undefined;
    if (point !== undefined) return point;
    throw new AppError("CONFIG_INVALID", { message: "A member of the ring is not a public key." });
  });
  const signer = members.findIndex((member) => bytesEqual(member, own));
  const point = points[signer];
  if (point === undefined) {
    throw new AppError("CONFIG_INVALID", { message: "The private key belongs to no member of the ring." });
  }
  const image = imageOf(point, key, curve);
  return { members, points, signer, key, image, compressedImage: compressPoint(image) };
}

/** The member that is `step` places behind the signer. */
const placeOf = ({ points, signer }: SigningRing, step: number): number => (signer + step) % points.length;

/**
 * Draws the nonce u, then one response for every other member, in the ring's order from the signer on (ring-go `Sign`).
 * Undefined when a draw is zero, which never happens.
 */
export function prepareAttempt(ring: SigningRing, modules: RingModules): RingAttempt | undefined {
  const { curve, random } = modules;
  const own = ring.points[ring.signer];
  const drawn = random(32);
  const nonce = Uint8Array.from(reduceScalar(drawn));
  drawn.fill(0);
  const base = isZero(nonce) ? undefined : curve.publicKey(nonce);
  if (own === undefined || base === undefined) return undefined;
  const others: { response: Uint8Array; hashed: Uint8Array }[] = [];
  for (let step = 1; step < ring.points.length; step++) {
    const response = reduceScalar(random(32));
    const point = ring.points[placeOf(ring, step)];
    if (point === undefined || isZero(response)) continue;
    others.push({ response, hashed: curve.multiply(point.hashed, response) });
  }
  if (others.length < ring.points.length - 1) return undefined;
  const hashed = compressPoint(curve.multiplySecret(own.hashed, nonce));
  return { nonce, base: compressPoint(base), hashed, others };
}

/** Completes an attempt for a 32-byte digest, and wipes its nonce. Undefined when a sum is no point, which never happens. */
export function finishAttempt(
  ring: SigningRing,
  attempt: RingAttempt,
  digest: Uint8Array,
  curve: Secp256k1,
): AttemptResult | undefined {
  const { points, members, signer, key, image, compressedImage } = ring;
  const { nonce, base, hashed, others } = attempt;
  try {
    const responses: Uint8Array[] = points.map(() => nonce);
    let challenge = challengeOf(digest, base, hashed);
    let first: Challenge | undefined = placeOf(ring, 1) === 0 ? challenge : undefined;
    let { short } = challenge;
    for (const [index, other] of others.entries()) {
      const place = placeOf(ring, index + 1);
      const point = points[place];
      const left = point && curve.addBase(other.response, challenge.scalar, point.point);
      const right = curve.addMultiple(other.hashed, challenge.scalar, image);
      if (left === undefined || right === undefined) return undefined;
      responses[place] = other.response;
      challenge = challengeOf(digest, left, right);
      short ||= challenge.short;
      if (placeOf(ring, index + 2) === 0) first = challenge;
    }
    const last = curve.subtractProduct(nonce, challenge.scalar, key);
    if (last === undefined || first === undefined) return undefined;
    responses[signer] = last;
    return { challenge: first.scalar, image: compressedImage, responses, members, short };
  } finally {
    nonce.fill(0);
  }
}
