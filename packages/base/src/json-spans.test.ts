import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { jsonElementSpans, jsonMemberSpans, jsonValueEnd, skipJsonSpace } from "./json-spans.ts";

const space = fc.stringMatching(/^[ \n\r\t]{0,3}$/);

test("the spans of any object and array are its values' own texts", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      space,
      fc.constantFrom(undefined, 1),
      (value, pad, indent) => {
        const bytes = Buffer.from(pad + JSON.stringify(value, undefined, indent) + pad);
        const found = jsonMemberSpans(bytes, skipJsonSpace(bytes, 0));
        assert.ok(found !== undefined);
        assert.equal(skipJsonSpace(bytes, found.end), bytes.length);
        assert.deepEqual(
          found.members.map(({ key, start, end }) => [key, JSON.parse(bytes.toString("utf8", start, end))]),
          Object.entries(JSON.parse(JSON.stringify(value)) as Record<string, unknown>),
        );
      },
    ),
    { numRuns: 300 },
  );
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom(undefined, 1), (value, indent) => {
      const bytes = Buffer.from(JSON.stringify(value, undefined, indent));
      const found = jsonElementSpans(bytes, 0);
      assert.equal(found?.end, bytes.length);
      assert.deepEqual(
        found.elements.map(({ start, end }) => JSON.parse(bytes.toString("utf8", start, end))),
        JSON.parse(JSON.stringify(value)),
      );
    }),
    { numRuns: 300 },
  );
});

test("no proper beginning of an object or array is taken for whole", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())),
      fc.nat(),
      (value, cut) => {
        const bytes = Buffer.from(JSON.stringify(value));
        assert.equal(jsonValueEnd(bytes, 0), bytes.length);
        assert.equal(jsonValueEnd(bytes.subarray(0, cut % bytes.length), 0), -1);
      },
    ),
    { numRuns: 500 },
  );
});

test("long strings, escapes at every place, wrong brackets, depth", () => {
  for (let length = 80; length < 120; length++) {
    for (const tail of ["", "\\", '"', '\\"', "\\\\"]) {
      const bytes = Buffer.from(`${JSON.stringify("x".repeat(length) + tail)},`);
      assert.equal(jsonValueEnd(bytes, 0), bytes.length - 1, `${length} ${tail}`);
    }
  }
  for (const text of ["[}", '{"a":1]', "[<html>]", "<html>", "", "[[1]", '{"a" 1}', "nope"]) {
    assert.equal(jsonMemberSpans(Buffer.from(text), 0) ?? jsonElementSpans(Buffer.from(text), 0), undefined, text);
  }
  assert.equal(jsonValueEnd(Buffer.from("[".repeat(1_000_000)), 0), -1);
  assert.equal(jsonValueEnd(Buffer.from(`${"[".repeat(128)}${"]".repeat(128)}`), 0), 256);
});

test("keys are decoded, repeated ones are all told", () => {
  const found = jsonMemberSpans(Buffer.from('{"\\u0069d":1,"id":2,"é":3}'), 0);
  assert.deepEqual(
    found?.members.map(({ key }) => key),
    ["id", "id", "é"],
  );
});

/** Pieces of texts that are nearly, but often not quite, JSON. */
const nearlyJson = fc
  .array(
    fc.constantFrom(
      ...'{}[],:"\\ \t\n'.split(""),
      ..."0 1 -1 01 1. .5 1e5 1E+ -0 - true fals null nul NaN".split(" "),
      '"a":',
      '"b"',
      '"\\u0061":',
      '"\\"":',
      '"}"',
      "{}",
      "[1]",
      '{"id":[]}',
      "é",
      "//",
      "'a'",
    ),
    { maxLength: 10 },
  )
  .chain((parts) =>
    fc.constantFrom(parts.join(""), `{${parts.join("")}}`, `[${parts.join("")}]`, `{"a":${parts.join("")}}`),
  );

const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

test("what JSON.parse takes is found whole, and scalars, separators and keys are held to as it holds them", () => {
  let taken = 0;
  fc.assert(
    fc.property(nearlyJson, (text) => {
      const bytes = Buffer.from(text);
      const start = skipJsonSpace(bytes, 0);
      const end = jsonValueEnd(bytes, start);
      const isWhole = end !== -1 && skipJsonSpace(bytes, end) === bytes.length;
      const isJson = parses(text);
      if (isJson) {
        taken++;
        assert.ok(isWhole, text);
      }
      const first = text.charAt(start);
      if (first !== "{" && first !== "[" && first !== '"') assert.equal(isWhole, isJson, text);
      const members = first === "{" ? jsonMemberSpans(bytes, start) : undefined;
      const elements = first === "[" ? jsonElementSpans(bytes, start) : undefined;
      const spans = members?.members ?? elements?.elements;
      if (isJson && (first === "{" || first === "[")) assert.ok(spans !== undefined, text);
      const found = members ?? elements;
      if (spans === undefined || found === undefined) return;
      // With something simple in the place of each nested value or string, it is JSON: only what is in them is not read.
      let simple = bytes.toString("latin1", 0, found.end);
      for (const span of spans.toReversed()) {
        const isRead = !/["{[]/.test(simple.charAt(span.start));
        if (!isRead) simple = `${simple.slice(0, span.start)}0${simple.slice(span.end)}`;
      }
      assert.ok(parses(simple), text);
    }),
    { numRuns: 20_000 },
  );
  assert.ok(taken > 1_000, String(taken));
});
