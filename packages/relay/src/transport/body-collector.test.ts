import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { BodyCollector } from "./body-collector.ts";

test("however a body comes, it is the same, in memory of exactly its length", () => {
  const pieces = fc.array(fc.oneof(fc.uint8Array({ maxLength: 50 }), fc.integer({ min: 1, max: 70_000 })), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(pieces, fc.boolean(), (drawn, isKnown) => {
      const parts = drawn.map((one) => (typeof one === "number" ? Buffer.alloc(one, one % 256) : Buffer.from(one)));
      const wanted = Buffer.concat(parts);
      const collector = new BodyCollector(isKnown ? wanted.length : undefined);
      const shared = Buffer.alloc(80_000);
      for (const part of parts) {
        part.copy(shared, 7);
        collector.add(shared, 7, 7 + part.length);
        shared.fill(0xee);
      }
      assert.equal(collector.size, wanted.length);
      const body = collector.bytes();
      assert.ok(body.equals(wanted));
      assert.equal(body.buffer.byteLength, wanted.length);
    }),
  );
});

test("what was taken on the way stays, and more may come", () => {
  const collector = new BodyCollector();
  const shared = Buffer.from("abcdef");
  collector.add(shared, 0, 3);
  const first = collector.bytes();
  collector.add(shared, 3, 6);
  assert.deepEqual([first.toString(), collector.bytes().toString()], ["abc", "abcdef"]);
});

test("a body in pieces of one byte makes few buffers", (t) => {
  const made = t.mock.method(Buffer, "allocUnsafeSlow");
  const collector = new BodyCollector();
  const shared = Buffer.from("x");
  for (let i = 0; i < 1_000_000; i++) collector.add(shared, 0, 1);
  assert.equal(collector.bytes().length, 1_000_000);
  assert.ok(made.mock.callCount() < 20);
});
