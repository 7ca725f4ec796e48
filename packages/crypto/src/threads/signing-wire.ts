import type { JobKind, SigningJob } from "./signing-work.ts";

const DIGEST_BYTES = 32;
const HEAD_BYTES = 9;

/** Jobs as they are sent to a thread: kind, handle, length of the rest, digest and rest, one behind the other. */
export function packJobs(jobs: readonly SigningJob[]): Uint8Array<ArrayBuffer> {
  let size = 0;
  for (const { rest } of jobs) size += HEAD_BYTES + DIGEST_BYTES + rest.length;
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const { kind, handle, digest, rest } of jobs) {
    view.setUint8(at, kind);
    view.setUint32(at + 1, handle);
    view.setUint32(at + 5, rest.length);
    bytes.set(digest, at + HEAD_BYTES);
    bytes.set(rest, at + HEAD_BYTES + DIGEST_BYTES);
    at += HEAD_BYTES + DIGEST_BYTES + rest.length;
  }
  return bytes;
}

/** The jobs of {@link packJobs}. */
export function unpackJobs(bytes: Uint8Array): SigningJob[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const jobs: SigningJob[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at + 5);
    const digestAt = at + HEAD_BYTES;
    const restAt = digestAt + DIGEST_BYTES;
    jobs.push({
      kind: view.getUint8(at) as JobKind,
      handle: view.getUint32(at + 1),
      digest: bytes.subarray(digestAt, restAt),
      rest: bytes.subarray(restAt, restAt + length),
    });
    at = restAt + length;
  }
  return jobs;
}

/** Results as they are sent back, each behind its length. No result has none: its length is 0. */
export function packResults(results: readonly (Uint8Array | undefined)[]): Uint8Array<ArrayBuffer> {
  let size = 0;
  for (const result of results) size += 4 + (result?.length ?? 0);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const result of results) {
    view.setUint32(at, result?.length ?? 0);
    if (result !== undefined) bytes.set(result, at + 4);
    at += 4 + (result?.length ?? 0);
  }
  return bytes;
}

/** The results of {@link packResults}, as views; one without bytes is none. */
export function unpackResults(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const results: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at);
    results.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return results;
}
