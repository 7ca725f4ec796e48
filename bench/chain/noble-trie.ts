import { sha256 } from "@noble/hashes/sha2.js";

interface Inner {
  left: Node;
  right: Node;
  digest: Uint8Array | undefined;
}
type Node = Inner | { readonly path: Uint8Array; readonly digest: Uint8Array } | undefined;

const EMPTY = new Uint8Array(48);
const bit = (path: Uint8Array, depth: number): number => ((path[depth >> 3] ?? 0) >> (7 - (depth & 7))) & 1;

function digestOf(preimage: Uint8Array): Uint8Array {
  const digest = new Uint8Array(48);
  digest.set(sha256(preimage));
  digest.set(preimage.subarray(-16), 32);
  return digest;
}

/** The relay protocol's sum trie as one would write it first: a plain binary trie of objects over `@noble/hashes`. */
export class NobleTrie {
  #root: Node;

  insert(key: Uint8Array, value: Uint8Array, weight: bigint): void {
    const path = sha256(key);
    const preimage = new Uint8Array(33 + value.length + 16);
    preimage.set(path, 1);
    preimage.set(value, 33);
    const view = new DataView(preimage.buffer);
    view.setBigUint64(33 + value.length, weight);
    view.setBigUint64(41 + value.length, 1n);
    this.#root = this.#put(this.#root, { path, digest: digestOf(preimage) }, 0);
  }

  root(): Uint8Array {
    return this.#digest(this.#root);
  }

  #put(node: Node, leaf: { readonly path: Uint8Array; readonly digest: Uint8Array }, depth: number): Node {
    if (node === undefined) return leaf;
    let inner: Inner;
    if ("path" in node) {
      if (Buffer.compare(node.path, leaf.path) === 0) return leaf;
      inner = { left: undefined, right: undefined, digest: undefined };
      if (bit(node.path, depth) === 0) inner.left = node;
      else inner.right = node;
    } else inner = node;
    inner.digest = undefined;
    if (bit(leaf.path, depth) === 0) inner.left = this.#put(inner.left, leaf, depth + 1);
    else inner.right = this.#put(inner.right, leaf, depth + 1);
    return inner;
  }

  #digest(node: Node): Uint8Array {
    if (node === undefined) return EMPTY;
    if ("path" in node) return node.digest;
    if (node.digest !== undefined) return node.digest;
    const preimage = new Uint8Array(113);
    const left = this.#digest(node.left);
    const right = this.#digest(node.right);
    preimage[0] = 1;
    preimage.set(left, 1);
    preimage.set(right, 49);
    const view = new DataView(preimage.buffer);
    for (const at of [0, 8]) {
      const sum = new DataView(left.buffer).getBigUint64(32 + at) + new DataView(right.buffer).getBigUint64(32 + at);
      view.setBigUint64(97 + at, BigInt.asUintN(64, sum));
    }
    node.digest = digestOf(preimage);
    return node.digest;
  }
}
