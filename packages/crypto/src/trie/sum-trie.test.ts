import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { bytesToHex, concatBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { slowRoot } from "../../test/trie/slow-trie.ts";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import { closestValue, closestWeight } from "./closest-proof.ts";
import { decodeClosestProof } from "./gob-proof.ts";
import { encodeClosestProof } from "./gob-writer.ts";
import { SumTrie } from "./sum-trie.ts";
import { isClosest, verifyClosestProof } from "./verify.ts";

interface TrieVector {
  readonly n: number;
  readonly root: string;
  readonly proofs: readonly {
    path: string;
    closestPath: string;
    depth: number;
    flippedBits: number[];
    valueHash: string;
    gob: string;
    ok: boolean;
  }[];
}

const vectors = readVectors<TrieVector[]>("smst.json");
const sha = (data: string | Uint8Array): Buffer => createHash("sha256").update(data).digest();

function vectorTrie(n: number): SumTrie {
  const trie = new SumTrie();
  for (let i = 0; i < n; i++) {
    const value = Buffer.from(`relay-${n}-${i};`.repeat(1 + (i % 40)));
    trie.insert(sha(value), value, 3n);
  }
  return trie;
}

const leaf = fc.record({
  key: fc.oneof(fc.uint8Array({ maxLength: 2 }), fc.uint8Array({ minLength: 32, maxLength: 32 })),
  value: fc.uint8Array({ maxLength: 20 }),
  weight: fc.oneof(fc.bigInt({ min: 0n, max: 1000n }), fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })),
});

test("roots and closest proofs are those of the vectors, to the byte of their gob", () => {
  for (const { n, root, proofs } of vectors) {
    const trie = vectorTrie(n);
    assert.equal(bytesToHex(trie.root()), root);
    assert.equal(trie.sum, BigInt(n) * 3n);
    for (const vector of proofs) {
      const proof = trie.proveClosest(bytesOf(vector.path));
      assert.equal(bytesToHex(encodeClosestProof(proof)), vector.gob);
      assert.equal(bytesToHex(proof.closestPath), vector.closestPath);
      const decoded = decodeClosestProof(bytesOf(vector.gob));
      assert.ok(decoded);
      assert.deepEqual(plain(decoded), plain(proof));
      assert.deepEqual(verifyClosestProof(decoded, bytesOf(root)), { ok: true });
      assert.ok(isClosest(decoded));
      assert.equal(closestWeight(decoded), 3n);
    }
  }
});

test("proofs that a running node took hold under the claims' roots", () => {
  const { proofs } = readVectors<{
    proofs: { root: string; proof: string; sessionId: string; pathBlockHash: string }[];
  }>("closest-proof-recorded.json");
  for (const { root, proof, sessionId, pathBlockHash } of proofs) {
    const decoded = decodeClosestProof(bytesOf(proof));
    assert.ok(decoded);
    assert.deepEqual(verifyClosestProof(decoded, bytesOf(root)), { ok: true });
    assert.ok(isClosest(decoded));
    assert.equal(
      bytesToHex(decoded.path),
      bytesToHex(sha(concatBytes(bytesOf(pathBlockHash), Buffer.from(sessionId)))),
    );
    // That node's types have other numbers: from the path on the bytes are ours.
    const fromPath = (hex: string): string => hex.slice(hex.indexOf(bytesToHex(decoded.path)));
    assert.equal(fromPath(bytesToHex(encodeClosestProof(decoded))), fromPath(proof));
    const value = closestValue(decoded);
    assert.ok(value);
    assert.equal(bytesToHex(sha(sha(value))), bytesToHex(decoded.closestPath));
  }
});

test("roots equal those of a slow trie made of the definition, after every insert", () => {
  fc.assert(
    fc.property(fc.array(leaf, { maxLength: 40 }), (leaves) => {
      const trie = new SumTrie();
      leaves.forEach(({ key, value, weight }, i) => {
        trie.insert(key, value, weight);
        if (i % 3 === 0) assert.deepEqual(Buffer.from(trie.root()), slowRoot(leaves.slice(0, i + 1)));
      });
      assert.deepEqual(Buffer.from(trie.root()), slowRoot(leaves));
    }),
  );
});

