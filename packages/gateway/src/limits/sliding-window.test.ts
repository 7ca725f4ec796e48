import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { fc } from "@turnpike/testkit/property";
import { SlidingWindow, type SlidingWindowOptions, tickMsOf } from "./sliding-window.ts";

const windowOf = (change: Partial<SlidingWindowOptions> = {}) =>
  new SlidingWindow({ requests: 2_000, windowMs: 60_000, maxKeys: 1_000, hashSeed: 7, ...change });

/** Every item with its time: what an exact window is, as slowly as can be. */
function naiveWindow(requests: number, windowMs: number) {
  const times = new Map<string, number[]>();
  const live = (key: string, nowMs: number): number[] => (times.get(key) ?? []).filter((t) => t + windowMs > nowMs);
  return {
    used: (key: string, nowMs: number): number => live(key, nowMs).length,
    add(key: string, items: number, nowMs: number): void {
      times.set(key, [...(times.get(key) ?? []), ...Array.from({ length: items }, () => nowMs)]);
    },
    waitMs(key: string, items: number, nowMs: number): number {
      if (items > requests) return windowMs;
      const left = live(key, nowMs);
      const over = left.length + items - requests;
      return over <= 0 ? 0 : (left[over - 1] ?? 0) + windowMs - nowMs;
    },
    all: (key: string): readonly number[] => times.get(key) ?? [],
  };
}

const STEPS = fc.array(
  fc.record({
    key: fc.constantFrom("a", "b", "c"),
    items: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 14 })),
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 1_200 })),
  }),
  { minLength: 1, maxLength: 200 },
);

/** Bytes of what is still in use. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  assert.ok(typeof collect === "function");
  collect();
  return process.memoryUsage().heapUsed;
}

suite("sliding window", () => {
  test("property: what a naive window says, for use, refusals and waits", () => {
    fc.assert(
      fc.property(
        STEPS,
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom(1, 50, 1_000),
        (steps, requests, windowMs) => {
          const window = windowOf({ requests, windowMs });
          const naive = naiveWindow(requests, windowMs);
          let nowMs = 5;
          for (const { key, items, afterMs } of steps) {
            nowMs += afterMs;
            const used = window.used(key, nowMs);
            assert.equal(used, naive.used(key, nowMs));
            assert.equal(window.waitMs(key, items, nowMs), naive.waitMs(key, items, nowMs));
            if (used + items > requests) continue;
            window.add(key, items, nowMs);
            naive.add(key, items, nowMs);
          }
          for (const key of ["a", "b", "c"]) {
            const all = naive.all(key);
            for (const [at, time] of all.entries()) {
              const inWindow = all.slice(at).filter((other) => other < time + windowMs).length;
              assert.ok(inWindow <= requests, `${inWindow} of ${requests} within a window`);
            }
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  test("property: never more than the limit in any window, whatever the clock's fractions and however many keys", () => {
    const step = fc.record({
      key: fc.integer({ min: 0, max: 5 }),
      items: fc.integer({ min: 1, max: 4 }),
      afterMs: fc.double({ min: 0, max: 60, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), fc.integer(), (steps, hashSeed) => {
        const [requests, windowMs] = [6, 500];
        // Two keys have a count of their own, so most are in the shared ones, and keys move between them.
        const window = windowOf({ requests, windowMs, maxKeys: 2, hashSeed });
        const served: { key: number; at: number; items: number }[] = [];
        let nowMs = 0;
        for (const { key, items, afterMs } of steps) {
          nowMs += afterMs;
          if (window.used(String(key), nowMs) + items > requests) {
            assert.ok(window.waitMs(String(key), items, nowMs) > 0);
            continue;
          }
          window.add(String(key), items, nowMs);
          served.push({ key, at: nowMs, items });
        }
        assert.ok(window.size <= 2);
        for (const first of served) {
          const inWindow = served.filter((o) => o.key === first.key && o.at >= first.at && o.at < first.at + windowMs);
          assert.ok(inWindow.reduce((sum, { items }) => sum + items, 0) <= requests);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("2,000 within a minute fit, 2,001 do not, and a place is free again to the millisecond", () => {
    const window = windowOf();
    for (let at = 0; at < 2_000; at++) window.add("a", 1, 1_000 + at * 29);
    const full = 1_000 + 1_999 * 29;
    assert.equal(window.used("a", full), 2_000);
    assert.equal(window.waitMs("a", 1, full), 61_000 - full);
    assert.equal(window.used("a", 60_999), 2_000);
    assert.equal(window.used("a", 61_000), 1_999);
    assert.equal(window.used("b", 61_000), 0);
    assert.equal(window.waitMs("a", 2_001, full), 60_000);
  });

  test("fractions of a millisecond never let one too many in", () => {
    const window = windowOf({ requests: 1, windowMs: 500 });
    window.add("a", 1, 0.9);
    assert.equal(window.used("a", 500.5), 1);
    assert.equal(window.used("a", 501), 0);
  });

  test("a client that gets a count of its own still has what it had in a shared one", () => {
    const window = windowOf({ requests: 9, windowMs: 500, maxKeys: 1 });
    window.add("first", 1, 0);
    window.add("second", 5, 400);
    assert.equal(window.shared, 5);
    window.add("second", 2, 600);
    assert.equal(window.shared, 5);
    assert.equal(window.used("second", 600), 7);
    assert.equal(window.waitMs("second", 4, 600), 300);
    assert.equal(window.waitMs("second", 8, 600), 500);
    assert.equal(window.used("second", 900), 2);
  });

  test("long windows are exact to 1/60,000 of their length", () => {
    assert.equal(tickMsOf(60_000), 1);
    const window = windowOf({ requests: 1, windowMs: 3_600_000 });
    window.add("a", 1, 1);
    assert.equal(window.used("a", 3_600_000), 1);
    assert.equal(window.used("a", 1 + 3_600_000 + tickMsOf(3_600_000)), 0);
  });

  test("a flood of a million clients takes no memory and no other client's count", () => {
    const window = windowOf({ maxKeys: 10_000 });
    for (let at = 0; at < 2_000; at++) window.add("heavy", 1, at);
    const before = heapBytes();
    for (let at = 0; at < 1_000_000; at++) window.add(`${at}`, 1, 2_000 + at / 100);
    const grownBytes = heapBytes() - before;
    assert.equal(window.size, 10_000);
    assert.equal(window.shared, 1_000_001 - 10_000);
    assert.equal(window.used("heavy", 12_000), 2_000);
    assert.ok(window.used("somebody new", 12_000) < 400, "those who come in a flood are not limited by it");
    assert.ok(grownBytes < 50_000_000, `${grownBytes} bytes`);
    // A minute after the flood everything is as before it.
    window.add("later", 1, 80_000);
    for (let at = 0; at < 10_000; at++) window.add(`later ${at}`, 1, 80_000);
    assert.equal(window.used("later", 80_000), 1);
    assert.equal(window.used("later 9999", 80_000), 1);
    assert.ok(window.size <= 10_000);
  });
});
