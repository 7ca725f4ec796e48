import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricSpec } from "@turnpike/base";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { PrometheusMetrics } from "./prometheus-metrics.ts";

const COUNT: MetricSpec = { kind: "counter", name: "a_total", help: "A.", labels: ["x", "y"] };
const GAUGE: MetricSpec = { kind: "gauge", name: "b", help: 'B "quoted"\nlines.' };
const TIME: MetricSpec = { kind: "histogram", name: "c_seconds", help: "C.", labels: ["x"], buckets: [0.1, 1] };

test("samples are written as prom-client writes its own", async () => {
  const ours = new PrometheusMetrics({ processMetrics: false });
  const registry = new Registry();
  const registers = [registry];
  const count = new Counter({ name: "a_total", help: "A.", labelNames: ["x", "y"], registers });
  const gauge = new Gauge({ name: "b", help: 'B "quoted"\nlines.', registers });
  const time = new Histogram({ name: "c_seconds", help: "C.", labelNames: ["x"], buckets: [0.1, 1], registers });
  for (const [x, y, by] of [
    ["1", "2", 1],
    ['q"\\\n', "", 2],
    ["1", "2", 3],
  ] as const) {
    ours.count(COUNT, { x, y }, by);
    count.inc({ x, y }, by);
  }
  ours.set(GAUGE, 7);
  gauge.set(7);
  for (const value of [0.05, 0.1, 0.5, 1, 2]) {
    ours.observe(TIME, value, { x: "1" });
    time.observe({ x: "1" }, value);
  }
  assert.equal(await ours.render(), await registry.metrics());
});

test("a label that the spec does not name is left out, and one that the sample lacks is empty", async () => {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  metrics.count(COUNT, { x: "1", z: "2" });
  assert.match(await metrics.render(), /^a_total\{x="1",y=""\} 1$/m);
});

test("a spec of one name and other labels, or a sample of another kind, is a fault", () => {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  metrics.count(COUNT, { x: "1", y: "2" });
  assert.throws(() => metrics.count({ ...COUNT, labels: ["x"] }), /declared twice/);
  assert.throws(() => metrics.set(COUNT, 1), /not a gauge/);
  metrics.count({ ...COUNT }, { x: "1", y: "2" });
});

test("a gauge of what is not there any more is not written", async () => {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const spec: MetricSpec = { kind: "gauge", name: "d", help: "D.", labels: ["x"] };
  metrics.set(spec, 1, { x: "1" });
  metrics.set(spec, 2, { x: "2" });
  metrics.remove?.(spec, { x: "1" });
  metrics.remove?.(spec, { x: "3" });
  assert.match(await metrics.render(), /^d\{x="2"\} 2$/m);
  assert.doesNotMatch(await metrics.render(), /x="1"/);
  metrics.set(spec, 3, { x: "1" });
  assert.match(await metrics.render(), /^d\{x="1"\} 3$/m);
});

test("a label has a bounded number of values: what is beyond them is one", async () => {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const spec: MetricSpec = { kind: "gauge", name: "e", help: "E.", labels: ["service", "result"] };
  for (let at = 0; at < 10_000; at++) {
    metrics.count(COUNT, { x: `s${at}`, y: "ok" });
    metrics.set(spec, 1, { service: `s${at}`, result: "ok" });
    metrics.remove?.(spec, { service: `s${at}`, result: "ok" });
  }
  metrics.count(COUNT, { x: "s0", y: "ok" });
  metrics.set(spec, 7, { service: "late", result: "ok" });
  const lines = (await metrics.render()).split("\n");
  assert.equal(lines.filter((line) => line.startsWith("a_total{")).length, 1_025);
  for (const line of ['a_total{x="s0",y="ok"} 2', 'a_total{x="other",y="ok"} 8976']) assert.ok(lines.includes(line));
  assert.ok(lines.includes('e{service="late",result="ok"} 7'), "those that were removed have made room");
});
