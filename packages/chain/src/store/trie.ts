import { hash } from "node:crypto";
import { damaged } from "./sealed.ts";

/** Bytes of every hash here: SHA-256. */
export const HASH_BYTES = 32;
const WIDTH = 16;
const MAX_DEPTH = HASH_BYTES * 2;
const LEAF_TAG = Buffer.of(0);
const BRANCH_TAG = Buffer.of(1);

const sha256 = (...parts: readonly Uint8Array[]): Buffer => hash("sha256", Buffer.concat(parts), "buffer");

/** App hash of a state without entries: SHA-256 of nothing. */
export const EMPTY_HASH: Buffer = sha256();

/** What stands below a place of the trie: one entry, or a node with at least two entries below it. */
export type TrieChild =
  | { readonly kind: "leaf"; readonly path: Buffer; readonly hash: Buffer }
  | { readonly kind: "branch"; readonly hash: Buffer };

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
  return hash("sha256", key, "buffer");
}

/** Hash of an entry: `SHA-256(00 ‖ SHA-256(key) ‖ SHA-256(value))`. */
export function leafHash(path: Buffer, value: Uint8Array): Buffer {
  return sha256(LEAF_TAG, path, hash("sha256", value, "buffer"));
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

const noChildren = (): Children => Array.from({ length: WIDTH }, () => undefined);

/** Hash of a node: `SHA-256(01 ‖ BE16 bit map of its children ‖ their hashes in order)`. */
function branchHash(children: Children): Buffer {
  const map = Buffer.alloc(2);
  const parts: Buffer[] = [BRANCH_TAG, map];
  let bits = 0;
  for (const [nibble, child] of children.entries()) {
    if (child === undefined) continue;
    bits |= 1 << (WIDTH - 1 - nibble);
    parts.push(child.hash);
  }
  map.writeUInt16BE(bits);
  return sha256(...parts);
}

/** A node as it is stored: bit maps of its children and of the leaves among them, then each child. */
function encodeNode(children: Children): Buffer {
  const head = Buffer.alloc(4);
  const parts: Buffer[] = [head];
  let present = 0;
  let leaves = 0;
  for (const [nibble, child] of children.entries()) {
    if (child === undefined) continue;
    const bit = 1 << (WIDTH - 1 - nibble);
    present |= bit;
    if (child.kind === "leaf") {
      leaves |= bit;
      parts.push(child.path);
    }
    parts.push(child.hash);
  }
  head.writeUInt16BE(present, 0);
  head.writeUInt16BE(leaves, 2);
  return Buffer.concat(parts);
}

function decodeNode(bytes: Buffer): Children | undefined {
  if (bytes.length < 4) return undefined;
  const present = bytes.readUInt16BE(0);
  const leaves = bytes.readUInt16BE(2);
  const children: Children = noChildren();
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

/** What {@link updateTrie} gives. */
export interface TrieUpdate {
  readonly root: TrieChild | undefined;
  readonly writes: readonly NodeWrite[];
}

/**
 * Changes entries of a trie and says which nodes are then others. The shape depends on the entries alone: a place with
 * one entry below it is that entry, a place with more is a node. Only the nodes above the changes are read and hashed.
 * `changes` has each path once.
 */
export function updateTrie(root: TrieChild | undefined, changes: readonly LeafChange[], nodes: NodeSource): TrieUpdate {
  const writes: NodeWrite[] = [];
  const sorted = changes.toSorted((a, b) => Buffer.compare(a.path, b.path));

  const groupsOf = function* <T extends { readonly path: Buffer }>(list: readonly T[], depth: number) {
    for (let from = 0; from < list.length; ) {
      const nibble = nibbleAt((list[from] as T).path, depth);
      let to = from + 1;
      while (to < list.length && nibbleAt((list[to] as T).path, depth) === nibble) to++;
      yield [nibble, list.slice(from, to)] as const;
      from = to;
    }
  };

  const build = (depth: number, leaves: readonly (TrieChild & { kind: "leaf" })[]): TrieChild | undefined => {
    const [first] = leaves;
    if (first === undefined || leaves.length === 1) return first;
    const children: Children = noChildren();
    for (const [nibble, group] of groupsOf(leaves, depth)) children[nibble] = build(depth + 1, group);
    writes.push([nodeKey(first.path, depth), encodeNode(children)]);
    return { kind: "branch", hash: branchHash(children) };
  };

  const apply = (depth: number, at: TrieChild | undefined, list: readonly LeafChange[]): TrieChild | undefined => {
    const [first] = list;
    if (first === undefined) return at;
    if (at?.kind !== "branch") {
      const leaves = list.flatMap((change) =>
        change.hash === undefined ? [] : [{ kind: "leaf" as const, path: change.path, hash: change.hash }],
      );
      if (at !== undefined && !list.some((change) => change.path.equals(at.path))) {
        const before = leaves.findIndex((leaf) => Buffer.compare(leaf.path, at.path) > 0);
        leaves.splice(before === -1 ? leaves.length : before, 0, at);
      }
      return build(depth, leaves);
    }
    if (depth >= MAX_DEPTH) throw damaged("a node of the app hash");
    const key = nodeKey(first.path, depth);
    const children = readNode(nodes, key, at.hash);
    for (const [nibble, group] of groupsOf(list, depth)) children[nibble] = apply(depth + 1, children[nibble], group);
    const left = children.filter((child) => child !== undefined);
    const [only] = left;
    if (left.length === 0 || (left.length === 1 && only?.kind === "leaf")) {
      writes.push([key, undefined]);
      return only;
    }
    const own = branchHash(children);
    if (!own.equals(at.hash)) writes.push([key, encodeNode(children)]);
    return { kind: "branch", hash: own };
  };

  return { root: apply(0, root, sorted), writes };
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
