import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { suite, test } from "node:test";
import { bytesToHex, concatBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import type { Secp256k1 } from "../backend.ts";
import { privateKeyFromSecret } from "../cosmos/signatures.ts";
import { loadNative } from "../native.ts";
import { pure } from "../pure.ts";
import { bytesToNumber, numberToBytes32, ORDER } from "../scalars.ts";
import { finishAttempt, prepareAttempt, type RingModules, type SigningRing, signingRing } from "./attempt.ts";
import { hashToScalar } from "./challenge.ts";
import { decodeRingSignature, encodeRingSignature } from "./codec.ts";
import { canonicalRing, PLACEHOLDER_RING_KEY } from "./placeholder.ts";
import { compressPoint, hashToPoint } from "./points.ts";
import { Rings } from "./rings.ts";

interface Vectors {
  readonly hashToScalar: readonly { In: string; Out: string; Short: boolean }[];
  readonly placeholder: { priv: string; pub: string };
  readonly signatures: readonly {
    Privs: string[];
    Pubs: string[];
    Signer: number;
    Msg: string;
    RandSeed: string;
    Sig: string;
    Verify: boolean;
  }[];
}

const vectors = readVectors<Vectors>("ring.json");
const recorded = readVectors<{ signatures: { digest: string; signature: string }[] }>("ring-recorded.json");
const native = loadNative();
assert.ok(native);

/** The stream of the vectors: SHA-256 of the seed and a counter. */
function stream(seed: Uint8Array): (length: number) => Uint8Array {
  let counter = 0n;
  return () => {
    const block = Buffer.alloc(8);
    block.writeBigUInt64BE(counter++);
    return createHash("sha256").update(seed).update(block).digest();
  };
}

function keyOf(index: number): { key: Uint8Array; publicKey: Uint8Array } {
  const key = privateKeyFromSecret(Buffer.from(`ring test ${index}`));
  return { key, publicKey: compressPoint(pure.publicKey(key) ?? new Uint8Array(65)) };
}

function ringOf(ring: readonly Uint8Array[], key: Uint8Array, curve: Secp256k1): SigningRing {
  const pointOf = (member: Uint8Array) => {
    const point = curve.point(member);
    return point && { point, hashed: hashToPoint(curve, member) };
  };
  return signingRing({ members: ring, key, maxMembers: 256 }, { curve, pointOf });
}

/** A signature as the first draws have it, be its challenges short. */
function attemptOnce(ring: SigningRing, message: Uint8Array, modules: RingModules) {
  const attempt = prepareAttempt(ring, modules);
  return attempt && finishAttempt(ring, attempt, message, modules.curve);
}

const digest = createHash("sha256").update("a relay").digest();
const members = [0, 1, 2, 3].map(keyOf);
const keys = members.map(({ publicKey }) => publicKey);
const own = members[1];
assert.ok(own);

for (const curve of [native, pure]) {
  suite(`ring signatures, ${curve.name}`, () => {
    const rings = new Rings({ backend: curve.name });

    test("make the vectors' signatures byte for byte from the vectors' randomness", () => {
      for (const vector of vectors.signatures) {
        const key = bytesOf(vector.Privs[vector.Signer] ?? "");
        const ring = ringOf(vector.Pubs.map(bytesOf), key, curve);
        const made = attemptOnce(ring, bytesOf(vector.Msg), { curve, random: stream(bytesOf(vector.RandSeed)) });
        assert.ok(made);
        const bytes = encodeRingSignature(made);
        assert.equal(bytesToHex(bytes), vector.Sig);
        assert.equal(bytesToHex(rings.keyImage(key)), bytesToHex(ring.compressedImage));
      }
    });

    test("verify all vectors, short challenges among them, and none of another digest", () => {
      for (const { Sig, Msg, Verify } of vectors.signatures) {
        const signature = decodeRingSignature(bytesOf(Sig));
        assert.ok(signature);
        assert.equal(rings.verify(bytesOf(Msg), signature), Verify);
        assert.equal(rings.verify(digest, signature), false);
      }
    });

    test("verify the relays that a running node signed", () => {
      for (const { digest: message, signature } of recorded.signatures) {
        const decoded = decodeRingSignature(bytesOf(signature));
        assert.ok(decoded);
        assert.ok(rings.verify(bytesOf(message), decoded));
      }
    });

    test("hold for every signer, for repeated members, and link by the key image only", () => {
      for (const { key } of members) {
        const bytes = rings.sign(digest, keys, key);
        assert.equal(bytes.length, 69 + 65 * 4);
        const verdict = rings.verifyWithin(digest, bytes, keys);
        assert.ok(verdict.ok);
        assert.deepEqual(Uint8Array.from(verdict.signature.image), rings.keyImage(key));
      }
      const twice = rings.sign(digest, [own.publicKey, own.publicKey], own.key);
      assert.ok(rings.verifyWithin(digest, twice, [own.publicKey]).ok);
      assert.notDeepEqual(rings.keyImage(own.key), rings.keyImage(members[0]?.key ?? own.key));
    });

    test("a changed byte is refused, wherever it is", () => {
      const bytes = rings.sign(digest, keys.slice(0, 2), own.key);
      for (let at = 0; at < bytes.length; at += 3) {
        const bent = Uint8Array.from(bytes);
        bent[at] = (bent[at] ?? 0) ^ 0x10;
        assert.equal(rings.verifyWithin(digest, bent, keys).ok, false, `byte ${at}`);
      }
    });

    test("numbers above the order and bytes behind are the chain's laxness, and refused strictly", () => {
      const ring = canonicalRing(keys);
      const bytes = rings.sign(digest, ring, own.key);
      assert.ok(rings.verifyStrictly(digest, bytes, keys).ok);
      // The other member's response is drawn as 5 and written as 5 + N.
      const draws = [numberToBytes32(1234n), numberToBytes32(5n)];
      const small = new Rings({ backend: curve.name }, { random: () => Uint8Array.from(draws.shift() ?? digest) });
      const pair = canonicalRing(keys.slice(0, 2));
      const raised = Uint8Array.from(small.sign(digest, pair, own.key));
      const at = 69 + 65 * pair.findIndex((key) => bytesToHex(key) !== bytesToHex(own.publicKey));
      assert.equal(bytesToNumber(raised.subarray(at, at + 32)), 5n);
      raised.set(numberToBytes32(5n + ORDER), at);
      assert.ok(rings.verifyWithin(digest, raised, keys).ok);
      assert.deepEqual(rings.verifyStrictly(digest, raised, keys.slice(0, 2)), { ok: false, fault: "not-canonical" });
      const longer = concatBytes(bytes, Uint8Array.of(7));
      assert.ok(rings.verifyWithin(digest, longer, keys).ok);
      assert.deepEqual(rings.verifyStrictly(digest, longer, keys), { ok: false, fault: "not-canonical" });
      const swapped = rings.sign(digest, [...ring].reverse(), own.key);
      assert.ok(rings.verifyWithin(digest, swapped, keys).ok);
      assert.deepEqual(rings.verifyStrictly(digest, swapped, keys), { ok: false, fault: "non-member" });
      assert.deepEqual(rings.verifyStrictly(digest, bytes, keys.slice(1)), { ok: false, fault: "non-member" });
      const bent = Uint8Array.from(bytes);
      bent[5] = (bent[5] ?? 0) ^ 1;
      assert.deepEqual(rings.verifyStrictly(digest, bent, keys), { ok: false, fault: "signature" });
    });

    test("points that cancel out and scalars of zero end in a refusal, as Go spells infinity", () => {
      const bytes = rings.sign(digest, keys.slice(0, 2), own.key);
      for (const [from, to] of [
        [4, 36],
        [69, 101],
        [4, 101],
      ] as const) {
        const bent = Uint8Array.from(bytes);
        bent.fill(0, from, from === 4 && to === 101 ? 36 : to);
        if (to === 101) bent.fill(0, 69, 101);
        assert.deepEqual(rings.verifyWithin(digest, bent, keys), { ok: false, fault: "signature" });
      }
      // A nonce of zero: both sums of the only member are infinity, and the signature holds on the chain.
      const infinity = Uint8Array.of(2, ...new Uint8Array(32));
      const challenge = hashToScalar(concatBytes(digest, infinity, infinity)).scalar;
      const response = numberToBytes32(ORDER - ((bytesToNumber(challenge) * bytesToNumber(own.key)) % ORDER));
      const image = rings.keyImage(own.key);
      assert.ok(rings.verify(digest, { challenge, image, responses: [response], members: [own.publicKey] }));
    });

    test("linear sums agree with the other implementation, at the edges too", () => {
      const other = curve === pure ? native : pure;
      const edge = fc.constantFrom(0n, 1n, 2n, ORDER - 1n, ORDER - 2n);
      const scalar = fc.oneof(edge, fc.bigInt({ min: 0n, max: ORDER - 1n })).map(numberToBytes32);
      const P = curve.point(keys[0] ?? digest);
      const Q = curve.point(keys[1] ?? digest);
      assert.ok(P !== undefined && Q !== undefined);
      const minusP = Uint8Array.from(curve.point(Uint8Array.of(5 - (keys[0]?.[0] ?? 0), ...P.subarray(1, 33))) ?? []);
      fc.assert(
        fc.property(scalar, scalar, (s, c) => {
          assert.deepEqual(hexOf(curve.addBase(s, c, P)), hexOf(other.addBase(s, c, P)));
          assert.deepEqual(hexOf(curve.addPoints(s, P, c, Q)), hexOf(other.addPoints(s, P, c, Q)));
          assert.deepEqual(hexOf(curve.addPoints(s, P, s, minusP)), undefined);
          assert.deepEqual(hexOf(curve.addMultiple(Q, c, P)), hexOf(other.addMultiple(Q, c, P)));
          if (s.some(Boolean) && c.some(Boolean)) {
            assert.deepEqual(hexOf(curve.subtractProduct(s, c, own.key)), hexOf(other.subtractProduct(s, c, own.key)));
            assert.deepEqual(hexOf(curve.multiplySecret(P, s)), hexOf(other.multiplySecret(P, s)));
            assert.deepEqual(hexOf(curve.multiply(P, s)), hexOf(curve.multiplySecret(P, s)));
            assert.deepEqual(hexOf(other.multiply(P, s)), hexOf(curve.multiply(P, s)));
            assert.equal(curve.addMultiple(curve.multiply(P, s), s, minusP), undefined);
          }
        }),
        { numRuns: 40 },
      );
      // c·P + s·G with P = G and s = −c.
      const G = curve.publicKey(numberToBytes32(1n));
      assert.ok(G);
      assert.equal(curve.addBase(numberToBytes32(ORDER - 9n), numberToBytes32(9n), G), undefined);
    });
  });
}

function hexOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : bytesToHex(bytes);
}

