import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { parseGoBase64, parseGoBool, parseGoHex, parseGoInteger } from "./go-values.ts";

const SIGNED = { bits: 64, signed: true, base: 0 } as const;
const PLAIN = { bits: 64, signed: true, base: 10 } as const;

function int(text: string, form: Parameters<typeof parseGoInteger>[1] = SIGNED): bigint | string {
  const read = parseGoInteger(text, form);
  return read.ok ? read.value : read.text;
}

suite("texts as Go reads them", () => {
  test("integers in every base, with Go's limits and faults", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }), (value) => {
        assert.equal(int(value.toString()), value);
        const digits = value < 0n ? `-0x${(-value).toString(16)}` : `0x${value.toString(16)}`;
        assert.equal(int(digits), value);
      }),
    );
    for (const [text, value] of [
      ["010", 8n],
      ["0o17", 15n],
      ["0b101", 5n],
      ["1_000", 1000n],
      ["0x_ff", 255n],
      ["+5", 5n],
      ["0", 0n],
      ["-0", 0n],
    ] as const) {
      assert.equal(int(text), value, text);
    }
    assert.equal(int("010", PLAIN), 10n);
    for (const text of ["", "_1", "1_", "1__0", "0x", "1.0", "1e3", " 1", "٣", "9".repeat(99_999).concat("x"), "09"]) {
      assert.match(String(int(text)), /: invalid syntax$/);
    }
    assert.match(String(int("0x10", PLAIN)), /: invalid syntax$/);
    for (const text of ["9223372036854775808", "-9223372036854775809", "9".repeat(99_999)]) {
      assert.match(String(int(text)), /: value out of range$/);
    }
    assert.match(String(int("2147483648", { bits: 32, signed: true, base: 0 })), /: value out of range$/);
    assert.match(String(int("+1", { bits: 64, signed: false, base: 0 })), /ParseUint: .*: invalid syntax$/);
  });

  test("booleans", () => {
    assert.deepEqual(parseGoBool("T"), { ok: true, value: true });
    assert.deepEqual(parseGoBool("False"), { ok: true, value: false });
    assert.deepEqual(parseGoBool("tRUE"), { ok: false, text: 'strconv.ParseBool: parsing "tRUE": invalid syntax' });
  });

  test("base64 of both alphabets", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const standard = Buffer.from(bytes).toString("base64");
        for (const text of [standard, standard.replaceAll("+", "-").replaceAll("/", "_")]) {
          const read = parseGoBase64(text);
          assert.ok(read.ok && Buffer.compare(read.value, bytes) === 0);
        }
      }),
    );
    assert.deepEqual(parseGoBase64("%%"), { ok: false, text: "illegal base64 data at input byte 0" });
    assert.deepEqual(parseGoBase64("AAAAA"), { ok: false, text: "illegal base64 data at input byte 4" });
    assert.ok(!parseGoBase64("+-AA").ok);
  });

  test("hex", () => {
    assert.deepEqual(parseGoHex("zz"), { ok: false, text: "encoding/hex: invalid byte: U+007A 'z'" });
    assert.deepEqual(parseGoHex("abc"), { ok: false, text: "encoding/hex: odd length hex string" });
    assert.deepEqual(parseGoHex("0x"), { ok: false, text: "encoding/hex: invalid byte: U+0078 'x'" });
    assert.ok(parseGoHex("aF").ok);
  });
});
