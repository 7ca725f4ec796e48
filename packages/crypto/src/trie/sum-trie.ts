import { AppError, bytesEqual, concatBytes } from "@turnpike/base";
import { isLeaf, NO_NODE, type NodeRef, TrieArena } from "./arena.ts";
import { type CompactClosestProof, depthToBytes } from "./closest-proof.ts";
import {
  DIGEST_BYTES,
  digestOf,
  EMPTY_DIGEST,
  flipPathBit,
  innerDigest,
  innerPreimage,
  leafPreimage,
  lift,
  PATH_BYTES,
  pathBit,
  pathOf,
  valuePreimage,
} from "./digests.ts";

/** Where values are kept when a {@link SumTrie} shall not hold them itself: a log on disk, a database. */
export interface TrieValues {
  /** The value last inserted under this key; undefined when it is lost. */
  get(key: Uint8Array): Uint8Array | undefined;
}

/** What a {@link SumTrie} is made of. */
export interface SumTrieOptions {
  /** Most leaves. Default 4,194,304, for which the trie itself takes about a gigabyte. */
  readonly maxLeaves?: number;
}

/**
 * Sparse Merkle sum trie of the relay protocol: keys are hashed to paths, leaves hold a value and a weight, and the root
 * commits to all of them, to the sum of weights and to the number of leaves. The order of inserts changes nothing in it.
 * Digests are computed when they are asked for, and only where something changed.
 */
export class SumTrie {
  readonly #arena: TrieArena;
  readonly #values: TrieValues | undefined;
  // The data of leaf i; where values are kept elsewhere its key and weight.
  readonly #leaves: LeafData;
  #root: NodeRef = NO_NODE;

  constructor(opts: SumTrieOptions = {}, modules: { readonly values?: TrieValues } = {}) {
    this.#arena = new TrieArena(opts.maxLeaves ?? 4_194_304);
    this.#values = modules.values;
    this.#leaves = modules.values === undefined ? new LeafData() : new PackedLeaves();
  }

  /** How many keys there are. */
  get size(): number {
    return this.#arena.leafCount;
  }

  /** Sum of the weights, modulo 2^64. */
  get sum(): bigint {
    return Buffer.from(this.root()).readBigUInt64BE(32);
  }

  /**
   * Puts a value with its weight (0 to 2^64 − 1) under a key, in place of what was there. The value is copied. True when
   * the key is new.
   * @throws AppError INTERNAL when the weight is out of range; OVERLOADED when the trie is full
   */
  insert(key: Uint8Array, value: Uint8Array, weight: bigint): boolean {
    if (weight < 0n || weight >= 1n << 64n) throw new AppError("INTERNAL", { detail: { weight: String(weight) } });
    const path = pathOf(key);
    const preimage = valuePreimage(path, value, weight);
    const added = this.#place(path, digestOf(preimage));
    const kept = this.#values === undefined ? preimage : valuePreimage(path, key, weight);
    this.#leaves.set(added.leaf >> 1, kept.subarray(1 + PATH_BYTES));
    return added.isNew;
  }

  /** True when a key is there. */
  has(key: Uint8Array): boolean {
    return this.#find(pathOf(key)) !== NO_NODE;
  }

  /** The value and weight of a key; undefined when it is not there. */
  get(key: Uint8Array): { readonly value: Uint8Array; readonly weight: bigint } | undefined {
    const ref = this.#find(pathOf(key));
    if (ref === NO_NODE) return undefined;
    const data = this.#data(ref);
    const weight = new DataView(data.buffer, data.byteOffset + data.length - 16).getBigUint64(0);
    return { value: data.slice(0, -16), weight };
  }