test("hash-to-scalar gives the vectors, the short ones left-aligned", () => {
  for (const { In, Out, Short } of vectors.hashToScalar) {
    const { scalar, short } = hashToScalar(bytesOf(In));
    assert.equal(bytesToHex(scalar), Out);
    assert.equal(short, Short);
  }
});

test("the placeholder key is what Cosmos makes of its text", () => {
  const key = privateKeyFromSecret(Buffer.from("placeholder_ring_key_for_apps_without_gateways"));
  assert.equal(bytesToHex(key), vectors.placeholder.priv);
  assert.equal(bytesToHex(compressPoint(pure.publicKey(key) ?? key)), vectors.placeholder.pub);
  assert.equal(bytesToHex(PLACEHOLDER_RING_KEY), vectors.placeholder.pub);
});

test("no signature of ours has a short challenge, although one draw in 128 has", () => {
  const rings = new Rings({}, { random: stream(Buffer.from("grind")) });
  for (let i = 0; i < 300; i++) {
    const message = createHash("sha256").update(String(i)).digest();
    const ring = canonicalRing([own.publicKey]);
    assert.ok(rings.verifyStrictly(message, rings.sign(message, ring, own.key), [own.publicKey]).ok);
  }
});

test("a short challenge of somebody else is fine for the chain and refused strictly", () => {
  const rings = new Rings();
  const found = vectors.signatures
    .map(({ Sig, Msg, Pubs }) => ({ bytes: bytesOf(Sig), message: bytesOf(Msg), pubs: Pubs.map(bytesOf) }))
    .map(({ bytes, message, pubs }) => ({
      lax: rings.verifyWithin(message, bytes, pubs).ok,
      sorted: canonicalRing(pubs).every((key, i) => bytesToHex(key) === bytesToHex(pubs[i] ?? key)),
      strict: rings.verifyStrictly(message, bytes, pubs),
    }));
  assert.ok(found.every(({ lax }) => lax));
  for (const { sorted, strict } of found) {
    if (!sorted) assert.deepEqual(strict, { ok: false, fault: "non-member" });
  }
  // A signature with a short challenge, made without drawing anew.
  const ring = canonicalRing(keys.slice(0, 2));
  const random = stream(Buffer.from("short"));
  for (;;) {
    const made = attemptOnce(ringOf(ring, own.key, native), digest, { curve: native, random });
    if (made?.short !== true) continue;
    const bytes = encodeRingSignature(made);
    assert.ok(rings.verifyWithin(digest, bytes, ring).ok);
    assert.deepEqual(rings.verifyStrictly(digest, bytes, ring), { ok: false, fault: "short-challenge" });
    break;
  }
});

