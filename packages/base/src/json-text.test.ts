import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { compactJson, indentJson, isExactNumber, jsonMembersNamed } from "./json-text.ts";

suite("JSON as a text", () => {
  test("property: the compact text of what has no number beyond doubles is what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, 2, "\t"), (value, space) => {
        const expected = JSON.stringify(value);
        const { text, isCut } = compactJson(JSON.stringify(value, null, space));
        assert.equal(text, expected);
        assert.equal(isCut, false);
        assert.equal(indentJson(text), JSON.stringify(value, null, 2));
      }),
    );
  });

  test("numbers, repeated keys and their order stay as they are, and escapes of strings become characters", () => {
    const json = String.raw` { "b" : 12345678901234567890, "a":1e999 ,"2":-0,"1":0.10, "a" : "caf\u00e9\/\n", "s":[ ] }`;
    const compact = String.raw`{"b":12345678901234567890,"a":1e999,"2":-0,"1":0.10,"a":"café/\n","s":[]}`;
    assert.deepEqual(compactJson(json), { text: compact, isCut: false, isExact: false });
    assert.match(indentJson(json), /^ {2}"b": 12345678901234567890,\n {2}"a": 1e999,$/m);
    assert.match(indentJson(json), /^ {2}"s": \[\]\n\}$/m);
  });

  test("reads no further than its bound", () => {
    const json = `[${"1, ".repeat(1_000)}1]`;
    const { text, isCut } = compactJson(json, { maxCharacters: 7 });
    assert.deepEqual([text, isCut], ["[1,1,1,", true]);
    assert.deepEqual(compactJson('["abcdefgh"]', { maxCharacters: 5 }), { text: '["abc', isCut: true, isExact: true });
    assert.equal(compactJson("[1]  ", { maxCharacters: 3 }).isCut, false);
    assert.equal(compactJson('{"data":[1],"x":2}', { start: 8, end: 11 }).text, "[1]");
  });

  test("property: a bounded text is the beginning of the whole one, also within strings of escapes", () => {
    const character = fc.constantFrom("a", "\\u00e9", "\\\\", '\\"', "\\n", "\\ud83d\\ude00", "\\\\u0041", "é");
    const json = fc
      .array(fc.array(character, { maxLength: 40 }))
      .map((strings) =>
        JSON.stringify(strings.map((parts) => JSON.parse(`"${parts.join("")}"`) as string)).replaceAll("é", "\\u00e9"),
      );
    fc.assert(
      fc.property(json, fc.nat(60), (text, maxCharacters) => {
        const whole = compactJson(text).text;
        const cut = compactJson(text, { maxCharacters });
        assert.deepEqual([cut.text, cut.isCut], [whole.slice(0, maxCharacters), whole.length > maxCharacters]);
      }),
    );
  });

  test("indents neither what is nested deeply nor what is long", () => {
    const deep = "[".repeat(33) + "]".repeat(33);
    assert.equal(indentJson(deep), deep);
    assert.match(indentJson(deep.slice(1, -1)), /\n/);
    const long = `["${"a".repeat(1_048_576)}"]`;
    assert.equal(indentJson(long), long);
    const brackets = '{"a":"}{][,:\\""}';
    assert.equal(indentJson(brackets), JSON.stringify(JSON.parse(brackets), null, 2));
  });

  test("a number is exact where a double has its value", () => {
    const exact = [
      "0",
      "1",
      "-1.5",
      "0.1",
      "1.0",
      "1e3",
      "1E+3",
      "123456789012345",
      "9007199254740992",
      "1e22",
      "0e999",
    ];
    const inexact = ["9007199254740993", "12345678901234567890", "1e999", "-1e999", "1e-999", "-0", "-0.0"];
    for (const token of exact) assert.equal(isExactNumber(token), true, token);
    for (const token of [...inexact, "0.10000000000000000555", `1${"0".repeat(5_000)}`]) {
      assert.equal(isExactNumber(token), false, token);
    }
  });

  test("property: a double as JavaScript writes it is exact", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        assert.equal(isExactNumber(JSON.stringify(value)), true);
      }),
    );
  });

  test("members of the outermost object are listed by name, each as often as it is there", () => {
    const json = String.raw` {"portal" : {"data":1,"x":"}"}, "d\u0061ta":[{"data":2}] ,"data": 3e5, "other":"\"data\":4"} `;
    const members = jsonMembersNamed(json, ["portal", "data"]);
    const texts = (name: string) => members?.get(name)?.map(({ start, end }) => json.slice(start, end));
    assert.deepEqual(texts("portal"), ['{"data":1,"x":"}"}']);
    assert.deepEqual(texts("data"), ['[{"data":2}]', "3e5"]);
    assert.equal(texts("other"), undefined);
    for (const other of ["[1]", "1", '"{}"', " null "]) assert.equal(jsonMembersNamed(other, ["a"]), undefined, other);
    assert.equal(jsonMembersNamed("{ }", ["a"])?.size, 0);
  });
});
