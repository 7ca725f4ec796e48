import { AppError } from "@turnpike/base";
import { DIGEST_BYTES, PATH_BYTES } from "./digests.ts";

/** Numbers that name a node: leaves are even, branches odd; -1 is none. */
export type NodeRef = number;

/** No node. */
export const NO_NODE: NodeRef = -1;

/** True when the name is a leaf's. */
export function isLeaf(ref: NodeRef): boolean {
  return (ref & 1) === 0;
}

function grown<T extends Uint8Array | Int32Array | Uint16Array>(
  array: T,
  make: (length: number) => T,
  most: number,
): T {
  const larger = make(Math.min(most, array.length * 2));
  larger.set(array as never);
  return larger;
}

/**
 * The nodes of one trie in flat arrays: about 200 bytes a leaf besides its value, and nothing for the garbage collector
 * to walk. Nodes are never removed. A branch is a place where both ways lead on; ways of one child are not kept.
 */
export class TrieArena {
  readonly #maxLeaves: number;
  #paths = new Uint8Array(PATH_BYTES * 16);
  #leafDigests = new Uint8Array(DIGEST_BYTES * 16);
  #depths = new Uint16Array(16);
  #children = new Int32Array(32);
  #wayLeaves = new Int32Array(16);
  #digests = new Uint8Array(DIGEST_BYTES * 16);
  #tops = new Uint8Array(DIGEST_BYTES * 16);
  #clean = new Uint8Array(16);
  #leaves = 0;
  #branches = 0;

  constructor(maxLeaves: number) {
    this.#maxLeaves = maxLeaves;
  }

  /** How many leaves there are. */
  get leafCount(): number {
    return this.#leaves;
  }

  /** Adds a leaf. @throws AppError OVERLOADED when there are as many as may be */
  addLeaf(path: Uint8Array, digest: Uint8Array): NodeRef {
    if (this.#leaves >= this.#maxLeaves) {
      throw new AppError("OVERLOADED", { message: `The trie holds ${this.#maxLeaves} leaves, its most.` });
    }
    const index = this.#leaves++;
    if (index * PATH_BYTES === this.#paths.length) {
      this.#paths = grown(this.#paths, (n) => new Uint8Array(n), this.#maxLeaves * PATH_BYTES);
      this.#leafDigests = grown(this.#leafDigests, (n) => new Uint8Array(n), this.#maxLeaves * DIGEST_BYTES);
    }
    this.#paths.set(path, index * PATH_BYTES);
    this.#leafDigests.set(digest, index * DIGEST_BYTES);
    return index * 2;
  }

  /** Puts another digest in a leaf's place. */
  setLeafDigest(leaf: NodeRef, digest: Uint8Array): void {
    this.#leafDigests.set(digest, (leaf >> 1) * DIGEST_BYTES);
  }

  /** A leaf's path; a view. */
  path(leaf: NodeRef): Uint8Array {
    const at = (leaf >> 1) * PATH_BYTES;
    return this.#paths.subarray(at, at + PATH_BYTES);
  }

  /** A leaf's digest; a view. */
  leafDigest(leaf: NodeRef): Uint8Array {
    const at = (leaf >> 1) * DIGEST_BYTES;
    return this.#leafDigests.subarray(at, at + DIGEST_BYTES);
  }

  /** Adds a branch at a depth. `wayLeaf` is the leaf whose path names the way to it (see {@link wayPath}). */
  addBranch(depth: number, left: NodeRef, right: NodeRef, wayLeaf: NodeRef): NodeRef {
    const index = this.#branches++;
    if (index === this.#depths.length) {
      const most = this.#maxLeaves;
      this.#depths = grown(this.#depths, (n) => new Uint16Array(n), most);
      this.#children = grown(this.#children, (n) => new Int32Array(n), most * 2);
      this.#wayLeaves = grown(this.#wayLeaves, (n) => new Int32Array(n), most);
      this.#digests = grown(this.#digests, (n) => new Uint8Array(n), most * DIGEST_BYTES);
      this.#tops = grown(this.#tops, (n) => new Uint8Array(n), most * DIGEST_BYTES);
      this.#clean = grown(this.#clean, (n) => new Uint8Array(n), most);
    }
    this.#depths[index] = depth;
    this.#children[index * 2] = left;
    this.#children[index * 2 + 1] = right;
    this.#wayLeaves[index] = wayLeaf;
    return index * 2 + 1;
  }

  /** The depth at which a branch's two ways part. */
  depth(branch: NodeRef): number {
    return this.#depths[branch >> 1] ?? 0;
  }

  /** A branch's child. */
  child(branch: NodeRef, side: 0 | 1): NodeRef {
    return this.#children[(branch >> 1) * 2 + side] ?? NO_NODE;
  }

  /** Puts another child in a branch's place. */
  setChild(branch: NodeRef, side: 0 | 1, child: NodeRef): void {
    this.#children[(branch >> 1) * 2 + side] = child;
  }

  /** The leaf whose path is on the way to a branch: that which Go's extension node keeps. */
  wayLeaf(branch: NodeRef): NodeRef {
    return this.#wayLeaves[branch >> 1] ?? NO_NODE;
  }

  /** A path of which the bits down to the branch's depth are the way to it; a view. */
  wayPath(branch: NodeRef): Uint8Array {
    return this.path(this.wayLeaf(branch));
  }

  /** The branch's own digest; undefined when something below it has changed since. A view. */
  digest(branch: NodeRef): Uint8Array | undefined {
    const index = branch >> 1;
    if (((this.#clean[index] ?? 0) & 1) === 0) return undefined;
    return this.#digests.subarray(index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES);
  }

  /** The digest where the way to the branch begins; undefined when that has changed. A view. */
  top(branch: NodeRef): Uint8Array | undefined {
    const index = branch >> 1;
    if ((this.#clean[index] ?? 0) !== 3) return undefined;
    return this.#tops.subarray(index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES);
  }

  /** Keeps a branch's own digest and the one where its way begins. */
  setDigests(branch: NodeRef, digest: Uint8Array, top: Uint8Array): void {
    const index = branch >> 1;
    this.#digests.set(digest, index * DIGEST_BYTES);
    this.#tops.set(top, index * DIGEST_BYTES);
    this.#clean[index] = 3;
  }

  /** Discards a branch's digests: something below it changed. */
  soil(branch: NodeRef): void {
    this.#clean[branch >> 1] = 0;
  }

  /** Discards only the digest where a branch's way begins: the way became shorter. */
  soilTop(branch: NodeRef): void {
    const index = branch >> 1;
    this.#clean[index] = (this.#clean[index] ?? 0) & 1;
  }
}