test("the order of inserts, and roots asked for between them, change nothing", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(leaf, { selector: ({ key }) => bytesToHex(key), maxLength: 60 }),
      fc.infiniteStream(fc.nat()),
      (leaves, numbers) => {
        const forwards = new SumTrie();
        for (const { key, value, weight } of leaves) forwards.insert(key, value, weight);
        const shuffled = leaves
          .map((item) => ({ item, by: numbers.next().value ?? 0 }))
          .sort((a, b) => a.by - b.by)
          .map(({ item }) => item);
        const other = new SumTrie();
        for (const { key, value, weight } of shuffled) {
          // A wrong value first: the last one counts.
          other.insert(key, Uint8Array.of(1), 1n);
          other.root();
          other.insert(key, value, weight);
        }
        assert.deepEqual(other.root(), forwards.root());
        assert.equal(other.size, leaves.length);
        for (const { key, value, weight } of leaves)
          assert.deepEqual(plainLeaf(other.get(key)), { value: [...value], weight });
      },
    ),
    { numRuns: 50 },
  );
});

test("every closest proof holds, survives its encoding, and shows the leaf that the path leads to", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(leaf, { selector: ({ key }) => bytesToHex(key), maxLength: 30 }),
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      (leaves, path) => {
        const trie = new SumTrie();
        for (const { key, value, weight } of leaves) trie.insert(key, value, weight);
        const proof = trie.proveClosest(path);
        const decoded = decodeClosestProof(encodeClosestProof(proof));
        assert.ok(decoded);
        assert.deepEqual(plain(decoded), plain(proof));
        // A value of no bytes and no weight looks to Go as if it were not there.
        const nothing = closestValue(proof)?.length === 0 && closestWeight(proof) === 0n;
        assert.equal(verifyClosestProof(decoded, trie.root()).ok, !nothing || leaves.length === 0);
        assert.ok(isClosest(decoded));
        if (leaves.length === 0) return;
        const paths = leaves.map(({ key }) => sha(key));
        assert.equal(bytesToHex(decoded.closestPath), bytesToHex(closestByDefinition(paths, path)));
      },
    ),
  );
});

// Follows the path bit by bit among the paths that are left; where none is on its side, the other side is taken.
function closestByDefinition(paths: readonly Buffer[], path: Uint8Array): Buffer {
  let left = paths;
  const bitOf = (bytes: Uint8Array, i: number): number => ((bytes[i >> 3] ?? 0) >> (7 - (i & 7))) & 1;
  for (let i = 0; left.length > 1; i++) {
    const same = left.filter((other) => bitOf(other, i) === bitOf(path, i));
    if (same.length > 0) left = same;
  }
  return left[0] ?? Buffer.alloc(0);
}

function plainLeaf(found: { value: Uint8Array; weight: bigint } | undefined): unknown {
  return found === undefined ? undefined : { value: [...found.value], weight: found.weight };
}

function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_, item: unknown) => (item instanceof Uint8Array ? bytesToHex(item) : item)),
    (_, item: unknown) =>
      typeof item === "object" && item !== null && "type" in item && "data" in item
        ? bytesToHex(Uint8Array.from(item.data as number[]))
        : item,
  );
}

