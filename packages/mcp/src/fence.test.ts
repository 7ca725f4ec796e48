import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { fence, oneLine, visible } from "./fence.ts";

const anyText = fc.string({ unit: anyCodePoint, maxLength: 300 });

test("attack: no text ends its fence, or holds a character that is not seen", () => {
  fc.assert(
    fc.property(anyText, fc.integer({ min: 2, max: 400 }), (text, most) => {
      const fenced = fence(JSON.stringify(text), most);
      const [first, inner = "", last, ...more] = fenced.text.split("\n");
      const [, boundary = ""] = /^<<<THIRD-PARTY-DATA ([0-9a-f]{32})$/.exec(first ?? "") ?? [];
      assert.ok(boundary !== "" && !inner.includes(boundary));
      assert.equal(last, `THIRD-PARTY-DATA ${boundary}>>>`);
      assert.deepEqual(more, []);
      assert.ok(inner.length <= most && inner.isWellFormed());
      assert.doesNotMatch(inner, /(?!\u200c|\u200d)[\p{Cc}\p{Cf}\u2028\u2029]/u);
      if (!fenced.cut) assert.equal(JSON.parse(inner), text);
    }),
  );
});

test("each fence has a code of its own", () => {
  const codes = Array.from({ length: 100 }, () => fence("x", 10).text.split("\n", 1)[0]);
  assert.equal(new Set(codes).size, 100);
});

test("hidden characters are written out; joiners of words and emoji stay", () => {
  assert.equal(visible("a\u202eb\u200b\u{e0041}\u0000"), "a\\u202eb\\u200b\\udb40\\udc41\\u0000");
  assert.equal(visible("👩\u200d💻 می\u200cخواهم"), "👩\u200d💻 می\u200cخواهم");
});

test("one line is one line, and bounded", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const line = oneLine(text, 40);
      assert.doesNotMatch(line, /[\n\r\u2028\u2029\u0085]/);
      assert.ok(line.length <= 41);
    }),
  );
});
