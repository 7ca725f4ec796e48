import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { bytesOf, readVectors } from "../../test/vectors.ts";
import { loadNative } from "../native.ts";
import { pure } from "../pure.ts";
import { bytesToNumber, numberToBytes32, ORDER } from "../scalars.ts";
import { accountAddress, addressToBytes, moduleAddress, validatorAddress } from "./addresses.ts";
import { decodeBech32, encodeBech32 } from "./bech32.ts";
import { cosmosPublicKey, cosmosSign, cosmosVerify, isCosmosPublicKey, privateKeyFromSecret } from "./signatures.ts";

const { accounts, signatures } = readVectors<{
  accounts: { name: string; address: string; publicKey: string; privateKey?: string }[];
  signatures: { publicKey: string; signBytes: string; signature: string }[];
}>("cosmos-recorded.json");

test("keys and addresses of a running node's accounts", () => {
  for (const { address, publicKey, privateKey } of accounts) {
    assert.equal(accountAddress(bytesOf(publicKey)), address);
    assert.equal(addressToBytes(address)?.length, 20);
    if (privateKey !== undefined) assert.equal(bytesToHex(cosmosPublicKey(bytesOf(privateKey))), publicKey);
  }
});

test("module addresses, and a validator's", () => {
  assert.equal(moduleAddress("gov"), "pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t");
  const bytes = addressToBytes(moduleAddress("gov"));
  assert.ok(bytes);
  assert.match(validatorAddress(bytes), /^poktvaloper1/);
  assert.equal(addressToBytes(validatorAddress(bytes)), undefined);
  assert.deepEqual(addressToBytes(validatorAddress(bytes), "poktvaloper"), bytes);
});

test("signatures of recorded transactions hold, are made again byte for byte, and not when a bit differs", () => {
  for (const { publicKey, signBytes, signature } of signatures) {
    const message = bytesOf(signBytes);
    assert.ok(cosmosVerify(message, bytesOf(signature), bytesOf(publicKey)));
    const key = accounts.find((account) => account.publicKey === publicKey)?.privateKey;
    if (key !== undefined) assert.equal(bytesToHex(cosmosSign(message, bytesOf(key))), signature);
    message[3] = (message[3] ?? 0) ^ 1;
    assert.equal(cosmosVerify(message, bytesOf(signature), bytesOf(publicKey)), false);
  }
});

test("a high s, a wrong length, zeros and numbers above the order are refused by both curves", () => {
  const native = loadNative();
  assert.ok(native);
  const key = privateKeyFromSecret(Buffer.from("cosmos"));
  const publicKey = cosmosPublicKey(key);
  const message = Buffer.from("message");
  const signature = cosmosSign(message, key);
  const high = Uint8Array.from(signature);
  high.set(numberToBytes32(ORDER - bytesToNumber(signature.subarray(32))), 32);
  assert.ok(cosmosVerify(message, signature, publicKey));
  const faulty = [high, signature.subarray(1), new Uint8Array(64), new Uint8Array(64).fill(255), new Uint8Array(0)];
  for (const bad of faulty) {
    assert.equal(cosmosVerify(message, bad, publicKey), false);
    if (bad.length !== 64) continue;
    for (const curve of [native, pure]) assert.equal(curve.verify(message.subarray(0, 0), bad, publicKey), false);
  }
  assert.equal(cosmosVerify(message, signature, publicKey.subarray(1)), false);
  assert.equal(cosmosVerify(message, signature, new Uint8Array(33)), false);
  assert.equal(isCosmosPublicKey(new Uint8Array(33)), false);
  assert.ok(isCosmosPublicKey(publicKey));
  assert.throws(() => cosmosSign(message, new Uint8Array(32)), { code: "CONFIG_INVALID" });
});

test("both curves agree on any signature", () => {
  const native = loadNative();
  assert.ok(native);
  const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 });
  const key = privateKeyFromSecret(Buffer.from("cosmos"));
  const publicKey = cosmosPublicKey(key);
  fc.assert(
    fc.property(bytes32, fc.nat(63), fc.boolean(), (digest, at, bend) => {
      const { signature } = native.sign(digest, key);
      const given = Uint8Array.from(signature);
      if (bend) given[at] = (given[at] ?? 0) ^ 0x80;
      assert.equal(native.verify(digest, given, publicKey), !bend);
      assert.equal(pure.verify(digest, given, publicKey), !bend);
    }),
    { numRuns: 30 },
  );
});

test("bech32: BIP-173's valid texts are read, its invalid ones are not", () => {
  for (const text of [
    "A12UEL5L",
    "a12uel5l",
    "an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
    "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
    "?1ezyfcl",
  ]) {
    const decoded = decodeBech32(text);
    assert.ok(decoded, text);
    assert.equal(encodeBech32(decoded.prefix, decoded.bytes), text.toLowerCase());
  }
  for (const text of [
    "\u{20}1nwldj5",
    "\u{7f}1axkwrx",
    "\u{80}1eym55h",
    "pzry9x0s0muk",
    "1pzry9x0s0muk",
    "x1b4n0q5v",
    "li1dgmt3",
    "de1lg7wt\u{ff}",
    "A1G7SGD8",
    "10a06t8",
    "1qzzfhee",
    "A12uEL5L",
    "abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx",
    "",
    "1",
  ]) {
    assert.equal(decodeBech32(text), undefined, text);
  }
});

test("bech32 goes both ways for any bytes, and one changed character is always found", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(), (bytes, at) => {
      const text = encodeBech32("pokt", bytes);
      assert.deepEqual(decodeBech32(text), { prefix: "pokt", bytes });
      const place = 5 + (at % (text.length - 5));
      const bent = `${text.slice(0, place)}${text[place] === "q" ? "p" : "q"}${text.slice(place + 1)}`;
      assert.equal(decodeBech32(bent), undefined);
    }),
  );
  assert.equal(decodeBech32(`pokt1${"q".repeat(1100)}`), undefined);
  assert.throws(() => encodeBech32("POKT", new Uint8Array(1)), { code: "INTERNAL" });
  assert.throws(() => encodeBech32("pokt", new Uint8Array(1000)), { code: "INTERNAL" });
});
