import { AppError, bytesToHex, concatBytes } from "@turnpike/base";
import { cosmosPublicKey } from "../src/cosmos/signatures.ts";
import { curve } from "../src/curve.ts";
import { hashToScalar } from "../src/ring/challenge.ts";
import { decodeRingSignature } from "../src/ring/codec.ts";
import { hashToPoint } from "../src/ring/points.ts";
import { bytesToNumber, numberToBytes32, ORDER } from "../src/scalars.ts";

/** The nonce of a ring signature, which who has the private key can compute: hex. */
export function nonceOf(signature: Uint8Array, digest: Uint8Array, key: Uint8Array): string {
  const decoded = decodeRingSignature(signature);
  const image = decoded && curve.point(decoded.image);
  if (decoded === undefined || image === undefined) throw new AppError("INTERNAL", { message: "no ring signature" });
  const own = bytesToHex(cosmosPublicKey(key));
  let challenge = decoded.challenge;
  for (const [i, member] of decoded.members.entries()) {
    const response = decoded.responses[i] ?? challenge;
    if (bytesToHex(member) === own) {
      const nonce = (bytesToNumber(response) + bytesToNumber(challenge) * bytesToNumber(key)) % ORDER;
      return bytesToHex(numberToBytes32(nonce));
    }
    const point = curve.point(member) ?? image;
    const left = curve.addBase(response, challenge, point) ?? image;
    const right = curve.addPoints(response, hashToPoint(curve, member), challenge, image) ?? image;
    challenge = hashToScalar(concatBytes(digest, left, right)).scalar;
  }
  throw new AppError("INTERNAL", { message: "the key is of no member" });
}
