import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { visibleLine, visibleText, visibleValue } from "./foreign-text.ts";

const anyText = fc.string({ unit: anyCodePoint, maxLength: 300 });
const HIDDEN = /(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]|\p{M}{5}/u;

/** One of each way to carry text that is not seen. */
const CARRIERS: Readonly<Record<string, string>> = {
  "a control": "\u0000",
  "a terminal's escape": "\u001b",
  "a C1 escape": "\u009b",
  "a direction": "\u202e",
  "an isolate": "\u2066",
  "a zero-width space": "\u200b",
  "a joiner": "\u200d",
  "a non-joiner": "\u200c",
  "a byte-order mark": "\ufeff",
  "a soft hyphen": "\u00ad",
  "a variation selector": "\ufe0f",
  "a variation selector of the supplement": "\u{e0101}",
  "a Mongolian variation selector": "\u180b",
  "a tag": "\u{e0041}",
  "a Hangul filler": "\u3164",
  "a half-width Hangul filler": "\uffa0",
  "a Hangul jungseong filler": "\u1160",
  "a grapheme joiner": "\u034f",
  "a Khmer vowel that is not seen": "\u17b4",
  "a musical format": "\u{1d173}",
  "a shorthand format": "\u{1bca0}",
  "a private character": "\ue000",
  "a private character of a plane": "\u{f0000}",
  "an unassigned code point": "\u{e0fff}",
  "a noncharacter": "\uffff",
  "half a surrogate pair": "\udb40",
  "a line separator": "\u2028",
  "a no-break space": "\u00a0",
  "a hair space": "\u200a",
  "a braille blank": "\u2800",
  "a null notehead": "\u{1d159}",
  "an Egyptian blank": "\u{13441}",
  "half an Egyptian blank": "\u{13442}",
};

test("attack: each carrier of hidden text is an escape, in a text and in the value of a JSON text", () => {
  for (const [name, carrier] of Object.entries(CARRIERS)) {
    const units = carrier.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    assert.equal(visibleText(`a${carrier}b`), `a${units.join("")}b`, name);
    assert.deepEqual(visibleValue(JSON.stringify({ [carrier]: carrier })), { [units.join("")]: units.join("") }, name);
  }
});

test("words of many scripts and plain emoji stay; of a run of marks four do", () => {
  for (const text of ["naïve café", "Ελληνικά", "日本語", "한국어", "हिन्दी", "ภาษาไทย", "עברית", "👩 🌉", "a\tb\nc"]) {
    assert.equal(visibleText(text), text);
  }
  assert.equal(visibleText("👩\u200d💻"), "👩\\u200d💻");
  assert.equal(visibleText(`a${"\u0301".repeat(6)}b`), `a${"\u0301".repeat(4)}\\u0301\\u0301b`);
  assert.equal(
    visibleText(`a\u0301\u0301${"\ufe0f\u0301".repeat(3)}`),
    `a\u0301\u0301${"\\ufe0f\u0301".repeat(2)}\\ufe0f\\u0301`,
  );
});

test("attack: no text holds a character that is not seen, and a JSON text keeps its value", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      assert.doesNotMatch(visibleText(text), HIDDEN);
      const json = visibleText(JSON.stringify({ [text]: text }));
      assert.doesNotMatch(json, HIDDEN);
      assert.deepEqual(JSON.parse(json), { [text]: text });
      const shown = visibleValue(JSON.stringify([text])) as string[];
      assert.doesNotMatch(shown[0] ?? "", HIDDEN);
      assert.deepEqual(visibleValue(json), visibleValue(JSON.stringify({ [text]: text })));
    }),
  );
});

test("one line is one line, and bounded", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const line = visibleLine(text, 40);
      assert.doesNotMatch(line, /[\n\r\t\u2028\u2029\u0085]/);
      assert.ok(line.length <= 41 && line.isWellFormed());
    }),
  );
  assert.equal(visibleLine(" a\n b ", 40), "a b");
  assert.ok(visibleLine("\u{e0041}".repeat(1_000_000), 40).length <= 41);
});
