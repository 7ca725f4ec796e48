import { createRequire } from "node:module";
import type { Secp256k1 } from "./backend.ts";
import { isReduced, isZero } from "./scalars.ts";

interface Bindings {
  ecdh(
    publicKey: Uint8Array,
    key: Uint8Array,
    options: { readonly hashfn: (x: Uint8Array, y: Uint8Array) => Uint8Array },
    output: Uint8Array,
  ): Uint8Array;
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: boolean): Uint8Array;
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { readonly signature: Uint8Array; readonly recid: number };
  ecdsaVerify(signature: Uint8Array, digest: Uint8Array, publicKey: Uint8Array): boolean;
  privateKeyVerify(key: Uint8Array): boolean;
  privateKeyNegate(key: Uint8Array): Uint8Array;
  privateKeyTweakAdd(key: Uint8Array, tweak: Uint8Array): Uint8Array;
  privateKeyTweakMul(key: Uint8Array, tweak: Uint8Array): Uint8Array;
  publicKeyCombine(points: readonly Uint8Array[], compressed: boolean): Uint8Array;
  publicKeyConvert(point: Uint8Array, compressed: boolean): Uint8Array;
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array;
  publicKeyTweakMul(point: Uint8Array, tweak: Uint8Array, compressed: boolean): Uint8Array;
}

function valueOrUndefined(make: () => Uint8Array): Uint8Array | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

function uncompressed(x: Uint8Array, y: Uint8Array): Uint8Array {
  const point = new Uint8Array(65);
  point[0] = 4;
  point.set(x, 1);
  point.set(y, 33);
  return point;
}

/** libsecp256k1 by its Node binding; undefined where the binding cannot be loaded. */
export function loadNative(): Secp256k1 | undefined {
  let bindings: Bindings;
  try {
    // The package's main module falls back to a slow one without a word: its bindings do not.
    bindings = createRequire(import.meta.url)("secp256k1/bindings.js") as Bindings;
  } catch {
    return undefined;
  }
  const sumOf = (terms: readonly Uint8Array[]): Uint8Array | undefined =>
    terms.length === 0 ? undefined : valueOrUndefined(() => bindings.publicKeyCombine(terms, true));
  return {
    name: "native",
    recover(digest, signature, yParity) {
      return valueOrUndefined(() => bindings.ecdsaRecover(signature, yParity, digest, false));
    },
    sign(digest, key) {
      const { signature, recid } = bindings.ecdsaSign(digest, key);
      return { signature, yParity: recid === 0 ? 0 : 1 };
    },
    verify(digest, signature, publicKey) {
      try {
        return bindings.ecdsaVerify(signature, digest, publicKey);
      } catch {
        return false;
      }
    },
    publicKey: (key) => (bindings.privateKeyVerify(key) ? bindings.publicKeyCreate(key, false) : undefined),
    point: (encoded) =>
      // 6 and 7 are the hybrid form, which nothing here accepts.
      encoded[0] === 6 || encoded[0] === 7
        ? undefined
        : valueOrUndefined(() => bindings.publicKeyConvert(encoded, false)),
    // ECDH is the multiplication whose time does not depend on the scalar.
    multiplySecret: (point, scalar) => bindings.ecdh(point, scalar, { hashfn: uncompressed }, new Uint8Array(65)),
    multiply: (point, scalar) => bindings.publicKeyTweakMul(point, scalar, false),
    addMultiple: (sum, c, point) =>
      valueOrUndefined(() =>
        bindings.publicKeyCombine(isZero(c) ? [sum] : [sum, bindings.publicKeyTweakMul(point, c, false)], true),
      ),
    addBase(s, c, point) {
      const x = point.subarray(1, 33);
      if (!isZero(c) && isReduced(x)) {
        // Recovery gives −z/r·G + σ/r·R in one double multiplication: with r = x(P), σ = c·r and z = −s·r it is this sum.
        const signature = new Uint8Array(64);
        signature.set(x, 0);
        signature.set(bindings.privateKeyTweakMul(Uint8Array.from(c), x), 32);
        const digest = Uint8Array.from(s);
        if (!isZero(s)) bindings.privateKeyNegate(bindings.privateKeyTweakMul(digest, x));
        return valueOrUndefined(() => bindings.ecdsaRecover(signature, (point[64] ?? 0) & 1, digest, true));
      }
      const terms: Uint8Array[] = [];
      if (!isZero(s)) terms.push(bindings.publicKeyCreate(s, false));
      if (!isZero(c)) terms.push(bindings.publicKeyTweakMul(point, c, false));
      return sumOf(terms);
    },
    addPoints(s, p, c, q) {
      const terms: Uint8Array[] = [];
      if (!isZero(s)) terms.push(bindings.publicKeyTweakMul(p, s, false));
      if (!isZero(c)) terms.push(bindings.publicKeyTweakMul(q, c, false));
      return sumOf(terms);
    },
    subtractProduct(u, c, x) {
      const result = Uint8Array.from(x);
      return valueOrUndefined(() => {
        bindings.privateKeyTweakMul(result, c);
        bindings.privateKeyNegate(result);
        return bindings.privateKeyTweakAdd(result, u);
      });
    },
  };
}
