import type { Bytes } from "@turnpike/chain-store";
import { cosmosVerifyDigest, sha256 } from "@turnpike/crypto";
import { bytesToText } from "../state/bytes.ts";

/** Whether 64 bytes are the signature of a message by a compressed key. */
export type VerifySignature = (message: Bytes, signature: Bytes, publicKey: Bytes) => boolean;

/** Part of a full set that is evicted at once: each eviction walks past the entries that were deleted before. */
const EVICTED_SHARE = 1 / 16;

export interface VerifiedSignaturesOptions {
  /** Most of them; the oldest go first. */
  readonly maxKept: number;
}

/**
 * Signatures that were found to hold, so that what the mempool has verified is not verified again in a block. Message, key
 * and signature decide alone, so that it changes no result; what does not hold is not remembered.
 */
export class VerifiedSignatures {
  readonly #maxKept: number;
  readonly #kept = new Set<string>();

  constructor(opts: VerifiedSignaturesOptions) {
    this.#maxKept = opts.maxKept;
  }

  /** As `cosmosVerify`. */
  readonly verify: VerifySignature = (message, signature, publicKey) => {
    if (signature.length !== 64 || publicKey.length !== 33) return false;
    const digest = sha256(message);
    const name = `${bytesToText(digest)}${bytesToText(signature)}${bytesToText(publicKey)}`;
    if (this.#kept.has(name)) return true;
    if (!cosmosVerifyDigest(digest, signature, publicKey)) return false;
    if (this.#kept.size >= this.#maxKept) this.#evict();
    this.#kept.add(name);
    return true;
  };

  #evict(): void {
    let left = Math.ceil(this.#maxKept * EVICTED_SHARE);
    for (const oldest of this.#kept) {
      this.#kept.delete(oldest);
      if (--left <= 0) return;
    }
  }
}
