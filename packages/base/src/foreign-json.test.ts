import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type ForeignJsonLimits, ForeignJsonReader, readForeignJson } from "./foreign-json.ts";

const LIMITS = { maxBytes: 1_000, maxDepth: 8, maxValues: 20 };
const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const read = (text: string, limits: ForeignJsonLimits = LIMITS) => readForeignJson(Buffer.from(text), limits);

suite("foreign JSON", () => {
  test("what is at each bound is read, and what is beyond it is refused by name", () => {
    assert.deepEqual(read(nested(8)), { ok: true, value: JSON.parse(nested(8)) as unknown, text: nested(8) });
    assert.deepEqual(read(nested(9)), { ok: false, fault: "depth" });
    const list = (length: number): string => JSON.stringify(Array.from({ length }, (_, at) => at));
    assert.equal(read(list(19)).ok, true, "the list is a value too");
    assert.deepEqual(read(list(20)), { ok: false, fault: "values" });
    assert.equal(read(`"${"a".repeat(998)}"`).ok, true);
    assert.deepEqual(read(`"${"a".repeat(999)}"`), { ok: false, fault: "size" });
  });

  test("values are counted alike in every form: compact strings, members, nested lists, white space", () => {
    const forms: readonly ((count: number) => string)[] = [
      (count) => JSON.stringify(Array.from({ length: count - 1 }, () => "a")),
      (count) => JSON.stringify(Object.fromEntries(Array.from({ length: count - 1 }, (_, at) => [`k${at}`, "v"]))),
      (count) => JSON.stringify(Object.fromEntries(Array.from({ length: count - 1 }, (_, at) => [`k${at}`, at]))),
      (count) => `[ ${Array.from({ length: count - 1 }, () => "{ }").join(" , ")} ]`,
      (count) => `[${Array.from({ length: count - 1 }, () => '"\\u0041"').join(",")}]`,
    ];
    for (const form of forms) {
      assert.equal(read(form(20)).ok, true, form(3));
      assert.deepEqual(read(form(21)), { ok: false, fault: "values" }, form(3));
    }
  });

  test("attack: millions of brackets and keys are refused while they arrive, without being kept", () => {
    const reader = new ForeignJsonReader({ maxBytes: 1e9, maxDepth: 2_500, maxValues: 1_000_000 });
    const part = Buffer.from("{},".repeat(100_000));
    assert.equal(reader.write(Buffer.from("[")), true);
    let parts = 0;
    while (reader.write(part)) parts++;
    assert.equal(parts, 9, "the tenth part holds the millionth value");
    assert.equal(reader.write(part), false);
    assert.deepEqual(reader.end(), { ok: false, fault: "values" });
    assert.deepEqual(read(nested(2_000_000), { ...LIMITS, maxBytes: 1e9 }), { ok: false, fault: "depth" });
  });

  test("what is no whole document says why", () => {
    const faults = [
      ["", "empty"],
      ["<html>", "syntax"],
      ["{} {}", "syntax"],
      ['{"a":1', "cut"],
      ['"abc', "cut"],
      ["  ", "cut"],
    ] as const;
    for (const [text, fault] of faults) assert.deepEqual(read(text), { ok: false, fault }, text);
    assert.deepEqual(readForeignJson(Buffer.from([0x22, 0xff, 0x22]), LIMITS), { ok: false, fault: "utf8" });
  });

  test("halves of surrogate pairs become U+FFFD, in keys too; whole pairs and escaped backslashes stay", () => {
    const text = String.raw`{"\ud800":"\udc00\ud83d\ude00\ud83d","b":"\\ud800"}`;
    assert.deepEqual(read(text), {
      ok: true,
      value: { "\ufffd": "\ufffd\u{1f600}\ufffd", b: String.raw`\ud800` },
      text: String.raw`{"\ufffd":"\ufffd\ud83d\ude00\ufffd","b":"\\ud800"}`,
    });
  });

  test("the text is as it was sent, and a document of more values than are parsed is there as a text alone", () => {
    const text = '{ "a":12345678901234567890, "a":1e999 }\n';
    assert.deepEqual(read(text), { ok: true, value: { a: Number.POSITIVE_INFINITY }, text });
    assert.deepEqual(read(text, { ...LIMITS, maxParsedValues: 2 }), { ok: true, value: undefined, text });
    assert.deepEqual(read("[1]", { ...LIMITS, maxParsedValues: 2 }), { ok: true, value: [1], text: "[1]" });
  });

  test("`__proto__` is a member like any other", () => {
    const result = read('{"__proto__":{"isAdmin":true}}');
    assert.ok(result.ok);
    assert.equal(Object.getPrototypeOf(result.value), Object.prototype);
    assert.deepEqual(Object.keys(result.value as object), ["__proto__"]);
  });
});
