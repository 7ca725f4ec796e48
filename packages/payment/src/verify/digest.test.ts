import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, bytesToHex0x } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { hashTypedData, domainSeparator as viemDomainSeparator } from "viem";
import { domainSeparator, transferDigest } from "./digest.ts";

const hex = (length: number): fc.Arbitrary<`0x${string}`> =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => bytesToHex0x(bytes));
const uint256 = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }), fc.bigInt({ min: 0n, max: 2n ** 65n }));
const types = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

test("domain separators and digests equal viem's", () => {
  fc.assert(
    fc.property(
      fc.record({
        name: fc.string({ maxLength: 40 }).map((s) => s.toWellFormed()),
        version: fc.string({ maxLength: 5 }).map((s) => s.toWellFormed()),
        chainId: fc.nat(),
        asset: hex(20),
      }),
      fc.record({
        from: hex(20) as fc.Arbitrary<Address>,
        to: hex(20) as fc.Arbitrary<Address>,
        value: uint256,
        validAfter: uint256,
        validBefore: uint256,
        nonce: hex(32),
      }),
      ({ asset, ...rest }, message) => {
        const domain = { ...rest, verifyingContract: asset };
        const separator = domainSeparator({ ...rest, asset });
        assert.equal(bytesToHex0x(separator), viemDomainSeparator({ domain }));
        const expected = hashTypedData({ domain, types, primaryType: "TransferWithAuthorization", message });
        assert.equal(bytesToHex0x(transferDigest(separator, message)), expected);
      },
    ),
  );
});
