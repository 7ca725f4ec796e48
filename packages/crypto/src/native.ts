import { createRequire } from "node:module";
import type { Secp256k1 } from "./backend.ts";

interface Bindings {
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: boolean): Uint8Array;
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { readonly signature: Uint8Array; readonly recid: number };
  privateKeyVerify(key: Uint8Array): boolean;
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array;
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
  return {
    name: "native",
    recover(digest, signature, yParity) {
      try {
        return bindings.ecdsaRecover(signature, yParity, digest, false);
      } catch {
        return undefined;
      }
    },
    sign(digest, key) {
      const { signature, recid } = bindings.ecdsaSign(digest, key);
      return { signature, yParity: recid === 0 ? 0 : 1 };
    },
    publicKey: (key) => (bindings.privateKeyVerify(key) ? bindings.publicKeyCreate(key, false) : undefined),
  };
}
