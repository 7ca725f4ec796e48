import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { fence } from "./fence.ts";

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
      assert.doesNotMatch(inner, /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u);
      if (!fenced.cut) assert.equal(JSON.parse(inner), text);
    }),
  );
});

test("each fence has a code of its own", () => {
  const codes = Array.from({ length: 100 }, () => fence("x", 10).text.split("\n", 1)[0]);
  assert.equal(new Set(codes).size, 100);
});

test("attack: what is escaped is bounded by what is shown, not by what was sent", () => {
  const fenced = fence("\u{e0041}".repeat(1_000_000), 1_000);
  assert.ok(fenced.cut && fenced.text.length < 1_200);
  assert.deepEqual([fenced.characters, fenced.shownCharacters], [2_000_000, 1_000]);
  assert.match(fenced.notice, /the first 1000 of 2000000 characters/);
});
