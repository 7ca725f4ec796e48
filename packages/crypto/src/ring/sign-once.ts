import { concatBytes } from "@turnpike/base";
import type { Secp256k1 } from "../backend.ts";
import { isZero, reduceScalar } from "../scalars.ts";
import { type Challenge, hashToScalar } from "./challenge.ts";
import { compressPoint, type RingPoint } from "./points.ts";

/** What one attempt to sign needs. */
export interface SignOnceOptions {
  readonly digest: Uint8Array;
  readonly points: readonly RingPoint[];
  /** Place of the signer's key among the points. */
  readonly signer: number;
  readonly key: Uint8Array;
  /** The signer's key image as a point of 65 bytes. */
  readonly image: Uint8Array;
}

/** One attempt's numbers. */
export interface SignOnceResult {
  readonly challenge: Uint8Array;
  readonly responses: readonly Uint8Array[];
  /** True when a challenge on the way was short. */
  readonly short: boolean;
}

/**
 * One bLSAG signature: draws the nonce u, then one response for every other member, in the ring's order from the signer
 * on (ring-go `Sign`). Undefined when a draw is zero, which never happens. The nonce is wiped.
 */
export function signOnce(
  opts: SignOnceOptions,
  modules: { readonly curve: Secp256k1; readonly random: (length: number) => Uint8Array },
): SignOnceResult | undefined {
  const { digest, points, signer, key, image } = opts;
  const { curve, random } = modules;
  const own = points[signer];
  const nonce = Uint8Array.from(reduceScalar(random(32)));
  const base = isZero(nonce) ? undefined : curve.publicKey(nonce);
  if (own === undefined || base === undefined) return undefined;
  const responses: Uint8Array[] = points.map(() => nonce);
  const challenges: Challenge[] = [];
  let challenge = hashToScalar(
    concatBytes(digest, compressPoint(base), compressPoint(curve.multiplySecret(own.hashed, nonce))),
  );
  let short = false;
  for (let step = 1; step <= points.length; step++) {
    const place = (signer + step) % points.length;
    const point = points[place];
    if (point === undefined) return undefined;
    challenges[place] = challenge;
    short ||= challenge.short;
    if (place === signer) break;
    const s = reduceScalar(random(32));
    const left = curve.addBase(s, challenge.scalar, point.point);
    const right = curve.addPoints(s, point.hashed, challenge.scalar, image);
    if (left === undefined || right === undefined) return undefined;
    responses[place] = s;
    challenge = hashToScalar(concatBytes(digest, left, right));
  }
  const last = curve.subtractProduct(nonce, challenge.scalar, key);
  nonce.fill(0);
  const first = challenges[0];
  if (last === undefined || first === undefined) return undefined;
  responses[signer] = last;
  return { challenge: first.scalar, responses, short };
}
