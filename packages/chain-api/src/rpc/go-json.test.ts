import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { type ArgumentKind, argumentFromBody, argumentFromJson, argumentFromText, readBase64 } from "./arguments.ts";
import { bytesToRaw, elementsOf, goJsonText, membersOf, quoteGo, rawToValue, scanFirst, scanWhole } from "./go-json.ts";

const DEPTH = 10_000;
const rawOf = (text: string): string => bytesToRaw(Buffer.from(text, "utf8"));
const faultOf = (text: string): string | undefined => {
  const scanned = scanWhole(rawOf(text), DEPTH);
  return scanned.ok ? undefined : scanned.fault;
};

describe("JSON as Go reads it", () => {
  it("refuses texts in Go's words", () => {
    const faults: readonly (readonly [text: string, fault: string])[] = [
      ["", "unexpected end of JSON input"],
      ["{", "unexpected end of JSON input"],
      ["{bad", "invalid character 'b' looking for beginning of object key string"],
      ['{"a" 1}', "invalid character '1' after object key"],
      ['{"a":1 "b"}', "invalid character '\"' after object key:value pair"],
      ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
      ["[1 2]", "invalid character '2' after array element"],
      ["[1,]", "invalid character ']' looking for beginning of value"],
      ["1 2", "invalid character '2' after top-level value"],
      ["01", "invalid character '1' after top-level value"],
      ["tru", "unexpected end of JSON input"],
      ["trup", "invalid character 'p' in literal true (expecting 'e')"],
      ["nonsense", "invalid character 'o' in literal null (expecting 'u')"],
      ["1.x", "invalid character 'x' after decimal point in numeric literal"],
      ["1ex", "invalid character 'x' in exponent of numeric literal"],
      ["-x", "invalid character 'x' in numeric literal"],
      ['"\n"', "invalid character '\\n' in string literal"],
      ['"\\x"', "invalid character 'x' in string escape code"],
      ['"\\u12g"', "invalid character 'g' in \\u hexadecimal character escape"],
      ["'", "invalid character '\\'' looking for beginning of value"],
      ["é", "invalid character 'Ã' looking for beginning of value"],
      ["[".repeat(DEPTH + 1), "exceeded max depth"],
    ];
    for (const [text, fault] of faults) assert.equal(faultOf(text), fault, text.slice(0, 20));
  });

  it("takes what JSON.parse takes, and nothing else", () => {
    const agrees = (text: string): void => {
      let parsed: unknown;
      let isJson = true;
      try {
        parsed = JSON.parse(text);
      } catch {
        isJson = false;
      }
      const scanned = scanWhole(rawOf(text), DEPTH);
      assert.equal(scanned.ok, isJson, text);
      if (scanned.ok) assert.deepEqual(rawToValue(scanned.raw), parsed);
    };
    const pieces = fc.constantFrom(
      ...'{ } [ ] , : 1 -0 0.5 1e9 .5 5. "a" "\\n" "é" null true " \\ '.split(" "),
      " ",
      "\n",
      "\t",
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => agrees(parts.join(""))),
      { numRuns: 2000 },
    );
    const value = fc.jsonValue();
    fc.assert(
      fc.property(value, fc.nat(), fc.constantFrom("", "x", "]", ","), (json, cut, add) => {
        const text = JSON.stringify(json, null, 1);
        agrees(text);
        agrees(text.slice(0, cut % (text.length + 1)) + add);
      }),
    );
  });

  it("finds members and elements", () => {
    const name = fc.string().filter((text) => text !== "__proto__");
    fc.assert(
      fc.property(fc.dictionary(name, fc.jsonValue()), fc.constantFrom(0, 1), (object, indent) => {
        const members = membersOf(rawOf(JSON.stringify(object, null, indent)), DEPTH);
        const read = [...members].map(([key, raw]) => [key, rawToValue(raw)]);
        assert.deepEqual(read, Object.entries(JSON.parse(JSON.stringify(object)) as object));
      }),
    );
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.constantFrom(0, 1), (array, indent) => {
        const elements = elementsOf(rawOf(JSON.stringify(array, null, indent)), DEPTH);
        assert.deepEqual(elements.map(rawToValue), JSON.parse(JSON.stringify(array)));
      }),
    );
    assert.equal(membersOf('{"a":1,"a":2}', DEPTH).get("a"), "2");
    assert.deepEqual(scanFirst('{"a":1} {', DEPTH), { ok: true, raw: '{"a":1}', rest: " {" });
    assert.equal(goJsonText({ a: "<\u2028>" }), '{"a":"\\u003c\\u2028\\u003e"}');
    assert.equal(quoteGo('a"\\\x01\x7f\xff'), '"a\\"\\\\\\x01\\x7fÿ"');
  });
});

