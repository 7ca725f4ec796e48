import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { joinJsonArray } from "./json-join.ts";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

suite("joinJsonArray", () => {
  test("none, one and many values of their own", () => {
    assert.equal(text(joinJsonArray([])), "[]");
    assert.equal(text(joinJsonArray([Buffer.alloc(0), Buffer.from("1")])), "[,1]");
    assert.equal(text(joinJsonArray([Buffer.from('{"a":1}')])), '[{"a":1}]');
    assert.equal(text(joinJsonArray([Buffer.from("1"), Buffer.from("22"), Buffer.from("null")])), "[1,22,null]");
  });

  test("values of one body, as they came, out of order, with gaps, and between others", () => {
    const body = Buffer.from("[1,22, 333,4444]");
    const one = body.subarray(1, 2);
    const two = body.subarray(3, 5);
    const three = body.subarray(7, 10);
    const four = body.subarray(11, 15);
    assert.equal(text(joinJsonArray([one, two, three, four])), "[1,22,333,4444]");
    assert.equal(text(joinJsonArray([four, two, one])), "[4444,22,1]");
    assert.equal(text(joinJsonArray([one, three])), "[1,333]");
    assert.equal(text(joinJsonArray([one, Buffer.from("x"), two, one])), "[1,x,22,1]");
  });

  test("values that stand side by side by chance keep a comma between them", () => {
    const pool = Buffer.from("1;2,34");
    assert.equal(text(joinJsonArray([pool.subarray(0, 1), pool.subarray(2, 3)])), "[1,2]");
    assert.equal(text(joinJsonArray([pool.subarray(4, 5), pool.subarray(5, 6)])), "[3,4]");
  });

  test("is its own copy", () => {
    const body = Buffer.from("[1,2]");
    const joined = joinJsonArray([body.subarray(1, 2), body.subarray(3, 4)]);
    body.fill(0x39);
    assert.equal(text(joined), "[1,2]");
  });

  test("any values, wherever they stand, come out as they went in", () => {
    const place = fc.record({ value: fc.json(), isOwn: fc.boolean(), at: fc.nat(20) });
    fc.assert(
      fc.property(fc.array(place), (places) => {
        const source = Buffer.from(`[${places.map(({ value }) => value).join(",")}]`);
        let from = 1;
        const values = places.map(({ value, isOwn }) => {
          const length = Buffer.byteLength(value);
          const part = source.subarray(from, from + length);
          from += length + 1;
          return isOwn ? Buffer.from(part) : part;
        });
        const order = places.map(({ at }, index) => values[at] ?? values[index] ?? source.subarray(0, 0));
        for (const list of [values, order]) assert.equal(text(joinJsonArray(list)), `[${list.map(text).join(",")}]`);
      }),
    );
  });
});
