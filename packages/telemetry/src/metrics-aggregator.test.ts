import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricSpec } from "@turnpike/base";
import { MetricsAggregator, readMetricsDump } from "./metrics-aggregator.ts";
import { PrometheusMetrics } from "./prometheus-metrics.ts";

const COUNTER: MetricSpec = { kind: "counter", name: "t_total", help: "T.", labels: ["a"] };
const GAUGE: MetricSpec = { kind: "gauge", name: "t_now", help: "T." };
const MOST: MetricSpec = { kind: "gauge", name: "t_most", help: "T.", labels: ["a"], aggregator: "max" };
const LEAST: MetricSpec = { kind: "gauge", name: "t_least", help: "T.", aggregator: "min" };
const TIME: MetricSpec = { kind: "histogram", name: "t_seconds", help: "T.", buckets: [1, 2] };

function processOf(value: number) {
  const metrics = new PrometheusMetrics({ processMetrics: true });
  metrics.count(COUNTER, { a: "x" }, value);
  metrics.count(COUNTER, { a: `own-${value}` });
  metrics.set(GAUGE, value);
  metrics.set(MOST, -value, { a: "x" });
  metrics.set(LEAST, value);
  metrics.observe(TIME, value);
  return metrics;
}

const sampleIn = (text: string, sample: string): number | undefined => {
  const line = text.split("\n").find((one) => one.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.slice(sample.length + 1));
};

test("samples of several processes become one, by kind and by what the spec says", async () => {
  const aggregator = new MetricsAggregator();
  for (const value of [1, 2, 3]) {
    const dump = readMetricsDump(JSON.parse(JSON.stringify(await processOf(value).dump())));
    assert.ok(dump !== undefined);
    aggregator.put(`w${value}`, dump);
    aggregator.put(`w${value}`, dump);
  }
  const text = await aggregator.render();
  const values = ['t_total{a="x"}', 't_total{a="own-2"}', "t_now", 't_most{a="x"}', "t_least"].map((one) =>
    sampleIn(text, one),
  );
  assert.deepEqual(values, [6, 1, 6, -1, 1]);
  const buckets = ['t_seconds_bucket{le="1"}', 't_seconds_bucket{le="2"}', 't_seconds_bucket{le="+Inf"}'];
  assert.deepEqual(
    [...buckets, "t_seconds_sum", "t_seconds_count"].map((one) => sampleIn(text, one)),
    [1, 2, 3, 6, 3],
  );
  const names: readonly string[] = text.match(/^# TYPE (\S+)/gm) ?? [];
  assert.equal(names.length, new Set(names).size, "each metric is declared once");
  assert.ok(names.includes("# TYPE process_cpu_seconds_total"));
});

test("a process that ended leaves its counters, and takes its gauges with it", async () => {
  const aggregator = new MetricsAggregator();
  aggregator.put("w1", await processOf(4).dump());
  aggregator.put("w2", await processOf(5).dump());
  const before = await aggregator.render();
  aggregator.retire("w1");
  aggregator.retire("w1");
  aggregator.retire("never there");
  aggregator.put("w3", await processOf(1).dump());
  aggregator.retire("w3");
  const text = await aggregator.render();
  assert.deepEqual(
    ['t_total{a="x"}', "t_now", 't_most{a="x"}', "t_least", "t_seconds_count"].map((one) => sampleIn(text, one)),
    [10, 5, -5, 5, 3],
  );
  const cpu = "process_cpu_seconds_total";
  assert.ok((sampleIn(text, cpu) ?? 0) >= (sampleIn(before, cpu) ?? Number.POSITIVE_INFINITY));
});

test("what is no dump is not taken", () => {
  for (const nonsense of [null, 1, {}, { cells: [] }, { cells: 1, process: [] }]) {
    assert.equal(readMetricsDump(nonsense), undefined);
  }
  assert.deepEqual(readMetricsDump({ cells: [null, {}, { spec: {} }], process: [null, { name: 1 }] }), {
    cells: [],
    process: [],
  });
});

test("what processes have named stays named when they are added up; what the ended ones leave is bounded", async () => {
  const spec: MetricSpec = { kind: "counter", name: "s_total", help: "S.", labels: ["service"] };
  const isNamed = (_: string, value: string): boolean => value === "ours";
  const aggregator = new MetricsAggregator({ isNamed });
  const dumpOf = async (prefix: string) => {
    const metrics = new PrometheusMetrics({ processMetrics: false, isNamed });
    for (let at = 0; at < 1_030; at++) metrics.count(spec, { service: `${prefix}${at}` });
    metrics.count(spec, { service: "ours" });
    return metrics.dump();
  };
  const series = (text: string): readonly string[] => text.match(/^s_total\{/gm) ?? [];
  aggregator.put("a", await dumpOf("a"));
  aggregator.put("b", await dumpOf("b"));
  const living = await aggregator.render();
  assert.equal(series(living).length, 2 * 1_024 + 2);
  assert.deepEqual(
    [sampleIn(living, 's_total{service="ours"}'), sampleIn(living, 's_total{service="other"}')],
    [2, 12],
  );
  for (const id of ["a", "b"]) aggregator.retire(id);
  const ended = await aggregator.render();
  assert.ok(series(ended).length <= 1_024 + 2, String(series(ended).length));
  assert.equal(sampleIn(ended, 's_total{service="ours"}'), 2);
  const all = [...ended.matchAll(/^s_total\{.*\} (\d+)$/gm)].reduce((sum, [, value]) => sum + Number(value), 0);
  assert.equal(all, 2 * 1_031, "nothing is lost");
});
