import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import {
  type CompactClosestProof,
  decodeClosestProof,
  encodeClosestProof,
  isClosest,
  SumTrie,
  verifyClosestProof,
} from "@turnpike/crypto";
import { buildGo, type GoProgram, withoutGo } from "./go-programs.ts";

interface Leaf {
  readonly key: string;
  readonly value: string;
  readonly weight: string;
}

interface Answer {
  readonly tries: readonly { readonly root: string; readonly proofs: readonly string[] }[];
  readonly verify: readonly { readonly read: boolean; readonly ok: boolean }[];
}

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));
const sha = (text: string): Buffer => createHash("sha256").update(text).digest();

const fromPath = (proof: string, path: string): string => proof.slice(proof.indexOf(path));

function leavesOf(count: number, weight: (i: number) => bigint): readonly Leaf[] {
  return Array.from({ length: count }, (_, i) => ({
    key: bytesToHex(sha(`${count} ${i % (count - (i % 7 === 6 ? 1 : 0))}`)),
    value: bytesToHex(Buffer.from(`relay ${i} `.repeat(i % 30))),
    weight: String(weight(i)),
  }));
}

const TRIES = [
  { count: 1, weight: () => 5n },
  { count: 2, weight: () => 0n },
  { count: 3, weight: (i: number) => BigInt(i) },
  { count: 17, weight: () => (1n << 64n) - 1n },
  { count: 200, weight: (i: number) => BigInt(i) },
  { count: 3000, weight: () => 1n },
].map(({ count, weight }) => ({
  leaves: leavesOf(count, weight),
  paths: Array.from({ length: 40 }, (_, i) => bytesToHex(sha(`path ${count} ${i}`))),
}));

function build(leaves: readonly Leaf[]): SumTrie {
  const trie = new SumTrie();
  for (const { key, value, weight } of leaves) trie.insert(bytesOf(key), bytesOf(value), BigInt(weight));
  return trie;
}

suite("sum tries with smt", { skip: withoutGo, timeout: 400_000 }, () => {
  let go: GoProgram;
  before(() => {
    go = buildGo("trie");
  });
  after(() => go[Symbol.dispose]());

  test("both make the same roots and, byte for byte, the same proofs of the closest leaf", async () => {
    const empty = { leaves: [], paths: [bytesToHex(sha("nothing"))] };
    const asked = [...TRIES, empty];
    const { tries } = await go.ask<Answer>({ tries: asked });
    const verify: { root: string; proof: string }[] = [];
    tries.forEach(({ root, proofs }, i) => {
      const { leaves, paths } = asked[i] ?? empty;
      const trie = build(leaves);
      assert.equal(bytesToHex(trie.root()), root);
      paths.forEach((path, k) => {
        const proof = encodeClosestProof(trie.proveClosest(bytesOf(path)));
        // A process of Go numbers its types in the order of their first use: the rest is the same.
        assert.equal(fromPath(bytesToHex(proof), path), fromPath(proofs[k] ?? "", path));
        const decoded = decodeClosestProof(bytesOf(proofs[k] ?? ""));
        assert.ok(decoded && isClosest(decoded));
        verify.push({ root, proof: bytesToHex(proof) });
      });
    });
    const told = await go.ask<Answer>({ verify });
    verify.forEach(({ root, proof }, i) => {
      const decoded = decodeClosestProof(bytesOf(proof));
      assert.ok(decoded);
      assert.equal(verifyClosestProof(decoded, bytesOf(root)).ok, told.verify[i]?.ok);
    });
    assert.ok(told.verify.filter(({ ok }) => ok).length > 200);
  });

  test("both say the same of hostile proofs: bent fields, bent bytes and strange streams", async () => {
    const { leaves, paths } = TRIES[4] ?? { leaves: [], paths: [] };
    const trie = build(leaves);
    const root = bytesToHex(trie.root());
    const asked: { root: string; proof: string }[] = [];
    for (const path of paths.slice(0, 8)) {
      const proof = trie.proveClosest(bytesOf(path));
      for (const changed of hostile(proof)) asked.push({ root, proof: bytesToHex(encodeClosestProof(changed)) });
      const good = encodeClosestProof(proof);
      for (let i = 0; i < 250; i++) {
        const bent = Uint8Array.from(good);
        const at = (i * 7919 + path.charCodeAt(0) * 31) % bent.length;
        bent[at] = (bent[at] ?? 0) ^ (1 << (i % 8));
        asked.push({ root, proof: bytesToHex(bent) });
      }
    }
    const streams = JSON.parse(readFileSync(new URL("../spec/crypto/gob-hostile.json", import.meta.url), "utf8")) as {
      gob: string;
      name: string;
      go?: boolean;
      ok: boolean;
    }[];
    const { verify } = await go.ask<Answer>({
      verify: [...asked, ...streams.map(({ gob }) => ({ root, proof: gob }))],
    });
    for (const [i, { proof }] of asked.entries()) {
      const decoded = decodeClosestProof(bytesOf(proof));
      const said = {
        read: decoded !== undefined,
        ok: decoded !== undefined && verifyClosestProof(decoded, bytesOf(root)).ok,
      };
      assert.deepEqual(said, verify[i], `proof ${i}: ${proof}`);
    }
    streams.forEach(({ name, go: theirs, ok }, i) => {
      assert.equal(verify[asked.length + i]?.read, theirs ?? ok, name);
      assert.equal(decodeClosestProof(bytesOf(streams[i]?.gob ?? "")) !== undefined, ok, name);
    });
  });
});