test("values may be kept elsewhere, and one that is lost or changed is found out", () => {
  const log = new Map<string, Uint8Array>();
  const trie = new SumTrie({}, { values: { get: (key) => log.get(bytesToHex(key)) } });
  const whole = new SumTrie();
  for (let i = 0; i < 50; i++) {
    const key = sha(`k${i}`);
    const value = Buffer.from(`value ${i}`);
    log.set(bytesToHex(key), value);
    trie.insert(key, value, BigInt(i));
    whole.insert(key, value, BigInt(i));
  }
  const path = sha("somewhere");
  assert.deepEqual(trie.root(), whole.root());
  assert.deepEqual(encodeClosestProof(trie.proveClosest(path)), encodeClosestProof(whole.proveClosest(path)));
  assert.deepEqual(plainLeaf(trie.get(sha("k7"))), plainLeaf(whole.get(sha("k7"))));
  for (const [key, value] of log) log.set(key, concatBytes(value, Uint8Array.of(0)));
  assert.throws(() => trie.proveClosest(path), { code: "INTERNAL" });
  log.clear();
  assert.throws(() => trie.proveClosest(path), { code: "INTERNAL" });
});

test("a root is a copy, a trie has its most leaves, and weights have 64 bits", () => {
  const trie = new SumTrie({ maxLeaves: 20 });
  assert.deepEqual(trie.root(), new Uint8Array(48));
  for (let i = 0; i < 20; i++) assert.ok(trie.insert(sha(`${i}`), Buffer.from("v"), 1n));
  const root = trie.root();
  root.fill(0);
  assert.notDeepEqual(trie.root(), root);
  assert.throws(() => trie.insert(sha("20"), Buffer.from("v"), 1n), { code: "OVERLOADED" });
  assert.equal(trie.insert(sha("3"), Buffer.from("w"), 5n), false);
  assert.equal(trie.sum, 24n);
  for (const weight of [-1n, 1n << 64n]) {
    assert.throws(() => trie.insert(sha("3"), Buffer.from("w"), weight), { code: "INTERNAL" });
  }
  assert.throws(() => trie.proveClosest(new Uint8Array(31)), { code: "INTERNAL" });
});

test("digests may be computed in steps, with the same root", () => {
  const make = (): SumTrie => {
    const trie = new SumTrie();
    for (let i = 0; i < 500; i++) trie.insert(Buffer.from(`key ${i}`), Buffer.from(`value ${i}`), 7n);
    return trie;
  };
  const stepped = make();
  let steps = 1;
  while (!stepped.digestSome(50)) steps++;
  assert.ok(steps > 5 && steps < 40, `${steps} steps`);
  stepped.insert(Buffer.from("one more"), Buffer.from("value"), 7n);
  assert.equal(stepped.digestSome(5), false);
  const whole = make();
  whole.insert(Buffer.from("one more"), Buffer.from("value"), 7n);
  assert.deepEqual(stepped.root(), whole.root());
  assert.equal(stepped.digestSome(1), true);
});

test("a key is known to be there without its value", () => {
  const trie = new SumTrie({}, { values: { get: () => assert.fail("no value is wanted") } });
  assert.equal(trie.has(Buffer.from("a")), false);
  trie.insert(Buffer.from("a"), Buffer.from("value"), 1n);
  assert.deepEqual([trie.has(Buffer.from("a")), trie.has(Buffer.from("b"))], [true, false]);
});

test("with values elsewhere keys of any length are kept", () => {
  const log = new Map<string, Uint8Array>();
  const trie = new SumTrie({}, { values: { get: (key) => log.get(bytesToHex(key)) } });
  const plain = new SumTrie();
  for (let i = 0; i < 100; i++) {
    const key = Buffer.alloc(1 + (i % 5) * 8, i);
    const value = Uint8Array.from(Buffer.from(`value ${i}`));
    log.set(bytesToHex(key), value);
    for (const one of [trie, plain]) one.insert(key, value, BigInt(i));
  }
  for (let i = 0; i < 100; i++) {
    const key = Buffer.alloc(1 + (i % 5) * 8, i);
    const shown = [trie, plain].map((one) => {
      const found = one.get(key);
      return [bytesToHex(found?.value ?? new Uint8Array(0)), found?.weight];
    });
    assert.deepEqual(shown[0], shown[1]);
  }
  assert.deepEqual(trie.root(), plain.root());
});
