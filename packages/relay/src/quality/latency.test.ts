import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { DEFAULT_LATENCY, LatencyHistogram, LatencyTracker } from "./latency.ts";

test("a quantile is within a bucket of the true one", () => {
  const samples = fc.array(fc.double({ min: 0.3, max: 60_000, noNaN: true }), { minLength: 20, maxLength: 300 });
  fc.assert(
    fc.property(samples, fc.constantFrom(0.5, 0.9, 0.95, 0.99), (list, q) => {
      const histogram = new LatencyHistogram(DEFAULT_LATENCY);
      for (const latencyMs of list) histogram.add(0, latencyMs);
      const sorted = list.toSorted((a, b) => a - b);
      const exact = sorted[Math.ceil(q * sorted.length) - 1] ?? 0;
      const found = histogram.quantileMs(q, 0) ?? 0;
      assert.ok(found <= exact * 1.16 && found >= exact / 1.16, `${found} for ${exact}`);
    }),
  );
});

test("nothing is said before there are enough samples, nor when they are too old", () => {
  const histogram = new LatencyHistogram(DEFAULT_LATENCY);
  for (let i = 0; i < 19; i++) histogram.add(0, 10);
  assert.equal(histogram.quantileMs(0.5, 0), undefined);
  for (let i = 0; i < 9; i++) histogram.add(0, 10);
  assert.equal(Math.round(histogram.quantileMs(0.5, 300) ?? 0), 10);
  assert.equal(histogram.quantileMs(0.5, 600_000), undefined);
});

test("newer samples outweigh older ones, however long it runs", () => {
  const histogram = new LatencyHistogram(DEFAULT_LATENCY);
  for (let day = 0; day < 40; day++) {
    const nowMs = day * 86_400_000;
    for (let i = 0; i < 1_000; i++) histogram.add(nowMs, day % 2 === 0 ? 10 : 500);
    const found = histogram.quantileMs(0.9, nowMs) ?? 0;
    assert.ok(day % 2 === 0 ? found < 12 : found > 430, `${found}`);
  }
});

test("odd values do not break it", () => {
  const histogram = new LatencyHistogram({ ...DEFAULT_LATENCY, minSamples: 1 });
  for (const latencyMs of [0, -1, Number.NaN, 1e12]) histogram.add(0, latencyMs);
  const found = histogram.quantileMs(1, 0) ?? 0;
  assert.ok(found > 100_000 && found < 200_000, `${found}`);
});

test("operations are kept apart, so many at most", () => {
  const book = new LatencyTracker({ ...DEFAULT_LATENCY, maxOperations: 2 });
  assert.equal(book.quantileMs("a", 0.5, 0), undefined);
  for (let i = 0; i < 20; i++) {
    book.add("a", 0, 10);
    book.add("b", 0, 100);
    book.add(`c${i}`, 0, 1_000);
  }
  const found = ["a", "b", "c0", "never"].map((operation) => Math.round(book.quantileMs(operation, 0.5, 0) ?? 0));
  assert.ok(
    found.every((value, i) => Math.abs(value / 10 ** Math.min(3, i + 1) - 1) < 0.15),
    String(found),
  );
});
