import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { DatabaseError } from "pg";
import { readBody } from "./body.ts";
import { parseCsv } from "./csv.ts";
import { databaseFailure, statusOf } from "./database-failure.ts";
import { RateLimit } from "./limits.ts";
import { chooseDocument, chooseRows } from "./media.ts";
import { readPreferences } from "./preferences.ts";
import { contentRange, rangeStatus, readRange } from "./range.ts";
import { readTarget } from "./target.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text);

suite("what HTTP says", () => {
  test("Accept: by quality, then by order; nothing that fits is nothing", () => {
    assert.equal(chooseRows(undefined)?.media, "json");
    assert.equal(chooseRows("text/html, */*;q=0.1")?.media, "json");
    assert.equal(chooseRows("text/csv;q=0.5, application/vnd.pgrst.object+json")?.media, "object");
    assert.equal(chooseRows("application/json;q=0, text/csv")?.media, "csv");
    assert.equal(chooseRows("application/vnd.pgrst.object;nulls=stripped")?.stripsNulls, true);
    assert.equal(chooseRows("text/html"), undefined);
    assert.equal(chooseRows("application/json;q=x"), undefined);
    assert.equal(chooseDocument("application/openapi+json"), "swagger-2.0");
    assert.equal(chooseDocument("application/vnd.oai.openapi+json;version=3.0"), "openapi-3.0");
    assert.equal(chooseDocument("application/json"), "openapi-3.1");
    assert.equal(chooseDocument("text/csv"), undefined);
  });

  test("Prefer: what is applied depends on the verb, and strict alone reports what is unknown", () => {
    const all =
      "resolution=merge-duplicates, missing=default, return=minimal, count=exact, handling=strict, max-affected=3";
    const applied = (verb: Parameters<typeof readPreferences>[1]): string =>
      readPreferences(all, verb).preferences.applied.join(", ");
    assert.equal(applied("GET"), "count=exact, handling=strict");
    assert.equal(
      applied("POST"),
      "resolution=merge-duplicates, missing=default, return=minimal, count=exact, handling=strict",
    );
    assert.equal(applied("PATCH"), "missing=default, return=minimal, count=exact, handling=strict, max-affected=3");
    assert.equal(applied("DELETE"), "return=minimal, count=exact, handling=strict, max-affected=3");
    assert.deepEqual(readPreferences("a=b, handling=strict, return", "GET").unknown, ["a=b", "return"]);
    assert.deepEqual(readPreferences("a=b, constructor=x", "GET").unknown, []);
    assert.equal(readPreferences("max-affected=3", "PATCH").preferences.maxAffected, undefined);
    assert.equal(readPreferences("count=exact,count=planned", "GET").preferences.count, "exact");
    fc.assert(fc.property(fc.string(), (text) => void readPreferences(text, "POST")));
  });

  test("Range and its answers", () => {
    assert.deepEqual(readRange("GET", "0-9", "items").range, { from: 0, to: 9 });
    assert.deepEqual(readRange("GET", "5-", undefined).range, { from: 5, to: undefined });
    for (const text of ["-5", "a-b", "1", "bytes=0-1", "1-2,4-5", ""])
      assert.equal(readRange("GET", text, "items").range, undefined);
    assert.equal(readRange("HEAD", "0-9", "items").range, undefined);
    assert.equal(readRange("GET", "3-2", "items").isEmpty, true);
    assert.deepEqual(
      [contentRange(0, 14, undefined), contentRange(0, -1, undefined), contentRange(0, -1, 0)],
      ["0-14/*", "*/*", "*/0"],
    );
    assert.deepEqual(
      [rangeStatus(0, 1, 2), rangeStatus(0, 0, 2), rangeStatus(3, 2, 2), rangeStatus(2, 1, 2)],
      [200, 206, 416, 206],
    );
  });

  test("CSV: whatever is written is read back", () => {
    const field = fc.string({ unit: fc.constantFrom("a", '"', ",", "\n", "\r", "ä", " ") });
    const quote = (text: string): string => `"${text.replaceAll('"', '""')}"`;
    fc.assert(
      fc.property(
        fc.array(fc.array(field, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 }),
        (records) => {
          const text = records.map((record) => record.map(quote).join(",")).join("\r\n");
          assert.deepEqual(parseCsv(text, 100), records);
        },
      ),
    );
    assert.deepEqual(parseCsv("a,b\n1,\n", 10), [
      ["a", "b"],
      ["1", ""],
    ]);
    assert.deepEqual(parseCsv(",", 10), [["", ""]]);
    for (const bad of ['"a', 'a"b', '"a"b']) assert.equal(parseCsv(bad, 10), undefined, bad);
    assert.equal(parseCsv("a,b,c", 2), undefined);
  });

  test("bodies: objects and lists of them, numbers kept as written, and nothing else", () => {
    const read = (text: string, type?: string) => readBody(bytes(text), type);
    assert.deepEqual(read('{"a":1}'), { ok: true, rows: { rows: [{ a: 1 }], isList: false } });
    assert.deepEqual(read("[]"), { ok: true, rows: { rows: [], isList: true } });
    assert.deepEqual(read('[{"a":10.00000000000000000001,"b":[0.1,1234567890.12345678901],"c":-1.5e2}]'), {
      ok: true,
      rows: { rows: [{ a: "10.00000000000000000001", b: [0.1, "1234567890.12345678901"], c: -150 }], isList: true },
    });
    assert.deepEqual(read('{"a":9007199254740993,"b":1e400,"c":"9007199254740993"}'), {
      ok: true,
      rows: { rows: [{ a: "9007199254740993", b: "1e400", c: "9007199254740993" }], isList: false },
    });
    for (const text of ["", "null", "1", "[1]", '{"a":1,"a":2}', "{", "[[]]", "\ufeff{}"])
      assert.equal(read(text).ok, false, text);
    assert.equal(read("{}", "application/json; charset=latin1").ok, false);
    assert.equal(readBody(Uint8Array.of(0x7b, 0xff), undefined).ok, false);
    assert.equal(read("a,a\n1,2", "text/csv").ok, false);
    assert.equal(read("a,b\n1", "text/csv").ok, false);
    assert.equal(read("a=1&a=2", "application/x-www-form-urlencoded").ok, false);
    const proto = read('{"__proto__":{"x":1}}');
    assert.ok(proto.ok && Object.hasOwn(proto.rows?.rows[0] ?? {}, "__proto__"));
    const inCsv = read("__proto__\nx", "text/csv");
    assert.ok(inCsv.ok && Object.hasOwn(inCsv.rows?.rows[0] ?? {}, "__proto__"));
  });

  test("targets: one segment, decoded once", () => {
    assert.deepEqual(readTarget("/a%2Fb?x=1"), { kind: "table", table: "a/b", query: "x=1" });
    assert.deepEqual(readTarget("/%2561"), { kind: "table", table: "%61", query: "" });
    for (const url of ["/a/b", "*", "http://x/a", "/%zz", "//a", "/a/"]) assert.equal(readTarget(url).kind, "bad", url);
  });

  test("SQLSTATE: status by its class, details only where they are keys", () => {
    const wanted: Record<string, number> = {
      "23503": 409,
      "23505": 409,
      "23514": 400,
      "22P02": 400,
      "42501": 403,
      "42P01": 404,
      "25006": 405,
      "57014": 500,
      "57P01": 503,
      "53300": 503,
      "08006": 503,
      "40001": 500,
      PT409: 409,
      PT200: 400,
    };
    for (const [code, status] of Object.entries(wanted)) assert.equal(statusOf(code), status, code);
    const report = (code: string, detail: string, hint = "a hint"): DatabaseError => {
      const error = new DatabaseError("a message", 1, "error");
      return Object.assign(error, { code, detail, hint, severity: "ERROR" });
    };
    assert.equal(databaseFailure(report("22P02", "of a row")).details, null);
    assert.equal(databaseFailure(report("23514", "Failing row contains (secret)")).details, null);
    assert.equal(
      databaseFailure(report("23505", "Key (a)=(1) already exists.")).details,
      "Key (a)=(1) already exists.",
    );
    assert.equal(databaseFailure(report("42703", "", 'Perhaps you meant "secret".')).hint, null);
    assert.doesNotMatch(JSON.stringify(databaseFailure(report("XX000", "internal"))), /a message|internal/);
    assert.deepEqual(
      [databaseFailure(new TypeError("inside")).status, databaseFailure(new TypeError("inside")).code],
      [500, "PGRSTX00"],
    );
    const lost = Object.assign(new Error("connect ECONNREFUSED 10.0.0.1:5432"), { code: "ECONNREFUSED" });
    assert.deepEqual([databaseFailure(lost).status, /10\.0/.test(databaseFailure(lost).message)], [503, false]);
  });

  test("a rate: bursts, then one a step; a key forgotten is the one unseen for longest", () => {
    let now = 0;
    const clock = { nowMs: () => now, monotonicMs: () => now };
    const limit = new RateLimit({ perSecond: 10, burst: 3, maxKeys: 2 }, { clock });
    assert.deepEqual([limit.take("a"), limit.take("a"), limit.take("a"), limit.take("a")], [0, 0, 0, 100]);
    now = 100;
    assert.deepEqual([limit.take("a"), limit.take("a")], [0, 100]);
    limit.take("b");
    limit.take("c");
    assert.equal(limit.take("a"), 0);
  });
});
