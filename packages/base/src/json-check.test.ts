import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { isJson, JsonCheck, MAX_CHECKED_DEPTH } from "./json-check.ts";

const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

/** Kinds of texts, named as those of JSONTestSuite: `y_` is JSON, `n_` is not. */
const CASES: readonly (readonly [name: string, text: string])[] = [
  ["y_array_empty", "[]"],
  ["y_array_spaces", " [ ] "],
  ["y_array_heterogeneous", '[null, 1, "1", {}, [], true, false, -0.5e-7]'],
  ["y_array_newlines", "[\n1\r,\t2]\n"],
  ["y_object_empty", "{}"],
  ["y_object_empty_key", '{"":0}'],
  ["y_object_duplicated_key", '{"a":1,"a":2}'],
  ["y_object_escaped_key", '{"\\u0069d\\n":1}'],
  ["y_object_nul_escaped", '{"foo\\u0000bar": 42}'],
  ["y_lone_string", '"a"'],
  ["y_lone_number", "-0"],
  ["y_lone_word", "false"],
  ["y_string_escapes", '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00eF"'],
  ["y_string_lone_surrogate", '["\\uD800"]'],
  ["y_string_del", '["\u007f"]'],
  ["y_string_utf8", '["é€😀\u2028"]'],
  ["y_number_exponents", "[1e5,1E+5,1e-5,0e0,1.0E00]"],
  ["y_number_huge", `[${"9".repeat(400)}]`],
  ["y_deep", nested(MAX_CHECKED_DEPTH)],
  ["n_empty", ""],
  ["n_space", " "],
  ["n_array_comma_first", "[,1]"],
  ["n_array_comma_last", "[1,]"],
  ["n_array_comma_twice", "[1,,2]"],
  ["n_array_colon", '["a":1]'],
  ["n_array_no_comma", "[1 2]"],
  ["n_array_unclosed", "[1"],
  ["n_array_closed_twice", "[1]]"],
  ["n_array_wrong_bracket", "[1}"],
  ["n_array_text_after", "[1]x"],
  ["n_object_comma_last", '{"a":1,}'],
  ["n_object_comma_first", '{,"a":1}'],
  ["n_object_no_colon", '{"a" 1}'],
  ["n_object_two_colons", '{"a"::1}'],
  ["n_object_no_value", '{"a":}'],
  ["n_object_number_key", "{1:1}"],
  ["n_object_bare_key", "{a:1}"],
  ["n_object_key_alone", '{"a"}'],
  ["n_object_single_quotes", "{'a':1}"],
  ["n_object_unclosed", '{"a":1'],
  ["n_two_values", "{}{}"],
  ["n_comment", "[1/*x*/]"],
  ["n_bom", "\ufeff[]"],
  ["n_form_feed", "[\f1]"],
  ["n_no_break_space", "[\u00a01]"],
  ["n_word_upper", "[True]"],
  ["n_word_cut", "[nul]"],
  ["n_word_long", "[nulll]"],
  ["n_word_NaN", "[NaN]"],
  ["n_number_plus", "[+1]"],
  ["n_number_zero_first", "[01]"],
  ["n_number_minus_zero_first", "[-01]"],
  ["n_number_point_first", "[.5]"],
  ["n_number_point_last", "[1.]"],
  ["n_number_minus", "[-]"],
  ["n_number_exponent_cut", "[1e]"],
  ["n_number_exponent_sign", "[1e+]"],
  ["n_number_exponent_twice", "[1e5e5]"],
  ["n_number_exponent_point", "[1e5.5]"],
  ["n_number_hex", "[0x1]"],
  ["n_string_unclosed", '["a]'],
  ["n_string_newline", '["a\nb"]'],
  ["n_string_tab", '["a\tb"]'],
  ["n_string_nul", '["a\u0000b"]'],
  ["n_string_unit_separator", '["a\u001fb"]'],
  ["n_string_escape_unknown", '["\\x00"]'],
  ["n_string_escape_cut", '["\\'],
  ["n_string_escape_of_quote", '["\\"]'],
  ["n_string_unicode_cut", '["\\u00A"]'],
  ["n_string_unicode_letters", '["\\u00zz"]'],
  ["n_string_control_in_key", '{"a\u0001":1}'],
];

/** A text alone, and behind and before so much that strings are hopped over. */
const around = (text: string): readonly string[] => [text, `["${"x".repeat(200)}",${text},"${"y".repeat(200)}"]`];

suite("bytes are held against the grammar of JSON", () => {
  test("kinds of JSONTestSuite", () => {
    for (const [name, text] of CASES) {
      const isValid = name.startsWith("y_");
      assert.equal(parses(text), isValid, `JSON.parse: ${name}`);
      assert.equal(isJson(Buffer.from(text)), isValid, name);
      for (const more of around(text)) {
        if (name !== "y_deep") assert.equal(isJson(Buffer.from(more)), parses(more), `${name} in ${more}`);
      }
    }
  });

  test("deeper nesting", () => {
    assert.equal(isJson(Buffer.from(nested(MAX_CHECKED_DEPTH + 1))), false);
    assert.equal(isJson(Buffer.from(nested(2_000_000))), false);
    assert.equal(isJson(Buffer.from(`{"a":`.repeat(2_000_000))), false);
  });

  const piece = fc.constantFrom(
    ...'{}[],:"\\ \t\n\u0000\u001f'.split(""),
    ..."0 1 -1 01 1. .5 1e5 1E+ -0 - true fals null nul NaN".split(" "),
    '"a":',
    '"b"',
    '"\\u0061":',
    '"\\u00"',
    "{}",
    "[1]",
    '{"id":[]}',
    "é",
    `"${"x".repeat(150)}"`,
  );
  const nearly = fc.array(piece, { maxLength: 12 }).map((parts) => parts.join(""));
  const changed = fc
    .tuple(fc.jsonValue(), fc.constantFrom(undefined, 1), fc.nat(), piece, fc.nat(2))
    .map(([value, indent, at, part, length]) => {
      const text = JSON.stringify(value, undefined, indent);
      const place = at % (text.length + 1);
      return text.slice(0, place) + part + text.slice(place + length);
    });
  const text = fc.oneof(
    fc.json(),
    changed,
    nearly,
    nearly.map((parts) => `[${parts}]`),
    nearly.map((parts) => `{"a":${parts}}`),
  );

  test("as JSON.parse does, in one piece or cut anywhere", () => {
    let valid = 0;
    fc.assert(
      fc.property(text, fc.nat(), fc.nat(3), (json, cut, offset) => {
        const whole = Buffer.from(json);
        const isValid = parses(json);
        if (isValid) valid++;
        // At another place in memory, four bytes at once are others.
        const moved = Buffer.concat([Buffer.alloc(offset, "x"), whole, Buffer.from('"x')]);
        assert.equal(isJson(moved, offset, offset + whole.length), isValid, json);
        const place = cut % (whole.length + 1);
        const check = new JsonCheck();
        const isTaken = check.write(whole, 0, place) && check.write(whole, place) && check.end();
        assert.equal(isTaken, isValid, `${json} cut at ${place}`);
      }),
      { numRuns: 20_000 },
    );
    assert.ok(valid > 2_000, String(valid));
  });
});
