import { cosmosVerify, sha256 } from "@turnpike/crypto";
import type { Bytes } from "../types.ts";

/** Tells whether 64 bytes are the signature of a message by a compressed key. */
export type VerifySignature = (message: Bytes, signature: Bytes, publicKey: Bytes) => boolean;

/** Options of {@link VerifiedSignatures}. */
export interface VerifiedSignaturesOptions {
  /** Most of them; the oldest goes first. */
  readonly maxKept: number;
}

const nameOf = (...parts: readonly Bytes[]): string => Buffer.concat(parts).toString("latin1");

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
    const name = nameOf(sha256(message), signature, publicKey);
    if (this.#kept.has(name)) return true;
    if (!cosmosVerify(message, signature, publicKey)) return false;
    for (const oldest of this.#kept) {
      if (this.#kept.size < this.#maxKept) break;
      this.#kept.delete(oldest);
    }
    this.#kept.add(name);
    return true;
  };
}
