import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { filterRole, supplierTag, tagFilterId, untagFilterId } from "./filters.ts";

const hexId = fc
  .string({ unit: fc.constantFrom(...Array.from("0123456789abcdefABCDEF")), minLength: 1, maxLength: 39 })
  .map((text) => `0x${text}`);

test("a tagged id gives its owner the tag and the supplier's own id, digit for digit, and another client nothing", () => {
  fc.assert(
    fc.property(fc.string(), fc.domain(), fc.string(), fc.string(), hexId, (operator, label, owner, other, own) => {
      const tag = supplierTag("eth", operator, label);
      const tagged = tagFilterId(tag, owner, own);
      assert.ok(tagged !== undefined);
      assert.match(tagged, /^0x[1-9a-f][0-9a-fA-F]*$/);
      assert.ok(tagged.length <= 66);
      assert.deepEqual(untagFilterId(owner, tagged), { tag, id: own });
      assert.equal(untagFilterId(other, tagged) === undefined, other !== owner);
    }),
  );
});

test("what is no id of ours is nobody's", () => {
  for (const id of ["0x1", "0x2abcdef0112", "1", "", undefined, 5, {}, `0x1${"a".repeat(70)}`, "0x1abcdefg1"]) {
    assert.equal(untagFilterId("c", id), undefined);
  }
  for (const id of ["", "0x", "abc", 1, null, `0x${"a".repeat(40)}`])
    assert.equal(tagFilterId("00000000", "c", id), undefined);
});

test("a tag belongs to service, operator and label", () => {
  const tags = [
    supplierTag("eth", "a", "h"),
    supplierTag("eth", "b", "h"),
    supplierTag("eth", "a", "i"),
    supplierTag("base", "a", "h"),
  ];
  assert.equal(new Set(tags).size, 4);
  assert.equal(supplierTag("eth", "a", "h"), tags[0]);
});

test("what a call does with a filter is known without the catalogue too", () => {
  const filter = { kind: "filter", cache: { by: "never" }, isComparable: false } as const;
  assert.equal(filterRole({ method: "eth_newFilter" }, undefined, filter), "create");
  assert.equal(filterRole({ method: "eth_getFilterChanges" }, undefined, filter), "use");
  assert.equal(filterRole({ method: "eth_call" }, undefined, { ...filter, kind: "read" }), undefined);
});
