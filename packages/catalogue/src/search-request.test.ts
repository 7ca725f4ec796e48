import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { MAX_SEARCH_BODY_BYTES, parseSearchRequest, type SearchRequest } from "./search-request.ts";

const parse = (body: string): SearchRequest => parseSearchRequest(Buffer.from(body));

const types = (body: string): readonly string[] => {
  const parsed = parse(body);
  assert.ok(!parsed.ok && parsed.reason === "invalid", body);
  return parsed.detail.map(({ type }) => type);
};

test("a search that is valid keeps its query's text as sent", () => {
  assert.deepEqual(parse('{"query":"caf\\u00e9","max_results":7.0,"more":[1]}'), {
    ok: true,
    query: "café",
    rawQuery: '"caf\\u00e9"',
    maxResults: 7,
  });
  assert.deepEqual(parse('{"query":" x "}'), { ok: true, query: " x ", rawQuery: '" x "', maxResults: undefined });
  for (const wish of ["51", "1e3", "1e400"]) {
    const parsed = parse(`{"query":"x","max_results":${wish}}`);
    assert.ok(parsed.ok);
    assert.equal(parsed.maxResults, 50);
  }
});

test("hostile bodies: NUL, lone surrogates, repeated keys, other shapes", () => {
  assert.deepEqual(types('{"query":"a\\u0000"}'), ["value_error"]);
  assert.deepEqual(types('{"query":"\\udc00"}'), ["string_unicode"]);
  assert.deepEqual(types('{"query":"a\u0000"}'), ["json_invalid"]);
  assert.deepEqual(types("null"), ["model_attributes_type"]);
  assert.deepEqual(types('{"max_results":0}'), ["missing", "greater_than_equal"]);
  assert.deepEqual(types('{"query":"x","max_results":-1e400}'), ["greater_than_equal"]);
  assert.deepEqual(types('{"query":"x","max_results":0.5}'), ["int_from_float"]);
  assert.deepEqual(parse('{"query":"a","qu\\u0065ry":"b"}'), { ok: false, reason: "duplicate", key: "query" });
  assert.deepEqual(parse("[]"), { ok: false, reason: "batch" });
  assert.deepEqual(parse(" ".repeat(MAX_SEARCH_BODY_BYTES + 1)), { ok: false, reason: "too_large" });
  assert.deepEqual(types(" ".repeat(MAX_SEARCH_BODY_BYTES)), ["json_invalid"]);
});

test("any JSON is read or refused; what is read is a query that says something", () => {
  const body = fc.oneof(
    fc.json(),
    fc
      .record({ query: fc.string({ unit: anyCodePoint }), max_results: fc.anything() }, { requiredKeys: [] })
      .map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(body, (text) => {
      const parsed = parse(text);
      if (!parsed.ok) return;
      assert.ok(parsed.query.trim() !== "" && parsed.query.isWellFormed() && !parsed.query.includes("\0"));
      assert.equal(JSON.parse(parsed.rawQuery), parsed.query);
      const { maxResults = 1 } = parsed;
      assert.ok(Number.isInteger(maxResults) && maxResults >= 1 && maxResults <= 50);
    }),
  );
});
