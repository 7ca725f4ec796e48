import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { hasLoneSurrogate, isRecord, parseJson } from "./json.ts";

/** What JSON.parse says of a text. */
function reference(text: string): { ok: true; value: unknown } | { ok: false } {
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch {
    return { ok: false };
  }
}

/** Pieces that make texts which are nearly, but often not quite, JSON. */
const nearlyJson = fc
  .array(
    fc.constantFrom(
      ...'{}[],:"\\ \t\n\r'.split(""),
      "0",
      "1",
      "-",
      "01",
      "1.",
      ".5",
      "1e5",
      "1E+",
      "-0",
      "true",
      "false",
      "null",
      "nul",
      "NaN",
      '"a"',
      '"b":',
      '"\\u00',
      '"\\ud800"',
      '"\\x"',
      '"\u0000"',
      "\u00a0",
      "\ufeff",
      "\u2028",
      "//",
      "'a'",
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

suite("parseJson", () => {
  test("property: reads every document that JSON.stringify writes, as JSON.parse does", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, "\t"), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        const result = parseJson(text);
        assert.ok(result.ok);
        assert.deepEqual(result.value, JSON.parse(text));
        assert.equal(result.text, text);
      }),
      { numRuns: 1_000 },
    );
  });

  test("property: takes and refuses the texts that JSON.parse does, but for repeated keys", () => {
    fc.assert(
      fc.property(fc.oneof(nearlyJson, fc.string(), fc.json()), (text) => {
        const ours = parseJson(text);
        const theirs = reference(text);
        if (ours.ok) assert.deepEqual({ ok: true, value: ours.value }, theirs);
        else if (ours.reason !== "duplicate") assert.equal(theirs.ok, false, `${JSON.stringify(text)}: ${ours.reason}`);
      }),
      { numRuns: 20_000 },
    );
  });

  test("property: an object that repeats a key is refused at any depth, however the key is spelled", () => {
    const key = fc.string({ minLength: 1, maxLength: 5 });
    const spelled = (text: string): string =>
      `"${[...Array(text.length).keys()].map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")}"`;
    fc.assert(
      fc.property(key, fc.nat(20), fc.boolean(), (name, depth, escaped) => {
        const second = escaped ? spelled(name) : JSON.stringify(name);
        const text = `${'{"x":['.repeat(depth)}{${JSON.stringify(name)}:1,"other":{},${second}:2}${"]}".repeat(depth)}`;
        assert.ok(reference(text).ok);
        const result = parseJson(text);
        if (name === "other") return;
        assert.deepEqual(result, { ok: false, reason: "duplicate", key: name });
      }),
    );
  });

  test("property: top-level members keep their raw text", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 6 }), (value) => {
        const text = JSON.stringify(value, undefined, 1);
        const result = parseJson(text);
        assert.ok(result.ok);
        assert.deepEqual(result.members.map(({ key }) => key).sort(), Object.keys(value).sort());
        for (const { key, raw } of result.members) {
          assert.ok(text.includes(raw));
          assert.deepEqual(JSON.parse(raw), JSON.parse(JSON.stringify(value[key])));
        }
      }),
    );
  });

  test("keeps the raw text of an id that a number would change", () => {
    for (const raw of ["1.0", "1e2", "-0", "12345678901234567890", '"\\u0041"', "null"]) {
      const result = parseJson(` { "id" : ${raw} , "a": [1, {"id": 2}] } `);
      assert.ok(result.ok);
      assert.deepEqual(result.members, [
        { key: "id", raw },
        { key: "a", raw: '[1, {"id": 2}]' },
      ]);
    }
  });

  test("bounds the depth, also where JSON.parse would not", () => {
    const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
    assert.ok(parseJson(nested(64)).ok);
    assert.deepEqual(parseJson(nested(65)), { ok: false, reason: "depth" });
    assert.deepEqual(parseJson("[".repeat(1_000_000)), { ok: false, reason: "depth" });
    assert.deepEqual(parseJson('{"a":'.repeat(1_000_000)), { ok: false, reason: "depth" });
    assert.ok(parseJson(nested(3), { maxDepth: 3 }).ok);
    assert.deepEqual(parseJson(nested(4), { maxDepth: 3 }), { ok: false, reason: "depth" });
  });

  test("bounds the number of nodes", () => {
    assert.ok(parseJson("[1,2,3]", { maxNodes: 4 }).ok);
    assert.deepEqual(parseJson("[1,2,3,4]", { maxNodes: 4 }), { ok: false, reason: "nodes" });
    assert.deepEqual(parseJson(`[${"0,".repeat(100_000)}0]`), { ok: false, reason: "nodes" });
  });

  test("reads 16 MB of one string, of escapes, of white space, of digits", () => {
    const size = 16_000_000;
    for (const text of [
      `"${"x".repeat(size)}"`,
      `"${"\\n".repeat(size / 2)}"`,
      `${" ".repeat(size)}1`,
      "1".repeat(size),
    ]) {
      assert.ok(parseJson(text).ok, text.slice(0, 8));
    }
  });

  test("makes __proto__ an own property and leaves prototypes alone", () => {
    const result = parseJson('{"__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}}}');
    assert.ok(result.ok);
    assert.ok(isRecord(result.value));
    assert.equal(Object.getPrototypeOf(result.value), Object.prototype);
    assert.equal(result.value.admin, undefined);
    assert.ok(Object.hasOwn(result.value, "__proto__"));
    assert.equal(({} as Record<string, unknown>).admin, undefined);
    assert.deepEqual(parseJson('{"__proto__":1,"__proto__":2}'), { ok: false, reason: "duplicate", key: "__proto__" });
  });

  test("refuses bytes that are not UTF-8, and a byte order mark", () => {
    assert.deepEqual(parseJson(Uint8Array.of(0x22, 0xff, 0x22)), { ok: false, reason: "utf8" });
    assert.deepEqual(parseJson(Uint8Array.of(0x22, 0xc0, 0x80, 0x22)), { ok: false, reason: "utf8" });
    assert.deepEqual(parseJson(Uint8Array.of(0xef, 0xbb, 0xbf, 0x31)), { ok: false, reason: "syntax" });
    assert.deepEqual(parseJson(""), { ok: false, reason: "syntax" });
  });
});

test("isRecord takes objects only", () => {
  assert.deepEqual([{}, { a: 1 }, Object.create(null)].map(isRecord), [true, true, true]);
  assert.deepEqual([null, undefined, [], "x", 1].map(isRecord), [false, false, false, false, false]);
});

suite("halves of surrogate pairs", () => {
  const units = fc
    .array(fc.oneof(fc.integer({ min: 0xd700, max: 0xe0ff }), fc.integer({ min: 0, max: 0xffff }), fc.constant(0x5c)))
    .map((codes) => String.fromCharCode(...codes));
  const escaped = (text: string, isUpper: boolean): string =>
    Array.from({ length: text.length }, (_, at) => {
      const hex = text.charCodeAt(at).toString(16).padStart(4, "0");
      return `\\u${isUpper ? hex.toUpperCase() : hex}`;
    }).join("");

  test("a text has one exactly when a string of it is not well-formed", () => {
    fc.assert(
      fc.property(units, fc.boolean(), (text, isUpper) => {
        assert.equal(hasLoneSurrogate(JSON.stringify([text])), !text.isWellFormed());
        assert.equal(hasLoneSurrogate(JSON.stringify({ [text]: 1 })), !text.isWellFormed());
        assert.equal(hasLoneSurrogate(`["${escaped(text, isUpper)}"]`), !text.isWellFormed());
      }),
      { numRuns: 2_000 },
    );
  });
});