const shown = (read: ReturnType<typeof argumentFromJson>): unknown => {
  if (!read.ok) return read.fault;
  return read.value instanceof Uint8Array ? Buffer.from(read.value).toString("hex") : read.value;
};

describe("arguments", () => {
  it("are read from JSON as CometBFT does", () => {
    const rows: readonly (readonly [kind: ArgumentKind, raw: string, expected: unknown])[] = [
      ["int64", '"5"', 5n],
      ["int64", '"-5"', -5n],
      ["int64", "5", 'invalid 64-bit integer encoding "5", expected string'],
      ["int64", '""', "unexpected end of JSON input"],
      ["int64", '"007"', "invalid character '0' after top-level value"],
      ["int64", '"1.5"', "json: cannot unmarshal number 1.5 into Go value of type int64"],
      ["int64", '"true"', "json: cannot unmarshal bool into Go value of type int64"],
      ["int64", '"null"', 0n],
      ["int64", "null", undefined],
      ["uint", '"-1"', "json: cannot unmarshal number -1 into Go value of type uint"],
      ["bool", "true", true],
      ["bool", '"true"', "json: cannot unmarshal string into Go value of type bool"],
      ["string", '"a"', "a"],
      ["string", "{}", "json: cannot unmarshal object into Go value of type string"],
      ["bytes", '"AAE="', "0001"],
      ["bytes", '"AAE"', "illegal base64 data at input byte 0"],
      ["hexBytes", '"0a"', "0a"],
      ["hexBytes", '"0aB"', "encoding/hex: odd length hex string"],
      ["hexBytes", '"0x"', "encoding/hex: invalid byte: U+0078 'x'"],
      ["hexBytes", "[]", "invalid hex string: []"],
    ];
    for (const [kind, raw, expected] of rows)
      assert.deepEqual(shown(argumentFromJson(kind, raw)), expected, `${kind} ${raw}`);
    assert.equal(shown(argumentFromBody("bytes", '"0xAB"')), "ab");
  });

  it("are read from addresses as CometBFT does", () => {
    const rows: readonly (readonly [kind: ArgumentKind, text: string, expected: unknown])[] = [
      ["int64", "5", 5n],
      ["int64", '"5"', 5n],
      ["int64", "0x5", "got a hex string arg, but expected 'int64'"],
      [
        "int64",
        "99999999999999999999",
        "json: cannot unmarshal number 99999999999999999999 into Go value of type int64",
      ],
      ["bool", "true", true],
      ["bool", "maybe", "invalid character 'm' looking for beginning of value"],
      ["string", '"a b"', "a b"],
      ["string", "0x6162", "ab"],
      ["string", "abc", "invalid character 'a' looking for beginning of value"],
      ["bytes", "0xABcd", "abcd"],
      ["bytes", "0Xab", "ab"],
      ["bytes", '"ab"', "6162"],
      ["bytes", "0xa", "encoding/hex: odd length hex string"],
      ["hexBytes", '"ab"', "6162"],
      ["bytes", "12", "json: cannot unmarshal number into Go value of type []uint8"],
    ];
    for (const [kind, text, expected] of rows)
      assert.deepEqual(shown(argumentFromText(kind, text)), expected, `${kind} ${text}`);
  });

  it("read base64 as Go does", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(), (bytes, at) => {
        const text = Buffer.from(bytes).toString("base64");
        assert.equal(shown(readBase64(text)), Buffer.from(bytes).toString("hex"));
        const broken = at % (text.length + 1);
        assert.equal(
          shown(readBase64(`${text.slice(0, broken)}\n${text.slice(broken)}`)),
          Buffer.from(bytes).toString("hex"),
        );
      }),
    );
    for (const [text, at] of [
      ["*", 0],
      ["A", 0],
      ["AA", 0],
      ["AAA", 0],
      ["AA=", 3],
      ["AA=A", 2],
      ["=AAA", 0],
      ["A=AA", 1],
      ["AAAA=", 4],
      ["AA===", 4],
      ["AAA=A", 4],
    ] as const) {
      assert.equal(shown(readBase64(text)), `illegal base64 data at input byte ${at}`, text);
    }
  });
});
