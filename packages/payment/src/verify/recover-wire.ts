import { type Address, bytesToHex0x } from "@turnpike/base";
import { recoverSigner } from "@turnpike/crypto";

/** Digest (32 bytes) and signature (65 bytes). */
export const JOB_BYTES = 97;
/** An address; zeros where there is no signer. */
export const SIGNER_BYTES = 20;

/** Jobs sent to a thread, one behind the other. */
export interface RecoverRequest {
  readonly id: number;
  readonly jobs: Uint8Array<ArrayBuffer>;
}

/** Its answer, in the same order. */
export interface RecoverReply {
  readonly id: number;
  readonly signers: Uint8Array<ArrayBuffer>;
}

/** Recovers the signer of each job. */
export function recoverAll(jobs: Uint8Array): Uint8Array<ArrayBuffer> {
  const count = Math.floor(jobs.length / JOB_BYTES);
  const signers = new Uint8Array(count * SIGNER_BYTES);
  for (let i = 0; i < count; i++) {
    const at = i * JOB_BYTES;
    const signer = recoverSigner(jobs.subarray(at, at + 32), jobs.subarray(at + 32, at + JOB_BYTES));
    if (signer !== undefined) Buffer.from(signers.buffer).write(signer.slice(2), i * SIGNER_BYTES, "hex");
  }
  return signers;
}

/** The signer at an index of {@link recoverAll}'s result, in lower case; undefined where there is none. */
export function signerAt(signers: Uint8Array, index: number): Address | undefined {
  const bytes = signers.subarray(index * SIGNER_BYTES, (index + 1) * SIGNER_BYTES);
  return bytes.length === SIGNER_BYTES && bytes.some((byte) => byte !== 0) ? bytesToHex0x(bytes) : undefined;
}
