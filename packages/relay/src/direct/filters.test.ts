import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { filterIdHash, supplierTag, tagFilterId, untagFilterId } from "./filters.ts";

test("a tagged id gives back the tag and the supplier's own id, digit for digit", () => {
  const id = fc
    .string({ unit: fc.constantFrom(...Array.from("0123456789abcdefABCDEF")), minLength: 1, maxLength: 48 })
    .map((text) => `0x${text}`);
  fc.assert(
    fc.property(fc.string(), fc.webUrl(), id, (operator, url, own) => {
      const tag = supplierTag("eth", operator, url);
      const tagged = tagFilterId(tag, own);
      assert.ok(tagged !== undefined);
      assert.match(tagged, /^0x[1-9a-f][0-9a-fA-F]*$/);
      assert.ok(tagged.length <= 66);
      assert.deepEqual(untagFilterId(tagged), { tag, id: own });
    }),
  );
});

test("what is no id of ours is left alone", () => {
  for (const id of ["0x1", "0x2abcdef0112", "1", "", undefined, 5, {}, `0x1${"a".repeat(60)}`, "0x1abcdefg1"]) {
    assert.equal(untagFilterId(id), undefined);
    assert.ok(filterIdHash(id) >= 0);
  }
  for (const id of ["", "0x", "abc", 1, null, `0x${"a".repeat(49)}`])
    assert.equal(tagFilterId("00000000", id), undefined);
});

test("a tag belongs to service, operator and URL", () => {
  const tags = [
    supplierTag("eth", "a", "http://h"),
    supplierTag("eth", "b", "http://h"),
    supplierTag("eth", "a", "http://i"),
    supplierTag("base", "a", "http://h"),
  ];
  assert.equal(new Set(tags).size, 4);
  assert.equal(supplierTag("eth", "a", "http://h"), tags[0]);
});
