import { randomBytes } from "node:crypto";
import { AppError } from "@turnpike/base";
import { curve } from "../curve.ts";
import {
  finishAttempt,
  MOST_ATTEMPTS,
  prepareAttempt,
  type RingAttempt,
  type SigningRing,
  signingRing,
} from "./attempt.ts";
import { encodeRingSignature, MAX_RING_MEMBERS } from "./codec.ts";
import { hashToPoint } from "./points.ts";

export interface RingSignerOptions {
  /** Compressed keys in the order of the ring, two at least; a key may stand in it twice. */
  readonly members: readonly Uint8Array[];
  /** The private key of a member. The signer keeps a copy until it is disposed. */
  readonly key: Uint8Array;
  /** Most signatures that are prepared; 64 by default, some 400 bytes each for a ring of two. */
  readonly maxPrepared?: number;
}

/**
 * Signs again and again for one ring with one key, as `Rings.sign` does: the same draws make the same signatures. What
 * does not depend on the digest can be prepared before: then a signature costs a member two multiplications. Every
 * prepared nonce is used for one digest at most, and wiped with it.
 */
export class RingSigner implements Disposable {
  readonly #ring: SigningRing;
  readonly #random: (length: number) => Uint8Array;
  readonly #maxPrepared: number;
  readonly #prepared: RingAttempt[] = [];
  #disposed = false;

  /**
   * @param modules.random draws bytes; each array that it returns is used once and wiped
   * @throws AppError CONFIG_INVALID when the private key is none or not of a member, or a member is no key; INTERNAL
   * when the ring has a wrong size
   */
  constructor(opts: RingSignerOptions, modules: { readonly random?: (length: number) => Uint8Array } = {}) {
    this.#random = modules.random ?? randomBytes;
    this.#maxPrepared = opts.maxPrepared ?? 64;
    this.#ring = signingRing(
      {
        members: opts.members.map((member) => Uint8Array.from(member)),
        key: Uint8Array.from(opts.key),
        maxMembers: MAX_RING_MEMBERS,
      },
      {
        curve,
        pointOf(member) {
          const point = curve.point(member);
          return point === undefined ? undefined : { point, hashed: hashToPoint(curve, member) };
        },
      },
    );
  }

  /** How many signatures are prepared. */
  get prepared(): number {
    return this.#prepared.length;
  }

  /** Prepares up to `count` more signatures, within the limit. */
  prepare(count: number): void {
    if (this.#disposed) return;
    for (let i = 0; i < count && this.#prepared.length < this.#maxPrepared; i++) {
      const attempt = this.#attempt();
      if (attempt !== undefined) this.#prepared.push(attempt);
    }
  }

  /**
   * Signs a 32-byte digest: 69 + 65n bytes. Prepares what is not prepared.
   * @throws AppError INTERNAL when the digest has a wrong length or the signer is disposed
   */
  sign(digest: Uint8Array): Uint8Array {
    if (digest.length !== 32 || this.#disposed) {
      throw new AppError("INTERNAL", { detail: { digestLength: digest.length, disposed: this.#disposed } });
    }
    for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) {
      // Out of the list before it is used: whatever follows, no digest meets it again.
      const attempt = this.#prepared.shift() ?? this.#attempt();
      const made = attempt && finishAttempt(this.#ring, attempt, digest, curve);
      if (made !== undefined && !made.short) return encodeRingSignature(made);
    }
    throw new AppError("INTERNAL", { detail: { ringAttempts: MOST_ATTEMPTS } });
  }

  /** Wipes the key and what was prepared. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#ring.key.fill(0);
    for (const { nonce } of this.#prepared.splice(0)) nonce.fill(0);
  }

  #attempt(): RingAttempt | undefined {
    return prepareAttempt(this.#ring, { curve, random: this.#random });
  }
}
