import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { BoundedMap } from "./bounded-map.ts";

const TTL_MS = 100;

test("after any calls a map holds what was set last and is young enough, and no more than it may", () => {
  const step = fc.record({
    call: fc.constantFrom("set", "set", "set", "get", "delete"),
    key: fc.nat(12),
    pauseMs: fc.constantFrom(0, 0, 1, 30),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), fc.integer({ min: 1, max: 8 }), (steps, maxEntries) => {
      const map = new BoundedMap<number, number>({ maxEntries, ttlMs: TTL_MS });
      let model: { readonly key: number; readonly value: number; readonly untilMs: number }[] = [];
      let nowMs = 0;
      for (const [value, { call, key, pauseMs }] of steps.entries()) {
        nowMs += pauseMs;
        const known = model.find((entry) => entry.key === key);
        if (call === "get") {
          const isYoung = known !== undefined && known.untilMs > nowMs;
          assert.equal(map.get(key, nowMs), isYoung ? known.value : undefined);
          if (!isYoung) model = model.filter((entry) => entry.key !== key);
          continue;
        }
        model = model.filter((entry) => entry.key !== key);
        if (call === "delete") map.delete(key);
        else {
          map.set(key, value, nowMs);
          model = [...model, { key, value, untilMs: nowMs + TTL_MS }].slice(-maxEntries);
        }
      }
      for (let key = 0; key <= 12; key++) {
        const known = model.find((entry) => entry.key === key && entry.untilMs > nowMs);
        assert.equal(map.get(key, nowMs), known?.value);
      }
    }),
  );
});
