import { hash } from "node:crypto";

/** Bytes of a digest: SHA-256, then sum and count as 64-bit big-endian integers. */
export const DIGEST_BYTES = 48;
/** Bytes of a path: SHA-256 of the key. */
export const PATH_BYTES = 32;
/** The digest of nothing. */
export const EMPTY_DIGEST: Uint8Array = new Uint8Array(DIGEST_BYTES);

const INNER_BYTES = 1 + DIGEST_BYTES * 2 + 16;

/** The bit of a path at a depth: 0 is left. */
export function pathBit(path: Uint8Array, depth: number): 0 | 1 {
  return (((path[depth >> 3] ?? 0) >> (7 - (depth & 7))) & 1) === 0 ? 0 : 1;
}

/** Changes the bit of a path at a depth. */
export function flipPathBit(path: Uint8Array, depth: number): void {
  path[depth >> 3] = (path[depth >> 3] ?? 0) ^ (1 << (7 - (depth & 7)));
}

// Sums wrap at 2^64, as Go's do.
function addInto(target: Uint8Array, at: number, a: Uint8Array, b: Uint8Array, from: number): void {
  let carry = 0;
  for (let i = 7; i >= 0; i--) {
    const sum = (a[from + i] ?? 0) + (b[from + i] ?? 0) + carry;
    target[at + i] = sum;
    carry = sum >> 8;
  }
}

/** What an inner node hashes: `01 ‖ left ‖ right ‖ sum ‖ count`, from the digests of its children. */
export function innerPreimage(left: Uint8Array, right: Uint8Array, into = new Uint8Array(INNER_BYTES)): Uint8Array {
  into[0] = 1;
  into.set(left, 1);
  into.set(right, 1 + DIGEST_BYTES);
  addInto(into, 1 + DIGEST_BYTES * 2, left, right, 32);
  addInto(into, 9 + DIGEST_BYTES * 2, left, right, 40);
  return into;
}

/** What a leaf hashes: `00 ‖ path ‖ data`, where data is the value with weight and count (1) behind it. */
export function leafPreimage(path: Uint8Array, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(1 + path.length + data.length);
  bytes.set(path, 1);
  bytes.set(data, 1 + path.length);
  return bytes;
}

/** What a leaf hashes, from its value and weight: one copy of the value. */
export function valuePreimage(path: Uint8Array, value: Uint8Array, weight: bigint): Uint8Array {
  const at = 1 + path.length;
  const bytes = new Uint8Array(at + value.length + 16);
  bytes.set(path, 1);
  bytes.set(value, at);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(at + value.length, weight);
  view.setBigUint64(at + value.length + 8, 1n);
  return bytes;
}

// The one-shot hash is three times as fast when its result is a text than when it is a new buffer.
const hashed = Buffer.alloc(PATH_BYTES);

/** The digest of what a node hashes: SHA-256 of all of it, and its last 16 bytes. */
export function digestOf(preimage: Uint8Array): Uint8Array {
  const digest = new Uint8Array(DIGEST_BYTES);
  hashed.write(hash("sha256", preimage, "latin1"), "latin1");
  digest.set(hashed);
  for (let i = 0, from = preimage.length - 16; i < 16; i++) digest[32 + i] = preimage[from + i] ?? 0;
  return digest;
}

/** The path of a key: its SHA-256. */
export function pathOf(key: Uint8Array): Uint8Array {
  const path = new Uint8Array(PATH_BYTES);
  hashed.write(hash("sha256", key, "latin1"), "latin1");
  path.set(hashed);
  return path;
}

const scratch = new Uint8Array(INNER_BYTES);

/** The digest of an inner node. */
export function innerDigest(left: Uint8Array, right: Uint8Array): Uint8Array {
  return digestOf(innerPreimage(left, right, scratch));
}

/** The digest at depth `from` of a subtree that stands at depth `to` alone on its way down `path`. */
export function lift(digest: Uint8Array, path: Uint8Array, to: number, from: number): Uint8Array {
  let lifted = digest;
  for (let depth = to - 1; depth >= from; depth--) {
    lifted = pathBit(path, depth) === 0 ? innerDigest(lifted, EMPTY_DIGEST) : innerDigest(EMPTY_DIGEST, lifted);
  }
  return lifted;
}
