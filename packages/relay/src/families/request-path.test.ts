import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { checkPath, formatPath, formatQuery, parsePath } from "./request-path.ts";

test("well-formed paths are split and decoded once", () => {
  assert.deepEqual(parsePath("/a/b"), ["a", "b"]);
  assert.deepEqual(parsePath("/denoms/ibc%2FABC"), ["denoms", "ibc/ABC"]);
  assert.deepEqual(parsePath("/x:y@z/%C3%A9"), ["x:y@z", "é"]);
  assert.equal(checkPath(""), "ok");
  assert.equal(checkPath("/status"), "ok");
});

const BAD = [
  "/",
  "a",
  "//a",
  "/a//b",
  "/a/",
  "/.",
  "/..",
  "/a/../b",
  "/a/./b",
  "/a/%2e%2e/b",
  "/a/%2E%2e",
  "/a/.%2e/b",
  "/a/%2e/b",
  "/a/..%2Fb",
  "/a/x%2F..%2Fy",
  "/a/x%2F%2e%2e%2Fy",
  "/a/x%2F%2Fy",
  "/a/%2Fx",
  "/a/x%2F",
  "/a/..;x=1/b",
  "/a/.;/b",
  "/a/%252e%252e/b",
  "/a/%252Fb",
  "/a\\..\\b",
  "/a/%5c..%5Cb",
  "/a/%00",
  "/a/%0a",
  "/a/%7f",
  "/a/%C2%85",
  "/a\u0000",
  "/a b",
  "/a%",
  "/a%2",
  "/a%zz",
  "/a/%ff",
  "/a/%c0%ae%c0%ae",
  "/a/é",
  "/a?b",
  "/a#b",
  '/a"b',
  "/{address}",
  `/${"a".repeat(9_000)}`,
  "/a".repeat(65),
];

for (const path of BAD) {
  test(`refused: ${JSON.stringify(path.slice(0, 40))}`, () => assert.equal(checkPath(path), "bad"));
}

const nasty = fc.array(
  fc.constantFrom(
    "/",
    ".",
    "..",
    "%2e",
    "%2E",
    "%2f",
    "%2F",
    "%5c",
    "\\",
    "%25",
    "%00",
    ";",
    "a",
    "b1",
    "%",
    "%e9",
    " ",
    "~",
  ),
  { maxLength: 12 },
);

test("whatever is accepted has no dot segment, slash trick or control character under any further decoding", () => {
  fc.assert(
    fc.property(nasty, (parts) => {
      const raw = `/${parts.join("")}`;
      const segments = parsePath(raw);
      if (segments === undefined) return;
      let text = formatPath(segments);
      for (let round = 0; round < 4; round++) {
        for (const part of text.split(/[/\\]/).slice(1)) {
          assert.notEqual(part, "");
          assert.ok(!/^\.{1,2}(?:;|$)/.test(part), `${raw} → ${text}`);
        }
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are looked for
        assert.ok(!/[\u0000-\u001f\u007f\\]/.test(text));
        try {
          text = decodeURIComponent(text);
        } catch {
          return; // a lone percent sign: no server decodes it again
        }
      }
    }),
    { numRuns: 5_000 },
  );
});

test("formatting and parsing are inverse", () => {
  const segment = fc
    .string({ minLength: 1, maxLength: 20, unit: "grapheme" })
    .filter((text) => parsePath(`/${encodeURIComponent(text)}`) !== undefined);
  fc.assert(
    fc.property(fc.array(segment, { minLength: 1, maxLength: 8 }), (segments) => {
      const path = formatPath(segments);
      assert.deepEqual(parsePath(path), segments);
      assert.equal(new URL(path, "http://h").pathname, path, "a URL parser leaves it alone");
    }),
    { numRuns: 2_000 },
  );
});

test("query strings: what a URL cannot hold is encoded, what is malformed is refused", () => {
  assert.equal(formatQuery(""), "");
  assert.equal(formatQuery("?"), "");
  assert.equal(formatQuery("?height=5"), "?height=5");
  assert.equal(formatQuery("?query=\"tx.height=5 AND a='b'\""), "?query=%22tx.height=5%20AND%20a='b'%22");
  assert.equal(formatQuery("?a=é"), "?a=%C3%A9");
  assert.equal(formatQuery("?a=%2e%2E/../x"), "?a=%2e%2E/../x");
  for (const bad of ["a=1", "?a=%", "?a=%zz", "?a\r\nX: y", "?a#b", "?\ud800", `?${"a".repeat(9_000)}`]) {
    assert.equal(formatQuery(bad), undefined, bad.slice(0, 20));
  }
});
