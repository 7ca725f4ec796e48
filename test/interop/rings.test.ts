import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { canonicalRing, cosmosPublicKey, decodeRingSignature, privateKeyFromSecret, Rings } from "@turnpike/crypto";
import { buildGo, type GoProgram, hasC, withoutGo } from "./go-programs.ts";

interface Answer {
  readonly verify: readonly boolean[];
  readonly sign: readonly string[];
}

const SIGNATURES = 2_000;
const THEIRS = 500;
const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));
const digestOf = (i: number): Uint8Array => createHash("sha256").update(`digest ${i}`).digest();
const secrets = Array.from({ length: 8 }, (_, i) => privateKeyFromSecret(Buffer.from(`interop ${i}`)));
const keys = secrets.map(cosmosPublicKey);

/** The ring of a signature: of two mostly, of up to eight, and of one key twice. */
function ringOf(i: number): readonly Uint8Array[] {
  const own = keys[i % 8] ?? new Uint8Array(33);
  if (i % 20 === 7) return [own, own];
  if (i % 20 === 8) return canonicalRing([own]);
  const size = i % 20 === 9 ? 3 + (i % 6) : 2;
  return Array.from({ length: size }, (_, k) => keys[(i + k) % 8] ?? own);
}

suite("ring signatures with ring-go", { skip: withoutGo, timeout: 400_000 }, () => {
  let go: GoProgram;
  const rings = new Rings();
  const ours: { digest: string; signature: string }[] = [];

  before(() => {
    go = buildGo("ring");
    for (let i = 0; i < SIGNATURES; i++) {
      const signature = rings.sign(digestOf(i), ringOf(i), secrets[i % 8] ?? new Uint8Array(32));
      ours.push({ digest: bytesToHex(digestOf(i)), signature: bytesToHex(signature) });
    }
  });
  after(() => go[Symbol.dispose]());

  test(`the network's curve library verifies ${SIGNATURES} of ours`, async () => {
    const { verify } = await go.ask<Answer>({ verify: ours });
    assert.equal(verify.length, SIGNATURES);
    assert.ok(verify.every(Boolean));
  });

  test("its other curve library, which disagrees on short challenges, verifies them too", {
    skip: hasC ? false : "no C compiler is installed",
  }, async () => {
    using other = buildGo("ring", { tags: "ethereum_secp256k1", cgo: true });
    const { verify } = await other.ask<Answer>({ verify: ours });
    assert.ok(verify.length === SIGNATURES && verify.every(Boolean));
  });

  test(`we verify ${THEIRS} of theirs, short challenges among them`, async () => {
    const sign = Array.from({ length: THEIRS }, (_, i) => ({
      digest: bytesToHex(digestOf(i)),
      key: bytesToHex(secrets[i % 8] ?? new Uint8Array(32)),
      members: ringOf(i).map(bytesToHex),
    }));
    const { sign: made } = await go.ask<Answer>({ sign });
    assert.equal(made.length, THEIRS);
    made.forEach((signature, i) => {
      const verdict = rings.verifyWithin(digestOf(i), bytesOf(signature), ringOf(i));
      assert.ok(verdict.ok, `signature ${i}`);
      assert.equal(bytesToHex(verdict.signature.image), bytesToHex(rings.keyImage(secrets[i % 8] ?? bytesOf(""))));
    });
  });

  test("both say the same of bent, cut, lengthened and zeroed signatures", async () => {
    const bent: { digest: string; signature: string }[] = [];
    for (const [i, { digest, signature }] of ours.slice(0, 60).entries()) {
      for (const at of [3, 5, 40, 70, 101, 105, 137, 150]) {
        const bytes = bytesOf(signature);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << (i % 8));
        bent.push({ digest, signature: bytesToHex(bytes) });
      }
      const bytes = bytesOf(signature);
      bent.push({ digest, signature: bytesToHex(bytes.subarray(0, bytes.length - 1 - (i % 70))) });
      bent.push({ digest, signature: `${signature}00ff` });
      bent.push({ digest, signature: bytesToHex(bytes.fill(0, 4, 36)) });
      bent.push({ digest, signature: bytesToHex(bytes.fill(0, 69, 101)) });
      bent.push({ digest, signature: bytesToHex(bytes.fill(0xff, 4, 36).fill(0xff, 69, 101)) });
    }
    bent.push(
      { digest: bytesToHex(digestOf(0)), signature: "" },
      { digest: bytesToHex(digestOf(0)), signature: "00000000" },
    );
    const { verify } = await go.ask<Answer>({ verify: bent });
    const said = bent.map(({ digest, signature }) => {
      const decoded = decodeRingSignature(bytesOf(signature));
      return decoded !== undefined && rings.verify(bytesOf(digest), decoded);
    });
    assert.deepEqual(said, verify);
    assert.ok(said.some(Boolean));
  });

  test("both accept a ring of one, whose nonce was zero, with numbers above the order", async () => {
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
    const number = (bytes: Uint8Array): bigint => BigInt(`0x${bytesToHex(bytes)}`);
    const infinity = Buffer.concat([Buffer.of(2), Buffer.alloc(32)]);
    const key = secrets[0] ?? new Uint8Array(32);
    const forged: { digest: string; signature: string }[] = [];
    for (let i = 0; i < 20; i++) {
      const digest = digestOf(i);
      const hash = createHash("sha3-512").update(digest).update(infinity).update(infinity).digest();
      const reduced = (number(hash) % order).toString(16);
      if (reduced.length < 63) continue;
      const challenge = bytesOf(reduced.padStart(64, "0"));
      const response = (order - ((number(challenge) * number(key)) % order)).toString(16).padStart(64, "0");
      const signature = `00000001${bytesToHex(challenge)}${bytesToHex(rings.keyImage(key))}${response}`;
      forged.push({ digest: bytesToHex(digest), signature: `${signature}${bytesToHex(keys[0] ?? challenge)}` });
    }
    const { verify } = await go.ask<Answer>({ verify: forged });
    assert.ok(verify.length > 10 && verify.every(Boolean));
    for (const { digest, signature } of forged) {
      const decoded = decodeRingSignature(bytesOf(signature));
      assert.ok(decoded && rings.verify(bytesOf(digest), decoded));
    }
  });
});
