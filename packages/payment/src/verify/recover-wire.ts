import { type Address, bytesToHex0x } from "@turnpike/base";
import { recoverSigner } from "@turnpike/crypto";

/** Digest (32 bytes) and signature (65 bytes). */
const JOB_BYTES = 97;
/** An address; zeros where there is no signer. */
const SIGNER_BYTES = 20;

/** One signature whose signer is wanted. */
export interface RecoverJob {
  readonly digest: Uint8Array;
  readonly signature: Uint8Array;
}

/** Jobs as they are sent to a thread, one behind the other. */
export function packJobs(jobs: readonly RecoverJob[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(jobs.length * JOB_BYTES);
  for (const [index, { digest, signature }] of jobs.entries()) {
    bytes.set(digest, index * JOB_BYTES);
    bytes.set(signature, index * JOB_BYTES + 32);
  }
  return bytes;
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
