import type { RingVerdict } from "@turnpike/crypto";

/** Signing and checking, off the event loop where there are threads for it. */
export interface RelayCrypto {
  /** The chain's whole check of a request's ring signature. */
  verifyRing(
    digest: Uint8Array,
    signature: Uint8Array,
    allowed: readonly Uint8Array[],
  ): Promise<Pick<RingVerdict, "ok"> & { readonly fault?: string }>;
  /** The operator's signature of a response's digest: 64 bytes. */
  signResponse(operatorAddress: string, digest: Uint8Array): Promise<Uint8Array>;
}
