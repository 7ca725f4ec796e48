import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex0x, hexToBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { serializeErc6492Signature } from "viem";
import { isErc6492, unwrapErc6492 } from "./erc6492.ts";

const bytes = (min: number, max: number): fc.Arbitrary<`0x${string}`> =>
  fc.uint8Array({ minLength: min, maxLength: max }).map(bytesToHex0x);

test("what viem wraps is unwrapped", () => {
  fc.assert(
    fc.property(bytes(20, 20), bytes(0, 300), bytes(1, 300), (address, data, signature) => {
      const wrapped = hexToBytes(serializeErc6492Signature({ address, data, signature })) ?? new Uint8Array();
      assert.ok(isErc6492(wrapped));
      const found = unwrapErc6492(wrapped);
      assert.ok(found);
      assert.equal(found.factory, address);
      assert.equal(found.factoryCalldata, data);
      assert.equal(bytesToHex0x(found.signature), signature);
    }),
  );
});

test("anything else is not, and nothing throws", () => {
  const suffix = Buffer.alloc(32, Buffer.from("6492", "hex"));
  assert.equal(unwrapErc6492(new Uint8Array(65)), undefined);
  assert.equal(isErc6492(suffix), false);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(40), (body, at) => {
      const bent = Uint8Array.from(body);
      if (at < bent.length) bent.fill(0, 0, Math.min(bent.length, 95));
      const found = unwrapErc6492(Buffer.concat([bent, suffix]));
      assert.ok(found === undefined || found.signature.length > 0);
    }),
    { numRuns: 2_000 },
  );
  // The signature begins in its last word and is said to be longer than what is there.
  const body = Buffer.alloc(160);
  body[63] = 96;
  body[95] = 128;
  body[159] = 1;
  assert.equal(unwrapErc6492(Buffer.concat([body, suffix])), undefined);
});
