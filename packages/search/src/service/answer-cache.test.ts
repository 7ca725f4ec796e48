import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { AnswerCache } from "./answer-cache.ts";

const clockAt = (at: { ms: number }) => ({ nowMs: () => at.ms, monotonicMs: () => at.ms });

test("an answer is given again until its time is over", () => {
  const at = { ms: 0 };
  const cache = new AnswerCache<string>({ ttlMs: 1_000, maxBytes: 10_000 }, { clock: clockAt(at) });
  cache.put("a", "A", 100);
  at.ms = 999;
  assert.equal(cache.get("a"), "A");
  at.ms = 1_000;
  assert.equal(cache.get("a"), undefined);
  assert.equal(cache.bytes, 0);
});

test("the longest unused leaves first; what is larger than the cache is not kept", () => {
  const cache = new AnswerCache<number>({ ttlMs: 1_000, maxBytes: 1_000 }, { clock: clockAt({ ms: 0 }) });
  cache.put("a", 1, 200);
  cache.put("b", 2, 200);
  assert.equal(cache.get("a"), 1);
  cache.put("c", 3, 200);
  assert.deepEqual([cache.get("a"), cache.get("b"), cache.get("c")], [1, undefined, 3]);
  cache.put("d", 4, 900);
  assert.equal(cache.get("d"), undefined);
  assert.equal(cache.get("a"), 1);
});

test("0 seconds keep nothing", () => {
  const cache = new AnswerCache<number>({ ttlMs: 0, maxBytes: 1_000 }, { clock: clockAt({ ms: 0 }) });
  cache.put("a", 1, 1);
  assert.equal(cache.get("a"), undefined);
});

test("its bytes never go over the limit, nor below zero", () => {
  const at = { ms: 0 };
  const step = fc.record({
    key: fc.string({ maxLength: 3 }),
    bytes: fc.nat(600),
    passMs: fc.nat(300),
    isPut: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const cache = new AnswerCache<number>({ ttlMs: 500, maxBytes: 2_000 }, { clock: clockAt(at) });
      for (const { key, bytes, passMs, isPut } of steps) {
        at.ms += passMs;
        if (isPut) cache.put(key, bytes, bytes);
        else cache.get(key);
        assert.ok(cache.bytes >= 0 && cache.bytes <= 2_000);
      }
    }),
  );
});
