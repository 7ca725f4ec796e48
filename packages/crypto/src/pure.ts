import { secp256k1 } from "@noble/curves/secp256k1.js";
import type { Secp256k1 } from "./backend.ts";

/** secp256k1 in JavaScript: the fallback, and the reference of the tests. */
export const pure: Secp256k1 = {
  name: "pure",
  recover(digest, signature, yParity) {
    try {
      const recovered = new Uint8Array(65);
      recovered[0] = yParity;
      recovered.set(signature, 1);
      const point = secp256k1.recoverPublicKey(recovered, digest, { prehash: false });
      return secp256k1.Point.fromBytes(point).toBytes(false);
    } catch {
      return undefined;
    }
  },
  sign(digest, key) {
    const recovered = secp256k1.sign(digest, key, { prehash: false, format: "recovered" });
    return { signature: recovered.slice(1), yParity: recovered[0] === 0 ? 0 : 1 };
  },
  publicKey: (key) => (secp256k1.utils.isValidSecretKey(key) ? secp256k1.getPublicKey(key, false) : undefined),
};