  /** The root: 32 bytes of hash, then sum of weights and number of leaves, 8 bytes each. 48 zero bytes when empty. */
  root(): Uint8Array {
    return Uint8Array.from(this.#top(this.#root, 0));
  }

  /**
   * Computes some of the digests that changed, at most about so many, and says whether all are done: then {@link root} costs
   * nothing. A server does it in steps, so that a large trie does not hold up everything else.
   */
  digestSome(most: number): boolean {
    return this.#digestBelow(this.#root, 0, { left: most });
  }

  /**
   * Proves the leaf closest to a path of 32 bytes: the path is followed down, and where nothing is on its side the other
   * side is taken and noted. An empty trie is proven to be empty.
   * @throws AppError INTERNAL when the path has another length, or a value is lost
   */
  proveClosest(path: Uint8Array): CompactClosestProof {
    if (path.length !== PATH_BYTES) throw new AppError("INTERNAL", { detail: { pathLength: path.length } });
    const way = Uint8Array.from(path);
    // Go notes a turn in an empty trie, too.
    const flipped: number[] = this.#root === NO_NODE ? [0] : [];
    const side: Uint8Array[] = [];
    let ref = this.#root;
    let depth = 0;
    let sibling: Uint8Array | undefined;
    while (ref !== NO_NODE && !isLeaf(ref)) {
      const parting = this.#arena.depth(ref);
      const onlyWay = this.#arena.wayPath(ref);
      for (; depth < parting; depth++) {
        side.push(EMPTY_DIGEST);
        if (pathBit(way, depth) === pathBit(onlyWay, depth)) continue;
        flipPathBit(way, depth);
        flipped.push(depth);
      }
      const taken = pathBit(way, depth);
      const other = this.#arena.child(ref, taken === 0 ? 1 : 0);
      ref = this.#arena.child(ref, taken);
      depth += 1;
      side.push(Uint8Array.from(this.#top(other, depth)));
      sibling = isLeaf(ref) ? this.#preimage(other, depth) : undefined;
    }
    side.reverse();
    const bitMask = new Uint8Array((side.length + 7) >> 3);
    side.forEach((digest, i) => {
      if (bytesEqual(digest, EMPTY_DIGEST)) flipPathBit(bitMask, i);
    });
    return {
      path: Uint8Array.from(path),
      flippedBits: flipped.map(depthToBytes),
      depth: depthToBytes(depth),
      closestPath: ref === NO_NODE ? new Uint8Array(DIGEST_BYTES) : this.#arena.path(ref).slice(),
      closestValueHash: ref === NO_NODE ? undefined : this.#data(ref).slice(),
      closestProof: {
        sideNodes: side.filter((digest) => !bytesEqual(digest, EMPTY_DIGEST)),
        nonMembershipLeafData: undefined,
        bitMask,
        numSideNodes: side.length,
        siblingData: sibling,
      },
    };
  }

  #find(path: Uint8Array): NodeRef {
    let ref = this.#root;
    while (ref !== NO_NODE && !isLeaf(ref)) ref = this.#arena.child(ref, pathBit(path, this.#arena.depth(ref)));
    return ref !== NO_NODE && bytesEqual(this.#arena.path(ref), path) ? ref : NO_NODE;
  }

  #place(path: Uint8Array, digest: Uint8Array): { readonly leaf: NodeRef; readonly isNew: boolean } {
    const arena = this.#arena;
    // The bits that the path shares with the leaf at the end of its way are those that it shares with the trie.
    let ref = this.#root;
    while (ref !== NO_NODE && !isLeaf(ref)) ref = arena.child(ref, pathBit(path, arena.depth(ref)));
    const shared = ref === NO_NODE ? 0 : sharedBits(arena.path(ref), path);
    if (shared === PATH_BYTES * 8) arena.setLeafDigest(ref, digest);
    const leaf = shared === PATH_BYTES * 8 ? ref : arena.addLeaf(path, digest);
    let parent = NO_NODE;
    let node = this.#root;
    while (node !== NO_NODE && !isLeaf(node) && arena.depth(node) < shared) {
      arena.soil(node);
      parent = node;
      node = arena.child(node, pathBit(path, arena.depth(node)));
    }
    if (leaf === ref) return { leaf, isNew: false };
    let placed = leaf;
    if (node !== NO_NODE) {
      const toRight = pathBit(path, shared) === 1;
      // Go keeps, for a way of one child, the path of the leaf that made the way.
      const wayLeaf = isLeaf(node) ? leaf : arena.wayLeaf(node);
      placed = arena.addBranch(shared, toRight ? node : leaf, toRight ? leaf : node, wayLeaf);
      if (!isLeaf(node)) arena.soilTop(node);
    }
    if (parent === NO_NODE) this.#root = placed;
    else arena.setChild(parent, pathBit(path, arena.depth(parent)), placed);
    return { leaf, isNew: true };
  }

  #data(leaf: NodeRef): Uint8Array {
    const kept = this.#leaves.get(leaf >> 1);
    if (kept === undefined) throw new AppError("INTERNAL", { detail: { leaf } });
    if (this.#values === undefined) return kept;
    const tail = kept.subarray(kept.length - 16);
    const value = this.#values.get(kept.subarray(0, kept.length - 16));
    const data = value === undefined ? undefined : concatBytes(value, tail);
    const holds =
      data !== undefined &&
      bytesEqual(digestOf(leafPreimage(this.#arena.path(leaf), data)), this.#arena.leafDigest(leaf));
    if (!holds) throw new AppError("INTERNAL", { message: "A value of the trie is lost or has changed." });
    return data;
  }

  // The digest of a subtree whose way begins at `depth`. Views are valid until the next insert.
  #top(ref: NodeRef, depth: number): Uint8Array {
    if (ref === NO_NODE) return EMPTY_DIGEST;
    if (isLeaf(ref)) return this.#arena.leafDigest(ref);
    const known = this.#arena.top(ref);
    if (known !== undefined) return known;
    const own = this.#own(ref);
    const top = lift(own, this.#arena.wayPath(ref), this.#arena.depth(ref), depth);
    this.#arena.setDigests(ref, own, top);
    return top;
  }

  #digestBelow(ref: NodeRef, depth: number, budget: { left: number }): boolean {
    if (ref === NO_NODE || isLeaf(ref) || this.#arena.top(ref) !== undefined) return true;
    const parting = this.#arena.depth(ref);
    for (const side of [0, 1] as const) {
      if (!this.#digestBelow(this.#arena.child(ref, side), parting + 1, budget)) return false;
    }
    if (budget.left <= 0) return false;
    budget.left -= 1 + parting - depth;
    this.#top(ref, depth);
    return true;
  }

  #own(branch: NodeRef): Uint8Array {
    const known = this.#arena.digest(branch);
    if (known !== undefined) return known;
    const below = this.#arena.depth(branch) + 1;
    return innerDigest(this.#top(this.#arena.child(branch, 0), below), this.#top(this.#arena.child(branch, 1), below));
  }

  // What a node hashes, in Go's spelling: a way of one child is `02 ‖ begin ‖ end ‖ path ‖ child ‖ sum ‖ count`.
  #preimage(ref: NodeRef, depth: number): Uint8Array {
    if (isLeaf(ref)) return leafPreimage(this.#arena.path(ref), this.#data(ref));
    const end = this.#arena.depth(ref);
    if (end > depth) {
      const own = this.#own(ref);
      return concatBytes(Uint8Array.of(2, depth, end), this.#arena.wayPath(ref), own, own.subarray(32));
    }
    const left = this.#top(this.#arena.child(ref, 0), end + 1);
    return innerPreimage(left, this.#top(this.#arena.child(ref, 1), end + 1));
  }
}

/** What is kept of each leaf, by its number. */
class LeafData {
  readonly #data: Uint8Array[] = [];

  get(leaf: number): Uint8Array | undefined {
    return this.#data[leaf];
  }

  set(leaf: number, data: Uint8Array): void {
    this.#data[leaf] = data;
  }
}

const FIRST_LEAVES = 16;

/** Data of one length in one array: an object for each would need four times as much. Others are kept by themselves. */
class PackedLeaves extends LeafData {
  #width = 0;
  #bytes = new Uint8Array(0);
  #end = 0;

  override get(leaf: number): Uint8Array | undefined {
    const other = super.get(leaf);
    if (other !== undefined || leaf >= this.#end) return other;
    return this.#bytes.subarray(leaf * this.#width, (leaf + 1) * this.#width);
  }

  override set(leaf: number, data: Uint8Array): void {
    if (this.#width === 0) this.#width = data.length;
    this.#end = Math.max(this.#end, leaf + 1);
    if (data.length !== this.#width) {
      super.set(leaf, data.slice());
      return;
    }
    if (this.#end * this.#width > this.#bytes.length) {
      const larger = new Uint8Array(
        Math.max(this.#bytes.length * 2, FIRST_LEAVES * this.#width, this.#end * this.#width),
      );
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(data, leaf * this.#width);
  }
}

function sharedBits(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < PATH_BYTES; i++) {
    const difference = (a[i] ?? 0) ^ (b[i] ?? 0);
    if (difference !== 0) return i * 8 + Math.clz32(difference) - 24;
  }
  return PATH_BYTES * 8;
}
