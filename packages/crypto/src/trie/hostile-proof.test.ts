import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import type { CompactClosestProof } from "./closest-proof.ts";
import { decodeClosestProof } from "./gob-proof.ts";
import { encodeClosestProof } from "./gob-writer.ts";
import { SumTrie } from "./sum-trie.ts";
import { isClosest, verifyClosestProof } from "./verify.ts";

const trie = new SumTrie();
for (let i = 0; i < 200; i++) {
  const key = createHash("sha256").update(`${i}`).digest();
  trie.insert(key, Buffer.from(`relay ${i}`), 7n);
}
const root = trie.root();
const path = createHash("sha256").update("path").digest();
const proof = trie.proveClosest(path);
const inner = proof.closestProof;
assert.ok(inner);

const holds = (changed: Partial<CompactClosestProof>): string => {
  const verdict = verifyClosestProof({ ...proof, ...changed }, root);
  return verdict.ok ? "ok" : verdict.fault;
};

test("each bound of Go's is a bound here, and what stops Go with a fault is refused", () => {
  assert.equal(holds({}), "ok");
  assert.equal(holds({ path: path.subarray(1) }), "path");
  assert.equal(holds({ depth: Uint8Array.of(1, 1) }), "depth");
  assert.equal(holds({ depth: new Uint8Array(3) }), "depth");
  assert.equal(holds({ flippedBits: [Uint8Array.of(250)] }), "flipped-bits");
  assert.equal(holds({ flippedBits: [new Uint8Array(3)] }), "flipped-bits");
  assert.equal(holds({ depth: Uint8Array.of(1, 0), flippedBits: [Uint8Array.of(1, 0)] }), "flipped-bits");
  assert.equal(holds({ closestPath: proof.closestPath.subarray(1) }), "closest-path");
  assert.equal(holds({ closestPath: new Uint8Array(0) }), "closest-path");
  assert.equal(holds({ closestValueHash: new Uint8Array(15) }), "value");
  assert.equal(holds({ closestValueHash: undefined }), "root");
  assert.equal(holds({ closestProof: undefined }), "side-nodes");
  for (const numSideNodes of [-1, 257, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER]) {
    assert.equal(holds({ closestProof: { ...inner, numSideNodes } }), "side-nodes");
  }
  assert.equal(holds({ closestProof: { ...inner, bitMask: new Uint8Array(40) } }), "side-nodes");
  assert.equal(holds({ closestProof: { ...inner, sideNodes: inner.sideNodes.slice(1) } }), "side-nodes");
  const behind = Uint8Array.from(inner.bitMask);
  behind[behind.length - 1] = (behind[behind.length - 1] ?? 0) | 1;
  const mask = { ...inner, bitMask: behind, sideNodes: inner.sideNodes.slice(1) };
  assert.equal(holds({ closestProof: mask }), "side-nodes");
  for (const length of [0, 1, 2, 15, 16, 34, 35, 50, 51, 98, 99]) {
    for (const first of [0, 1, 2, 9]) {
      const siblingData = new Uint8Array(length).fill(first, 0, 1);
      assert.equal(holds({ closestProof: { ...inner, siblingData } }), "sibling");
    }
  }
  assert.equal(holds({ closestProof: { ...inner, nonMembershipLeafData: new Uint8Array(32) } }), "leaf");
});

test("the chain's laxness is ours: padded side nodes without a sibling, a longer path, no sibling at all", () => {
  const bare = { ...inner, siblingData: undefined };
  assert.equal(holds({ closestProof: bare }), "ok");
  const longer = inner.sideNodes.map((node) => concatBytes(node, Uint8Array.of(9)));
  assert.equal(holds({ closestProof: { ...bare, sideNodes: longer } }), "ok");
  assert.equal(holds({ closestProof: { ...inner, sideNodes: longer } }), "sibling");
  assert.equal(holds({ closestPath: concatBytes(proof.closestPath, Uint8Array.of(1)) }), "ok");
});

test("a proof of another leaf than the closest passes the chain's check, and is seen by isClosest", () => {
  const far = trie.proveClosest(path.map((byte) => byte ^ 0xff));
  const forged = { ...far, path, flippedBits: [], depth: Uint8Array.of(0) };
  assert.deepEqual(verifyClosestProof(forged, root), { ok: true });
  assert.equal(isClosest(forged), false);
  assert.ok(isClosest(proof));
});

test("sums that wrap at 2^64 are the chain's, and a changed sum changes the hash", () => {
  const wrapping = new SumTrie();
  wrapping.insert(Uint8Array.of(1), Uint8Array.of(1), (1n << 64n) - 1n);
  wrapping.insert(Uint8Array.of(2), Uint8Array.of(1), 3n);
  assert.equal(wrapping.sum, 2n);
  assert.ok(verifyClosestProof(wrapping.proveClosest(path), wrapping.root()).ok);
  const raised = Uint8Array.from(root);
  raised[39] = (raised[39] ?? 0) + 1;
  assert.equal(verifyClosestProof(proof, raised).ok, false);
});

test("no bent byte of a proof makes the reader or the check fail, or passes for the same proof", () => {
  const good = encodeClosestProof(proof);
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }), (bends) => {
      const bent = Uint8Array.from(good);
      for (const [at, byte] of bends) bent[at] = byte;
      const decoded = decodeClosestProof(bent);
      if (decoded !== undefined) verifyClosestProof(decoded, root);
    }),
    { numRuns: 3000 },
  );
  for (let length = 0; length < good.length; length++) {
    const decoded = decodeClosestProof(good.subarray(0, length));
    assert.equal(decoded, undefined, `${length} bytes`);
  }
});

test("junk is refused, and what is too long", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      assert.equal(decodeClosestProof(bytes), undefined);
    }),
  );
  assert.equal(decodeClosestProof(encodeClosestProof(proof), 100), undefined);
});

test("lists that claim more than there is are refused before anything is made", () => {
  const good = encodeClosestProof({ ...proof, flippedBits: [] });
  // The prefix, the message's length and type, the path, then FlippedBits with 2^32 items.
  const claim = Uint8Array.of(1, 0xfc, 0xff, 0xff, 0xff, 0xff, 0, 0);
  const head = good.subarray(0, 287);
  const value = concatBytes(Uint8Array.of(0xff, 0x82, 1, 32), path, claim);
  assert.equal(decodeClosestProof(concatBytes(head, Uint8Array.of(value.length), value)), undefined);
});

test("bytes behind the value are ignored, other type numbers and unknown fields are read", () => {
  const good = encodeClosestProof(proof);
  assert.ok(decodeClosestProof(concatBytes(good, Uint8Array.of(1, 2, 3))));
  for (const { gob, ok, name } of readVectors<{ gob: string; ok: boolean; name: string }[]>("gob-hostile.json")) {
    const decoded = decodeClosestProof(bytesOf(gob));
    assert.equal(decoded !== undefined, ok, name);
  }
});