test("a ring of a hundred thousand, of none, or cut off is refused before anything is computed", () => {
  const rings = new Rings();
  const good = rings.sign(digest, keys, own.key);
  const huge = new Uint8Array(69 + 65 * 100_000);
  huge.set(good);
  new DataView(huge.buffer).setUint32(0, 100_000);
  const before = rings.cachedKeys;
  assert.deepEqual(rings.verifyWithin(digest, huge, keys), { ok: false, fault: "malformed" });
  for (const count of [0, 257, 0x7fff_ffff, 0xffff_ffff]) {
    const bent = Uint8Array.from(good);
    new DataView(bent.buffer).setUint32(0, count);
    assert.equal(decodeRingSignature(bent), undefined);
  }
  for (let length = 0; length < good.length; length++) {
    assert.equal(decodeRingSignature(good.subarray(0, length)), undefined);
  }
  assert.equal(rings.cachedKeys, before);
  assert.equal(new Rings({ maxMembers: 3 }).verifyWithin(digest, good, keys).ok, false);
});

test("non-members in the ring are found without a look at the curve, and junk is no point", () => {
  const rings = new Rings();
  const good = rings.sign(digest, keys, own.key);
  const other = new Rings();
  assert.deepEqual(other.verifyWithin(digest, good, keys.slice(0, 3)), { ok: false, fault: "non-member" });
  assert.equal(other.cachedKeys, 0);
  const junk = new Uint8Array(33).fill(9);
  const decoded = decodeRingSignature(good);
  assert.ok(decoded);
  assert.equal(other.verify(digest, { ...decoded, members: [junk, ...decoded.members.slice(1)] }), false);
  assert.equal(other.verify(digest, { ...decoded, image: junk }), false);
  assert.equal(other.verify(digest, { ...decoded, members: [], responses: [] }), false);
  assert.equal(other.verify(digest.subarray(1), decoded), false);
  assert.equal(other.cachedKeys, 0);
});

