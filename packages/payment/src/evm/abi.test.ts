import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, bytesToHex0x } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { encodeFunctionData, encodeFunctionResult, multicall3Abi, parseAbi } from "viem";
import {
  decodeAggregate3,
  decodeBool,
  decodeQuantity,
  decodeString,
  decodeUint,
  encodeAggregate3,
  encodeAuthorizationState,
  encodeBalanceOf,
  encodeTransferBytes,
  encodeTransferVrs,
  type Hex,
} from "./abi.ts";

const abi = parseAbi([
  "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
  "function authorizationState(address,bytes32) view returns (bool)",
  "function balanceOf(address) view returns (uint256)",
  "function name() view returns (string)",
  "function version() view returns (string)",
  "function decimals() view returns (uint8)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
]);
const bytesAbi = parseAbi([
  "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
]);

const hex = (length: number): fc.Arbitrary<Hex> =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => bytesToHex0x(bytes));
const anyBytes = fc.uint8Array({ maxLength: 200 });
const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const fields = fc.record({
  from: hex(20) as fc.Arbitrary<Address>,
  to: hex(20) as fc.Arbitrary<Address>,
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: hex(32),
});

test("calldata of the token equals viem's", () => {
  fc.assert(
    fc.property(
      fields,
      fc.uint8Array({ minLength: 65, maxLength: 65 }),
      anyBytes,
      hex(20),
      (transfer, vrs, signature, who) => {
        const { from, to, value, validAfter, validBefore, nonce } = transfer;
        const head = [from, to, value, validAfter, validBefore, nonce] as const;
        const r = bytesToHex0x(vrs.subarray(0, 32));
        const s = bytesToHex0x(vrs.subarray(32, 64));
        assert.equal(
          encodeTransferVrs(transfer, vrs),
          encodeFunctionData({
            abi,
            functionName: "transferWithAuthorization",
            args: [...head, vrs[64] ?? 0, r, s],
          }),
        );
        assert.equal(
          encodeTransferBytes(transfer, signature),
          encodeFunctionData({
            abi: bytesAbi,
            functionName: "transferWithAuthorization",
            args: [...head, bytesToHex0x(signature)],
          }),
        );
        assert.equal(
          encodeAuthorizationState(who, nonce),
          encodeFunctionData({ abi, functionName: "authorizationState", args: [who, nonce] }),
        );
        assert.equal(encodeBalanceOf(who), encodeFunctionData({ abi, functionName: "balanceOf", args: [who] }));
      },
    ),
  );
});

test("addresses and nonces in any case give the same calldata", () => {
  const transfer = { to: `0x${"CD".repeat(20)}`, value: 1n, validAfter: 0n, validBefore: 2n } as const;
  const upper = { ...transfer, from: `0x${"AB".repeat(20)}`, nonce: `0x${"EF".repeat(32)}` } as const;
  const lower = { ...transfer, from: `0x${"ab".repeat(20)}`, nonce: `0x${"ef".repeat(32)}` } as const;
  assert.equal(encodeTransferVrs(upper, new Uint8Array(65)), encodeTransferVrs(lower, new Uint8Array(65)));
});

test("aggregate3 equals viem's, there and back", () => {
  const call = fc.record({
    target: hex(20) as fc.Arbitrary<Address>,
    allowFailure: fc.boolean(),
    callData: anyBytes.map(bytesToHex0x),
  });
  const result = fc.record({ success: fc.boolean(), returnData: anyBytes.map(bytesToHex0x) });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 12 }), fc.array(result, { maxLength: 12 }), (calls, results) => {
      assert.equal(
        encodeAggregate3(calls),
        encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args: [calls] }),
      );
      const encoded = encodeFunctionResult({ abi: multicall3Abi, functionName: "aggregate3", result: results });
      assert.deepEqual(
        decodeAggregate3(encoded, results.length),
        results.map((r) => ({ ...r })),
      );
      assert.equal(decodeAggregate3(encoded, results.length + 1), undefined);
    }),
  );
});

test("bent results are refused or read, never thrown at", () => {
  const encoded = encodeFunctionResult({
    abi: multicall3Abi,
    functionName: "aggregate3",
    result: [
      { success: true, returnData: "0x01" },
      { success: false, returnData: "0x" },
    ],
  });
  fc.assert(
    fc.property(fc.nat(encoded.length - 1), fc.constantFrom("0", "1", "f", "x", "", "Z"), (at, char) => {
      const found = decodeAggregate3(encoded.slice(0, at) + char + encoded.slice(at + 1), 2);
      assert.ok(found === undefined || found.length === 2);
      assert.doesNotThrow(() => decodeAggregate3(encoded.slice(0, at), 2));
      assert.doesNotThrow(() => decodeString(`0x${encoded.slice(at)}`));
    }),
    { numRuns: 2_000 },
  );
  for (const odd of [undefined, null, 1, "", "0x", "0x0", {}, []]) {
    assert.equal(decodeAggregate3(odd, 1), undefined);
    assert.equal(decodeUint(odd), undefined);
    assert.equal(decodeString(odd), undefined);
  }
});

test("plain values are read strictly", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 80 }), uint256, (text, value) => {
      const wellFormed = text.toWellFormed();
      assert.equal(decodeString(encodeFunctionResult({ abi, functionName: "name", result: wellFormed })), wellFormed);
      assert.equal(decodeUint(`0x${value.toString(16).padStart(64, "0")}`), value);
      assert.equal(decodeQuantity(`0x${value.toString(16)}`), value);
    }),
  );
  assert.equal(decodeBool(`0x${"0".repeat(63)}1`), true);
  assert.equal(decodeBool(`0x${"0".repeat(64)}`), false);
  assert.equal(decodeBool(`0x${"0".repeat(63)}2`), undefined);
  for (const odd of ["0x", "12", "0xg", "-0x1", `0x${"1".repeat(65)}`, 5, null])
    assert.equal(decodeQuantity(odd), undefined);
});
