import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { cleanDate, cleanText, cleanUrl, hostedQuery, htmlText, withoutTags } from "./clean.ts";

test("dates: days and instants of real calendars, everything else is unknown", () => {
  const cases = [
    ["2024-02-29", "2024-02-29"],
    ["2023-02-29", undefined],
    ["2024-13-01", undefined],
    ["2024-03-01T10:00:00", "2024-03-01T10:00:00Z"],
    ["2024-03-01 10:00", "2024-03-01T10:00:00Z"],
    ["2024-03-01T10:00:00.123456Z", "2024-03-01T10:00:00Z"],
    ["2024-03-01T10:00:00+0200", "2024-03-01T08:00:00Z"],
    ["2024-03-01T25:00:00Z", undefined],
    ["Tue, 11 Mar 2025 10:00:00 +0100", "2025-03-11T09:00:00Z"],
    ["3 days ago", undefined],
    ["0", undefined],
    ["", undefined],
    [1_700_000_000, undefined],
  ] as const;
  for (const [given, expected] of cases) assert.equal(cleanDate(given), expected, String(given));
});

test("URLs: http and https alone, without a user", () => {
  for (const bad of [
    "javascript:alert(1)",
    "ftp://a/",
    "//a/b",
    "https://",
    "https://a:b@c/",
    "file:///etc/passwd",
    5,
  ]) {
    assert.equal(cleanUrl(bad), undefined, String(bad));
  }
  assert.equal(cleanUrl("https://example.org/a b\u202e"), "https://example.org/a%20b%E2%80%AE");
});

test("text: tags of HTML go, code that looks like tags stays", () => {
  assert.equal(withoutTags("a <b class='x'>b</b> Map<string, Foo> 1 < 2", 100), "a  b  Map<string, Foo> 1 < 2");
  assert.equal(htmlText("<style>p{}</style><p>a &amp; b</p><svg><text>x</text></svg>&lt;script&gt;", 100), "a & b ");
});

test("text is always bounded, well-formed and without controls", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCodePoint, maxLength: 400 }), fc.integer({ min: 10, max: 100 }), (text, max) => {
      const clean = cleanText(text, max);
      assert.ok(clean.length <= max && clean.isWellFormed());
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there
      assert.doesNotMatch(clean, /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
      const sent = hostedQuery(text, max, 5);
      assert.ok(sent.length <= max && sent.isWellFormed() && sent.split(" ").length <= 5);
    }),
  );
});
