import { secp256k1 } from "@noble/curves/secp256k1.js";
import type { Secp256k1 } from "./backend.ts";
import { bytesToNumber, numberToBytes32, ORDER } from "./scalars.ts";

const { Point } = secp256k1;

/** secp256k1 in JavaScript: the fallback, and the reference of the tests. */
export const pure: Secp256k1 = {
  name: "pure",
  recover(digest, signature, yParity) {
    try {
      const recovered = new Uint8Array(65);
      recovered[0] = yParity;
      recovered.set(signature, 1);
      const point = secp256k1.recoverPublicKey(recovered, digest, { prehash: false });
      return Point.fromBytes(point).toBytes(false);
    } catch {
      return undefined;
    }
  },
  sign(digest, key) {
    const recovered = secp256k1.sign(digest, key, { prehash: false, format: "recovered" });
    return { signature: recovered.slice(1), yParity: recovered[0] === 0 ? 0 : 1 };
  },
  verify(digest, signature, publicKey) {
    try {
      return secp256k1.verify(signature, digest, publicKey, { prehash: false, lowS: true, format: "compact" });
    } catch {
      return false;
    }
  },
  publicKey: (key) => (secp256k1.utils.isValidSecretKey(key) ? secp256k1.getPublicKey(key, false) : undefined),
  point(encoded) {
    try {
      return Point.fromBytes(encoded).toBytes(false);
    } catch {
      return undefined;
    }
  },
  multiplySecret: (point, scalar) => Point.fromBytes(point).multiply(bytesToNumber(scalar)).toBytes(false),
  multiply: (point, scalar) => Point.fromBytes(point).multiplyUnsafe(bytesToNumber(scalar)).toBytes(false),
  addMultiple(sum, c, point) {
    const total = Point.fromBytes(sum).add(Point.fromBytes(point).multiplyUnsafe(bytesToNumber(c)));
    return total.is0() ? undefined : total.toBytes(true);
  },
  addBase(s, c, point) {
    const sum = Point.BASE.mulAddUnsafe(bytesToNumber(s), Point.fromBytes(point), bytesToNumber(c));
    return sum.is0() ? undefined : sum.toBytes(true);
  },
  addPoints(s, p, c, q) {
    const sum = Point.fromBytes(p).mulAddUnsafe(bytesToNumber(s), Point.fromBytes(q), bytesToNumber(c));
    return sum.is0() ? undefined : sum.toBytes(true);
  },
  subtractProduct(u, c, x) {
    const product = (bytesToNumber(c) * bytesToNumber(x)) % ORDER;
    const result = (bytesToNumber(u) + ORDER - product) % ORDER;
    return result === 0n ? undefined : numberToBytes32(result);
  },
};
