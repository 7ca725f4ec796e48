import type { Secp256k1 } from "./backend.ts";
import { loadNative } from "./native.ts";
import { pure } from "./pure.ts";

/** The implementation of secp256k1 that this process uses: the native one where it loads. */
export const curve: Secp256k1 = loadNative() ?? pure;
