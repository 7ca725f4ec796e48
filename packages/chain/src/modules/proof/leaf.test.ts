import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readLeaf } from "./leaf.ts";

const faultOf = (hex: string): string => {
  const read = readLeaf(Buffer.from(hex, "hex"));
  assert.ok(!read.ok, hex);
  return read.fault.text.replace(
    /^failed to unmarshal sparse compact merkle closest proof: (.*): invalid proof$/,
    "$1",
  );
};

// What `encoding/gob` says of these bytes, as the real chain's proof.
const GO = {
  "6a756e6b": "unexpected EOF",
  "00": "EOF",
  "01": "unexpected EOF",
  ff: "unexpected EOF",
  ff88: "unexpected EOF",
  f0: "gob: encoded unsigned integer out of range",
  f80101: "unexpected EOF",
  deadbeef: "gob: encoded unsigned integer out of range",
  "182215aaee06a2": "unexpected EOF",
  fa547e97bdbb6e923fc4fd570ecd72c32932683394a43eea: "invalid message length",
  fca7798f5189fc: "unexpected EOF",
};

suite("bytes that are no proof", () => {
  for (const [hex, text] of Object.entries(GO)) {
    test(`${hex}: ${text}`, () => assert.equal(faultOf(hex), text));
  }
});
