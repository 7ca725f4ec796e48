import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { nonceOf } from "../../test/nonce-of.ts";
import { cosmosPublicKey, privateKeyFromSecret } from "../cosmos/signatures.ts";
import { canonicalRing } from "./placeholder.ts";
import { RingSigner } from "./ring-signer.ts";
import { Rings } from "./rings.ts";

const keyOf = (index: number): Uint8Array => privateKeyFromSecret(Buffer.from(`ring signer ${index}`));
const members = [0, 1, 2, 3].map((i) => cosmosPublicKey(keyOf(i)));
const digestOf = (i: number): Uint8Array => createHash("sha256").update(`relay ${i}`).digest();

/** A stream of draws that is the same for one seed, and what it drew. */
function stream(seed: string): { random: (length: number) => Uint8Array; readonly drawn: Uint8Array[] } {
  const drawn: Uint8Array[] = [];
  return {
    drawn,
    random: () => {
      const bytes = createHash("sha256").update(`${seed} ${drawn.length}`).digest();
      drawn.push(bytes);
      return bytes;
    },
  };
}

suite("ring signer", () => {
  for (const [name, ring, key] of [
    ["two", members.slice(0, 2), keyOf(0)],
    ["two, the second signs", members.slice(0, 2), keyOf(1)],
    ["one key twice", [members[0], members[0]].flatMap((member) => member ?? []), keyOf(0)],
    ["four", members, keyOf(2)],
    ["an application alone", canonicalRing(members.slice(0, 1)), keyOf(0)],
  ] as const) {
    test(`a ring of ${name}: the same draws make the signatures of Rings.sign, prepared or not, drawn anew or not`, () => {
      const rings = new Rings({}, { random: stream(name).random });
      using signer = new RingSigner({ members: ring, key, maxPrepared: 8 }, { random: stream(name).random });
      const check = new Rings();
      for (let i = 0; i < 150; i++) {
        signer.prepare([0, 1, 3, 100][i % 4] ?? 0);
        const signature = signer.sign(digestOf(i));
        assert.equal(bytesToHex(signature), bytesToHex(rings.sign(digestOf(i), ring, key)));
        if (i % 10 === 0) assert.ok(check.verifyWithin(digestOf(i), signature, ring).ok);
      }
    });
  }

  test("attack: no nonce is used twice, prepared or not, and those of attempts that were dropped never again", () => {
    const { random, drawn } = stream("nonces");
    const ring = members.slice(0, 2);
    using signer = new RingSigner({ members: ring, key: keyOf(0), maxPrepared: 5 }, { random });
    const nonces = new Set<string>();
    // The same digest again and again: equal nonces would reveal the key.
    for (let i = 0; i < 600; i++) {
      if (i % 3 === 0) signer.prepare(4);
      nonces.add(nonceOf(signer.sign(digestOf(i % 2)), digestOf(i % 2), keyOf(0)));
    }
    assert.equal(nonces.size, 600);
    // Two draws for each attempt: some attempts were dropped because a challenge was short.
    const attempts = (drawn.length - 2 * signer.prepared) / 2;
    assert.ok(attempts > 600, `${attempts} attempts`);
  });

  test("a nonce is wiped where it was drawn and with its signature", () => {
    const { random, drawn } = stream("wiped");
    using signer = new RingSigner({ members: members.slice(0, 2), key: keyOf(0) }, { random });
    signer.prepare(3);
    // Draws alternate: a nonce, then the other member's response, which the signature shows.
    assert.deepEqual(
      drawn.map((bytes) => bytes.every((byte) => byte === 0)),
      [true, false, true, false, true, false],
    );
  });

  test("what is prepared is bounded, used in order, and gone when the signer is disposed", () => {
    const signer = new RingSigner({ members, key: keyOf(3), maxPrepared: 4 });
    signer.prepare(1_000_000);
    assert.equal(signer.prepared, 4);
    signer.sign(digestOf(1));
    assert.ok(signer.prepared <= 3);
    signer.prepare(1);
    signer[Symbol.dispose]();
    assert.equal(signer.prepared, 0);
    signer.prepare(1);
    assert.equal(signer.prepared, 0);
    assert.throws(() => signer.sign(digestOf(1)), { code: "INTERNAL" });
  });

  test("the caller may wipe the key that it passed, and change its arrays", () => {
    const key = Uint8Array.from(keyOf(0));
    const ring = members.slice(0, 2).map((member) => Uint8Array.from(member));
    using signer = new RingSigner({ members: ring, key });
    key.fill(0);
    ring[1]?.fill(0);
    assert.ok(new Rings().verifyWithin(digestOf(1), signer.sign(digestOf(1)), members.slice(0, 2)).ok);
  });

  test("wrong keys, rings and digests are refused", () => {
    assert.throws(() => new RingSigner({ members: members.slice(1), key: keyOf(0) }), { code: "CONFIG_INVALID" });
    assert.throws(() => new RingSigner({ members, key: new Uint8Array(32) }), { code: "CONFIG_INVALID" });
    assert.throws(() => new RingSigner({ members: [...members, new Uint8Array(33)], key: keyOf(0) }), {
      code: "CONFIG_INVALID",
    });
    assert.throws(() => new RingSigner({ members: members.slice(0, 1), key: keyOf(0) }), { code: "INTERNAL" });
    using signer = new RingSigner({ members, key: keyOf(0) });
    assert.throws(() => signer.sign(new Uint8Array(31)), { code: "INTERNAL" });
  });

  test("a source of zeros never makes a signature, prepared or not", () => {
    using signer = new RingSigner({ members, key: keyOf(0) }, { random: (length) => new Uint8Array(length) });
    signer.prepare(4);
    assert.equal(signer.prepared, 0);
    assert.throws(() => signer.sign(digestOf(1)), { code: "INTERNAL" });
  });
});