test("any bytes are read or refused, and what is read is written back", () => {
  const rings = new Rings();
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 0, max: 4 }), (bytes, count) => {
      if (bytes.length >= 4) new DataView(bytes.buffer, bytes.byteOffset).setUint32(0, count);
      const decoded = decodeRingSignature(bytes);
      if (decoded === undefined) return;
      assert.deepEqual(encodeRingSignature(decoded), bytes.slice(0, 69 + 65 * count));
      assert.equal(rings.verify(digest, decoded), false);
    }),
  );
});

test("the cache of points is bounded", () => {
  const rings = new Rings({ maxCachedKeys: 8 });
  for (let i = 0; i < 40; i += 2) rings.sign(digest, [keyOf(i).publicKey, keyOf(i + 1).publicKey], keyOf(i).key);
  assert.ok(rings.cachedKeys <= 8);
});

test("wrong keys and rings are refused in signing", () => {
  const rings = new Rings();
  assert.throws(() => rings.sign(digest, keys.slice(2), own.key), { code: "CONFIG_INVALID" });
  assert.throws(() => rings.sign(digest, keys, new Uint8Array(32)), { code: "CONFIG_INVALID" });
  assert.throws(() => rings.sign(digest, [...keys, new Uint8Array(33)], own.key), { code: "CONFIG_INVALID" });
  assert.throws(() => rings.sign(digest, [own.publicKey], own.key), { code: "INTERNAL" });
  assert.throws(() => rings.sign(digest.subarray(1), keys, own.key), { code: "INTERNAL" });
});

test("a source of zeros never makes a signature", () => {
  const rings = new Rings({}, { random: (length) => new Uint8Array(length) });
  assert.throws(() => rings.sign(digest, keys, own.key), { code: "INTERNAL" });
});

test("the canonical ring is sorted, without repeats, and never of one", () => {
  const ring = canonicalRing([...keys, ...keys]);
  assert.equal(ring.length, 4);
  assert.deepEqual(
    ring,
    [...ring].sort((a, b) => Buffer.compare(a, b)),
  );
  assert.deepEqual(canonicalRing([own.publicKey]), [own.publicKey, own.publicKey]);
});