function* hostile(proof: CompactClosestProof): Generator<CompactClosestProof> {
  const inner = proof.closestProof;
  assert.ok(inner);
  const node = inner.sideNodes[0] ?? new Uint8Array(48);
  const withInner = (changed: Partial<typeof inner>): CompactClosestProof => ({
    ...proof,
    closestProof: { ...inner, ...changed },
  });
  const bare = { siblingData: undefined };
  yield proof;
  for (const path of [new Uint8Array(0), proof.path.subarray(1), Buffer.concat([proof.path, proof.path])]) {
    yield { ...proof, path };
    yield { ...proof, closestPath: path };
  }
  yield { ...proof, closestPath: Buffer.concat([proof.closestPath, proof.path]) };
  for (const depth of [[], [0], [1], [255], [1, 0], [1, 1], [0, 0, 1], [0, 3]]) {
    yield { ...proof, depth: Uint8Array.from(depth) };
    yield { ...proof, depth: Uint8Array.from(depth), flippedBits: [] };
    yield { ...proof, flippedBits: [...proof.flippedBits, Uint8Array.from(depth)] };
    yield { ...proof, flippedBits: [Uint8Array.from(depth), Uint8Array.from(depth), ...proof.flippedBits] };
  }
  for (const length of [0, 1, 15, 16, 17, 40]) {
    yield { ...proof, closestValueHash: new Uint8Array(length) };
    yield { ...proof, closestValueHash: new Uint8Array(length).fill(1) };
    yield withInner({ nonMembershipLeafData: new Uint8Array(length) });
    yield { ...withInner({ nonMembershipLeafData: new Uint8Array(length) }), closestValueHash: undefined };
  }
  yield { ...proof, closestProof: undefined };
  for (const numSideNodes of [0, 1, inner.numSideNodes + 1, 256, 257, 65_536])
    yield withInner({ numSideNodes, ...bare });
  yield withInner({ numSideNodes: 0, bitMask: new Uint8Array(0), ...bare });
  yield withInner({ numSideNodes: 256, bitMask: new Uint8Array(32), sideNodes: Array<Uint8Array>(256).fill(node) });
  yield withInner({ bitMask: inner.bitMask.map((byte) => byte ^ 0xff), ...bare });
  yield withInner({ bitMask: new Uint8Array(40) });
  for (const bit of [1, 128]) {
    yield withInner({ bitMask: inner.bitMask.map((byte) => byte | bit), sideNodes: inner.sideNodes.slice(1) });
  }
  for (const sideNodes of [
    inner.sideNodes.map((side) => Buffer.concat([side, side])),
    inner.sideNodes.map((side) => side.subarray(1)),
    inner.sideNodes.map(() => new Uint8Array(0)),
    inner.sideNodes.slice(1),
    [...inner.sideNodes, node],
  ]) {
    yield withInner({ sideNodes });
    yield withInner({ sideNodes, ...bare });
  }
  for (const length of [1, 2, 3, 15, 16, 34, 35, 36, 50, 51, 52, 66, 67, 98, 99, 100, 115]) {
    for (const first of [0, 1, 2, 3]) {
      yield withInner({ siblingData: Uint8Array.from({ length }, (_, i) => (i === 0 ? first : i)) });
    }
  }
  // Ways of one child with children of any length: the side node is made to fit.
  for (const childLength of [0, 15, 16, 20, 48, 60]) {
    const child = new Uint8Array(childLength).fill(5);
    const way = Buffer.concat([Buffer.of(2, 3, 4), proof.path, child, Buffer.alloc(16)]);
    const empty = new Uint8Array(48);
    const right = ((proof.path[0] ?? 0) >> 4) & 1;
    const tail = childLength < 16 ? new Uint8Array(16) : child.subarray(childLength - 16);
    const preimage = Buffer.concat([Buffer.of(1), ...(right === 1 ? [empty, child] : [child, empty]), tail]);
    const digest = Buffer.concat([createHash("sha256").update(preimage).digest(), tail]);
    yield withInner({ siblingData: way, sideNodes: [digest, ...inner.sideNodes.slice(1)] });
  }
}
