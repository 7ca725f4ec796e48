import assert from "node:assert/strict";
import { test } from "node:test";
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, bytesToHex0x, utf8ToBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import {
  checksumAddress,
  isLowS,
  isPrivateKey,
  keccak256,
  privateKeyToAddress,
  recoverAddress,
  recoverSigner,
  secp256k1Backend,
  sha256,
  sign,
} from "./index.ts";
import { loadNative } from "./native.ts";
import { pure } from "./pure.ts";

const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 });
const key32 = bytes32.filter((key) => secp256k1.utils.isValidSecretKey(key));

test("keccak256 and sha256 give the published vectors", () => {
  assert.equal(
    bytesToHex(keccak256(utf8ToBytes(""))),
    "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
  );
  assert.equal(
    bytesToHex(keccak256(utf8ToBytes("abc"))),
    "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
  );
  assert.equal(
    bytesToHex(sha256(utf8ToBytes("abc"))),
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  );
});

test("keccak256 equals the pure one on any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (data) => {
      assert.equal(bytesToHex(keccak256(data)), bytesToHex(keccak_256(data)));
    }),
  );
});

test("the native curve is loaded", () => assert.equal(secp256k1Backend, "native"));

test("native and pure curves agree on signatures, keys and recovery", () => {
  const native = loadNative();
  assert.ok(native);
  fc.assert(
    fc.property(bytes32, key32, fc.integer({ min: 0, max: 63 }), (digest, key, flipped) => {
      const a = native.sign(digest, key);
      const b = pure.sign(digest, key);
      assert.equal(bytesToHex(a.signature), bytesToHex(b.signature));
      assert.equal(a.yParity, b.yParity);
      assert.deepEqual(native.publicKey(key), pure.publicKey(key));
      assert.deepEqual(Uint8Array.from(native.recover(digest, a.signature, a.yParity) ?? []), pure.publicKey(key));
      const bent = Uint8Array.from(a.signature);
      bent[flipped] = (bent[flipped] ?? 0) ^ 0x41;
      for (const parity of [0, 1] as const) {
        assert.deepEqual(native.recover(digest, bent, parity), pure.recover(digest, bent, parity));
      }
    }),
    { numRuns: 40 },
  );
});

test("zero, the order and what is above are refused alike by both curves", () => {
  const native = loadNative();
  assert.ok(native);
  const order = Uint8Array.from(Buffer.from("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", "hex"));
  for (const key of [new Uint8Array(32), order, new Uint8Array(32).fill(255)]) {
    assert.equal(native.publicKey(key), undefined);
    assert.equal(pure.publicKey(key), undefined);
    assert.equal(isPrivateKey(key), false);
    assert.throws(() => sign(new Uint8Array(32), key), { code: "CONFIG_INVALID" });
    const signature = new Uint8Array(64).fill(1);
    signature.set(key, 0);
    assert.equal(native.recover(new Uint8Array(32), signature, 0), undefined);
    assert.equal(pure.recover(new Uint8Array(32), signature, 0), undefined);
  }
});

test("a signature recovers to its signer, only with v of 27 or 28", () => {
  fc.assert(
    fc.property(bytes32, key32, (digest, key) => {
      const { r, s, yParity } = sign(digest, key);
      const address = privateKeyToAddress(key);
      assert.ok(isLowS(s));
      assert.equal(recoverAddress(digest, r, s, 27 + yParity), address);
      assert.equal(recoverSigner(digest, Buffer.concat([r, s, Uint8Array.of(27 + yParity)])), address);
      assert.notEqual(recoverAddress(digest, r, s, 28 - yParity), address);
      for (const v of [0, 1, 26, 29, 255, 27.5]) assert.equal(recoverAddress(digest, r, s, v), undefined);
      for (const v of [0, 1, 29]) {
        assert.equal(recoverSigner(digest, Buffer.concat([r, s, Uint8Array.of(v)])), undefined);
      }
    }),
    { numRuns: 40 },
  );
  assert.equal(recoverSigner(new Uint8Array(32), new Uint8Array(64)), undefined);
});

test("isLowS splits at half the order", () => {
  const half = Uint8Array.from(Buffer.from("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0", "hex"));
  assert.ok(isLowS(half));
  half[31] = 0xa1;
  assert.ok(!isLowS(half));
  assert.ok(!isLowS(new Uint8Array(31)));
});

test("checksumAddress spells the examples of EIP-55", () => {
  for (const address of [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
  ] as const) {
    assert.equal(checksumAddress(address.toLowerCase() as typeof address), address);
  }
  // The first account of every development chain.
  const key = Uint8Array.from(Buffer.from("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "hex"));
  assert.equal(checksumAddress(privateKeyToAddress(key)), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
  assert.equal(bytesToHex0x(Uint8Array.of(1, 255)), "0x01ff");
});
