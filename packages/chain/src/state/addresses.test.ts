import assert from "node:assert/strict";
import { test } from "node:test";
import { ACCOUNT_PREFIX, encodeBech32 } from "@turnpike/crypto";
import { addressText } from "./addresses.ts";

test("an address is the same text however many were asked for in between", () => {
  const bytesOf = (i: number): Uint8Array => {
    const bytes = new Uint8Array(20);
    new DataView(bytes.buffer).setUint32(16, i);
    return bytes;
  };
  for (const i of [0, 1, 0, ...Array.from({ length: 5_000 }, (_, n) => n), 0, 4_999]) {
    assert.equal(addressText(bytesOf(i)), encodeBech32(ACCOUNT_PREFIX, bytesOf(i)));
  }
  const changed = bytesOf(7);
  addressText(changed);
  changed[0] = 1;
  assert.equal(addressText(changed), encodeBech32(ACCOUNT_PREFIX, changed));
});
