import assert from "node:assert/strict";
import { test } from "node:test";
import { cosmosPublicKey, cosmosSign, cosmosVerify, privateKeyFromSecret } from "@turnpike/crypto";
import { fc } from "@turnpike/testkit/property";
import { VerifiedSignatures } from "./verified-signatures.ts";

const keys = ["a", "b"].map((name) => privateKeyFromSecret(Buffer.from(name)));
const messages = ["one", "two", "three"].map((text) => Buffer.from(text));
const publicKeys = keys.map(cosmosPublicKey);
const signatures = keys.flatMap((key) => messages.map((message) => cosmosSign(message, key)));
const short = new Uint8Array(63);

test("in any order and with any bound, what is asked for again gets the answer of a verification", () => {
  const asked = fc.tuple(
    fc.constantFrom(...messages),
    fc.constantFrom(...signatures, short, Buffer.alloc(64)),
    fc.constantFrom(...publicKeys, short),
  );
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 30 }), fc.constantFrom(1, 2, 100), (list, maxKept) => {
      const verified = new VerifiedSignatures({ maxKept });
      for (const one of list) assert.equal(verified.verify(...one), cosmosVerify(...one));
    }),
    { numRuns: 60 },
  );
});

test("bytes that are changed after they were verified do not hold", () => {
  const verified = new VerifiedSignatures({ maxKept: 10 });
  const [message = Buffer.alloc(0)] = messages;
  const [signature = short] = signatures;
  const [key = short] = publicKeys;
  const own = Buffer.from(message);
  assert.ok(verified.verify(own, signature, key));
  own[0] = 0;
  assert.ok(!verified.verify(own, signature, key));
  assert.ok(verified.verify(message, signature, key));
});
