import { hash } from "node:crypto";
import { damaged } from "./sealed.ts";

/** Bytes of every hash here: SHA-256. */
const HASH_BYTES = 32;
const WIDTH = 16;
const MAX_DEPTH = HASH_BYTES * 2;
const LEAF_TAG = 0;
const BRANCH_TAG = 1;
/** Nodes above this depth stay in memory once they were changed: at most 4,369 of them, some 15 MB. */
const KEPT_DEPTH = 4;

// What is hashed is put together here: nothing else runs between that and the hash.
const leafBytes = Buffer.alloc(1 + 2 * HASH_BYTES, LEAF_TAG);
const branchBytes = Buffer.alloc(3 + WIDTH * HASH_BYTES, BRANCH_TAG);

// As text, and its characters taken over: a digest as bytes costs more than the hashing.
function sha256(data: Uint8Array): Buffer {
  const text = hash("sha256", data, "latin1");
  const bytes = Buffer.alloc(HASH_BYTES);
  for (let i = 0; i < HASH_BYTES; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** App hash of a state without entries: SHA-256 of nothing. */
export const EMPTY_HASH: Buffer = sha256(Buffer.alloc(0));

/**
 * What stands below a place of the trie: one entry, or a node with at least two entries below it. Never changed: a block
 * makes new ones, so that what is kept in memory is always that of its own root.
 */
export type TrieChild =
  | { readonly kind: "leaf"; readonly path: Buffer; readonly hash: Buffer }
  | {
      readonly kind: "branch";
      readonly hash: Buffer;
      /** Undefined: they have to be read. */
      readonly children?: readonly (TrieChild | undefined)[];
    };

type Leaf = Extract<TrieChild, { readonly kind: "leaf" }>;

/** One entry's new leaf; a hash of undefined takes it away. */
export interface LeafChange {
  readonly path: Buffer;
  readonly hash: Buffer | undefined;
}

/** Gives stored nodes by {@link nodeKey}. */
export type NodeSource = (key: Buffer) => Buffer | undefined;

/** A node to write, or to remove where its bytes are undefined. */
export type NodeWrite = readonly [key: Buffer, bytes: Buffer | undefined];

/** Where an entry stands in the trie: the nibbles of SHA-256 of its key. */
export function pathOf(key: Uint8Array): Buffer {
  return sha256(key);
}

/** Hash of an entry: `SHA-256(00 ‖ SHA-256(key) ‖ SHA-256(value))`. */
export function leafHash(path: Buffer, value: Uint8Array): Buffer {
  leafBytes.set(path, 1);
  leafBytes.set(sha256(value), 1 + HASH_BYTES);
  return sha256(leafBytes);
}

/** Key under which a node is stored: its depth, then the nibbles that lead to it. */
export function nodeKey(path: Buffer, depth: number): Buffer {
  const bytes = Buffer.alloc(1 + ((depth + 1) >> 1));
  bytes[0] = depth;
  path.copy(bytes, 1, 0, bytes.length - 1);
  if (depth % 2 === 1) bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) & 0xf0;
  return bytes;
}

/** The nibble of a path at a depth. */
export function nibbleAt(path: Buffer, depth: number): number {
  const byte = path[depth >> 1] ?? 0;
  return depth % 2 === 0 ? byte >> 4 : byte & 0x0f;
}

type Children = (TrieChild | undefined)[];

const NO_CHILDREN: Children = Array.from({ length: WIDTH }, () => undefined);

/** Hash of a node: `SHA-256(01 ‖ BE16 bit map of its children ‖ their hashes in order)`. */
function branchHash(children: Children): Buffer {
  let bits = 0;
  let at = 3;
  for (let nibble = 0; nibble < WIDTH; nibble++) {
    const child = children[nibble];
    if (child === undefined) continue;
    bits |= 1 << (WIDTH - 1 - nibble);
    branchBytes.set(child.hash, at);
    at += HASH_BYTES;
  }
  branchBytes.writeUInt16BE(bits, 1);
  return sha256(branchBytes.subarray(0, at));
}

/** A node as it is stored: bit maps of its children and of the leaves among them, then each child. */
function encodeNode(children: Children): Buffer {
  let present = 0;
  let leaves = 0;
  let length = 4;
  for (let nibble = 0; nibble < WIDTH; nibble++) {
    const child = children[nibble];
    if (child === undefined) continue;
    const bit = 1 << (WIDTH - 1 - nibble);
    present |= bit;
    if (child.kind === "leaf") leaves |= bit;
    length += child.kind === "leaf" ? 2 * HASH_BYTES : HASH_BYTES;
  }
  const bytes = Buffer.allocUnsafe(length);
  bytes.writeUInt16BE(present, 0);
  bytes.writeUInt16BE(leaves, 2);
  let at = 4;
  for (const child of children) {
    if (child === undefined) continue;
    if (child.kind === "leaf") {
      bytes.set(child.path, at);
      at += HASH_BYTES;
    }
    bytes.set(child.hash, at);
    at += HASH_BYTES;
  }
  return bytes;
}

function decodeNode(bytes: Buffer): Children | undefined {
  if (bytes.length < 4) return undefined;
  const present = bytes.readUInt16BE(0);
  const leaves = bytes.readUInt16BE(2);
  const children = NO_CHILDREN.slice();
  let at = 4;
  for (let nibble = 0; nibble < WIDTH; nibble++) {
    const bit = 1 << (WIDTH - 1 - nibble);
    if ((present & bit) === 0) continue;
    const isLeaf = (leaves & bit) !== 0;
    const path = bytes.subarray(at, at + HASH_BYTES);
    if (isLeaf) at += HASH_BYTES;
    const own = bytes.subarray(at, at + HASH_BYTES);
    at += HASH_BYTES;
    children[nibble] = isLeaf ? { kind: "leaf", path, hash: own } : { kind: "branch", hash: own };
  }
  return at === bytes.length ? children : undefined;
}

/**
 * Children of a stored node.
 * @throws AppError CHAIN_STORE_DAMAGED when it is not there, or its hash is not the one that its parent has.
 */
export function readNode(nodes: NodeSource, key: Buffer, expected: Buffer): (TrieChild | undefined)[] {
  const bytes = nodes(key);
  const children = bytes === undefined ? undefined : decodeNode(bytes);
  if (children === undefined || !branchHash(children).equals(expected)) throw damaged("a node of the app hash");
  return children;
}

/** App hash of a trie. */
export function rootHash(root: TrieChild | undefined): Buffer {
  return root === undefined ? EMPTY_HASH : root.hash;
}

const leafOf = ({ path, hash: own }: LeafChange): Leaf | undefined =>
  own === undefined ? undefined : { kind: "leaf", path, hash: own };

function branchOf(children: Children, own: Buffer, depth: number): TrieChild {
  return depth < KEPT_DEPTH ? { kind: "branch", hash: own, children } : { kind: "branch", hash: own };
}

/** What {@link updateTrie} gives. */
export interface TrieUpdate {
  readonly root: TrieChild | undefined;
  readonly writes: readonly NodeWrite[];
}

/**
 * Changes entries of a trie and says which nodes are then others. The shape depends on the entries alone: a place with
 * one entry below it is that entry, a place with more is a node. Only the nodes above the changes are read and hashed,
 * and those that the root's branches hold are not read. `changes` has each path once.
 */
export function updateTrie(root: TrieChild | undefined, changes: readonly LeafChange[], nodes: NodeSource): TrieUpdate {
  const writes: NodeWrite[] = [];
  const sorted = changes.toSorted((a, b) => Buffer.compare(a.path, b.path));

  // End of the run of entries from `from` on that stand below the same child.
  const runEnd = (list: readonly { readonly path: Buffer }[], depth: number, from: number, to: number): number => {
    const first = list[from];
    const nibble = first === undefined ? 0 : nibbleAt(first.path, depth);
    for (let at = from + 1; at < to; at++) {
      const next = list[at];
      if (next !== undefined && nibbleAt(next.path, depth) !== nibble) return at;
    }
    return to;
  };

  const build = (depth: number, leaves: readonly Leaf[], from: number, to: number): TrieChild | undefined => {
    const first = leaves[from];
    if (first === undefined || to <= from + 1) return to > from ? first : undefined;
    const children = NO_CHILDREN.slice();
    for (let at = from; at < to; ) {
      const end = runEnd(leaves, depth, at, to);
      children[nibbleAt(leaves[at]?.path ?? first.path, depth)] = build(depth + 1, leaves, at, end);
      at = end;
    }
    writes.push([nodeKey(first.path, depth), encodeNode(children)]);
    return branchOf(children, branchHash(children), depth);
  };

  const apply = (depth: number, at: TrieChild | undefined, from: number, to: number): TrieChild | undefined => {
    const first = sorted[from];
    if (first === undefined || from >= to) return at;
    if (at?.kind !== "branch") {
      // One entry of the same path, the most frequent case.
      if (to === from + 1 && (at === undefined || first.path.equals(at.path))) return leafOf(first);
      const list = sorted.slice(from, to);
      const leaves = list.flatMap((change) => leafOf(change) ?? []);
      if (at !== undefined && !list.some((change) => change.path.equals(at.path))) {
        const before = leaves.findIndex((leaf) => Buffer.compare(leaf.path, at.path) > 0);
        leaves.splice(before === -1 ? leaves.length : before, 0, at);
      }
      return build(depth, leaves, 0, leaves.length);
    }
    if (depth >= MAX_DEPTH) throw damaged("a node of the app hash");
    const key = nodeKey(first.path, depth);
    const children = at.children?.slice() ?? readNode(nodes, key, at.hash);
    for (let start = from; start < to; ) {
      const end = runEnd(sorted, depth, start, to);
      const nibble = nibbleAt(sorted[start]?.path ?? first.path, depth);
      children[nibble] = apply(depth + 1, children[nibble], start, end);
      start = end;
    }
    let count = 0;
    let only: TrieChild | undefined;
    for (const child of children) {
      if (child === undefined) continue;
      count++;
      only = child;
    }
    if (count === 0 || (count === 1 && only?.kind === "leaf")) {
      writes.push([key, undefined]);
      return only;
    }
    const own = branchHash(children);
    if (!own.equals(at.hash)) writes.push([key, encodeNode(children)]);
    return branchOf(children, own, depth);
  };

  return { root: apply(0, root, 0, sorted.length), writes };
}

/** Bytes of a trie's root, as they are kept beside the newest height. */
export function encodeRoot(root: TrieChild | undefined): Buffer {
  if (root === undefined) return Buffer.of(0);
  return root.kind === "leaf"
    ? Buffer.concat([Buffer.of(1), root.path, root.hash])
    : Buffer.concat([Buffer.of(2), root.hash]);
}

/** Reads {@link encodeRoot}. */
export function decodeRoot(bytes: Buffer): TrieChild | undefined {
  const [tag] = bytes;
  if (tag === 0 && bytes.length === 1) return undefined;
  if (tag === 1 && bytes.length === 1 + 2 * HASH_BYTES) {
    return { kind: "leaf", path: bytes.subarray(1, 1 + HASH_BYTES), hash: bytes.subarray(1 + HASH_BYTES) };
  }
  if (tag === 2 && bytes.length === 1 + HASH_BYTES) return { kind: "branch", hash: bytes.subarray(1) };
  throw damaged("the root of the app hash");
}
