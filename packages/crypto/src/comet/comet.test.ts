import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import { sha256 } from "../hash.ts";
import { createEd25519Signer, validatorKeyAddress, verifyEd25519 } from "./ed25519.ts";
import { merkleProofs, merkleRoot, verifyMerkleProof } from "./merkle.ts";

const recorded = readVectors<{
  blocks: { dataHash: string; txs: string[] }[];
  validators: { address: string; publicKey: string }[];
  header: { leaves: string[]; hash: string };
  commit: { signBytes: string; signature: string; validatorAddress: string };
}>("comet-recorded.json");

test("the hashes of a running node's header and transactions", () => {
  assert.equal(bytesToHex(merkleRoot(recorded.header.leaves.map(bytesOf))), recorded.header.hash);
  for (const { dataHash, txs } of recorded.blocks) {
    assert.equal(bytesToHex(merkleRoot(txs.map((tx) => sha256(bytesOf(tx))))), dataHash);
  }
  assert.equal(bytesToHex(merkleRoot([])), bytesToHex(sha256(new Uint8Array(0))));
});

test("proofs of every item hold, and of no other item, place or count", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 8 }), { maxLength: 20 }), (items) => {
      const { root, proofs } = merkleProofs(items);
      assert.deepEqual(root, merkleRoot(items));
      proofs.forEach((proof, i) => {
        const item = items[i];
        assert.ok(item);
        assert.ok(verifyMerkleProof(root, item, proof));
        assert.equal(verifyMerkleProof(root, Uint8Array.of(...item, 1), proof), false);
        assert.equal(verifyMerkleProof(root, item, { ...proof, aunts: [...proof.aunts, root] }), false);
        if (items.length > 1) {
          const moved = { ...proof, index: (i + 1) % items.length };
          const same = bytesToHex(item) === bytesToHex(items[moved.index] ?? root);
          if (!same) assert.equal(verifyMerkleProof(root, item, moved), false);
          assert.equal(verifyMerkleProof(root, item, { ...proof, aunts: proof.aunts.slice(1) }), false);
        }
      });
    }),
  );
});

test("absurd proofs are refused without work", () => {
  const { root, proofs } = merkleProofs([Uint8Array.of(1), Uint8Array.of(2)]);
  const [proof] = proofs;
  assert.ok(proof);
  const item = Uint8Array.of(1);
  for (const total of [0, -1, 1.5, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY, Number.NaN]) {
    assert.equal(verifyMerkleProof(root, item, { ...proof, total }), false);
  }
  assert.equal(verifyMerkleProof(root, item, { ...proof, index: -1 }), false);
  assert.equal(verifyMerkleProof(root, item, { ...proof, aunts: Array<Uint8Array>(101).fill(root) }), false);
  assert.equal(verifyMerkleProof(root, item, { ...proof, aunts: [new Uint8Array(31)] }), false);
  assert.equal(verifyMerkleProof(root, item, { ...proof, leafHash: root }), false);
});

test("a validator's address and vote, as recorded", () => {
  const [validator] = recorded.validators;
  assert.ok(validator);
  const publicKey = bytesOf(validator.publicKey);
  assert.equal(bytesToHex(validatorKeyAddress(publicKey)).toUpperCase(), validator.address);
  const { signBytes, signature, validatorAddress } = recorded.commit;
  assert.equal(validatorAddress.toUpperCase(), validator.address);
  assert.ok(verifyEd25519(bytesOf(signBytes), bytesOf(signature), publicKey));
  const bent = bytesOf(signBytes);
  bent[8] = (bent[8] ?? 0) ^ 1;
  assert.equal(verifyEd25519(bent, bytesOf(signature), publicKey), false);
});

test("ed25519 gives RFC 8032's second vector, and refuses what is no key or signature", () => {
  const seed = bytesOf("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  const signer = createEd25519Signer(seed);
  assert.equal(bytesToHex(signer.publicKey), "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const signature = signer.sign(Uint8Array.of(0x72));
  assert.equal(
    bytesToHex(signature),
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
  );
  assert.ok(verifyEd25519(Uint8Array.of(0x72), signature, signer.publicKey));
  assert.deepEqual(createEd25519Signer(Uint8Array.of(...seed, ...signer.publicKey)).publicKey, signer.publicKey);
  assert.throws(() => createEd25519Signer(Uint8Array.of(...seed, ...seed)), { code: "CONFIG_INVALID" });
  assert.throws(() => createEd25519Signer(seed.subarray(1)), { code: "CONFIG_INVALID" });
  assert.equal(verifyEd25519(seed, signature.subarray(1), signer.publicKey), false);
  assert.equal(verifyEd25519(seed, signature, new Uint8Array(31)), false);
  assert.equal(verifyEd25519(seed, signature, new Uint8Array(32).fill(255)), false);
});
