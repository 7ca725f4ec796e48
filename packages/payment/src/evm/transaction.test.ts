import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex0x } from "@turnpike/base";
import { isPrivateKey } from "@turnpike/crypto";
import { fc } from "@turnpike/testkit/property";
import { keccak256 } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { signTransaction, transactionTarget } from "./transaction.ts";

const wei = fc.bigInt({ min: 0n, max: 2n ** 96n });
const bytes = (min: number, max: number): fc.Arbitrary<`0x${string}`> =>
  fc.uint8Array({ minLength: min, maxLength: max }).map(bytesToHex0x);

test("a signed transaction has viem's bytes and hash", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ minLength: 32, maxLength: 32 }).filter(isPrivateKey),
      fc.record({
        chainId: fc.integer({ min: 1, max: 2 ** 40 }),
        nonce: fc.nat(),
        maxPriorityFeePerGas: wei,
        maxFeePerGas: wei,
        gasLimit: fc.bigInt({ min: 0n, max: 2n ** 50n }),
        to: bytes(20, 20),
        value: wei,
        data: fc.oneof(bytes(0, 2), bytes(50, 60), bytes(250, 700)),
      }),
      async (key, fields) => {
        const transaction = { ...fields, maxFeePerGas: fields.maxFeePerGas + fields.maxPriorityFeePerGas };
        const { gasLimit, ...rest } = transaction;
        const expected = await privateKeyToAccount(bytesToHex0x(key)).signTransaction({
          ...rest,
          type: "eip1559",
          gas: gasLimit,
        });
        const signed = signTransaction(transaction, key);
        assert.equal(bytesToHex0x(signed.raw), expected);
        assert.equal(signed.hash, keccak256(expected));
        assert.equal(transactionTarget(signed.raw), fields.to);
      },
    ),
    { numRuns: 60 },
  );
});

test("bytes that are not a signed transaction have no target", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
      const target = transactionTarget(garbage);
      assert.ok(target === undefined || bytesToHex0x(garbage).includes(target.slice(2)));
    }),
  );
  for (const hex of ["", "02", "02c0", "02f8", "0280", "02c6010203040594"])
    assert.equal(transactionTarget(Buffer.from(hex, "hex")), undefined);
});
