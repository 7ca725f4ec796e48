import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import {
  base64ToBytes,
  bytesEqual,
  bytesToBase64,
  bytesToHex,
  bytesToHex0x,
  bytesToUtf8,
  concatBytes,
  hexToBytes,
  utf8ToBytes,
} from "./bytes.ts";

const anyBytes = fc.uint8Array({ maxLength: 200 });

suite("bytes", () => {
  test("property: each text form gives the same bytes back", () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        assert.deepEqual(hexToBytes(bytesToHex(bytes)), bytes);
        assert.deepEqual(hexToBytes(bytesToHex0x(bytes).toUpperCase().replace("0X", "0x")), bytes);
        const back = base64ToBytes(bytesToBase64(bytes));
        assert.ok(back !== undefined && bytesEqual(back, bytes));
      }),
    );
  });

  test("property: a text that is taken as base64 is the one text of its bytes", () => {
    const letters = fc.constantFrom(..."ABab01+/=-_ \n\r\t\u00e9".split(""));
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 12 }), (parts) => {
        const text = parts.join("");
        const bytes = base64ToBytes(text);
        if (bytes !== undefined) assert.equal(bytesToBase64(bytes), text);
      }),
      { numRuns: 5_000 },
    );
  });

  test("refuses loose base64", () => {
    for (const text of [
      "A",
      "AA",
      "AAA",
      "AA=",
      "AA==A",
      "AB==",
      "AAB=",
      "AA\n==",
      " AAAA",
      "AAAA ",
      "AA-_",
      "====",
      "A===",
    ]) {
      assert.equal(base64ToBytes(text), undefined, JSON.stringify(text));
    }
    assert.deepEqual(base64ToBytes(""), new Uint8Array());
    assert.deepEqual([...(base64ToBytes("AA==") ?? [])], [0]);
  });

  test("does not stall on a megabyte that is nearly base64", () => {
    assert.equal(base64ToBytes(`${"A".repeat(1_000_000)}!`), undefined);
    assert.equal(base64ToBytes("A".repeat(1_000_001)), undefined);
  });

  test("refuses hex that is odd, foreign, or of another length", () => {
    for (const text of ["0x1", "1", "0xgg", "xx", "0x0x00", " 00", "00\n"])
      assert.equal(hexToBytes(text), undefined, text);
    assert.equal(hexToBytes("0x00", 2), undefined);
    assert.deepEqual(hexToBytes("0x0001", 2), Uint8Array.of(0, 1));
  });

  test("property: text survives UTF-8, and broken UTF-8 is refused", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        assert.equal(bytesToUtf8(utf8ToBytes(text)), text);
      }),
    );
    assert.equal(bytesToUtf8(Uint8Array.of(0xed, 0xa0, 0x80)), undefined);
  });

  test("property: joining and comparing", () => {
    fc.assert(
      fc.property(anyBytes, anyBytes, (a, b) => {
        const both = concatBytes(a, b);
        assert.equal(both.length, a.length + b.length);
        assert.equal(bytesEqual(both, Uint8Array.from([...a, ...b])), true);
        assert.equal(bytesEqual(a, b), bytesToHex(a) === bytesToHex(b));
      }),
    );
  });
});
