import { AppError, type Labels, type MetricSpec } from "@turnpike/base";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { MetricsRegistry } from "../types.ts";

/** Options of {@link createPrometheusMetrics}. */
export interface PrometheusOptions {
  /** Adds metrics of the process: CPU, memory, garbage collection, event-loop delay. */
  readonly processMetrics: boolean;
}

type Declared =
  | { readonly kind: "counter"; readonly spec: MetricSpec; readonly metric: Counter }
  | { readonly kind: "gauge"; readonly spec: MetricSpec; readonly metric: Gauge }
  | { readonly kind: "histogram"; readonly spec: MetricSpec; readonly metric: Histogram };

/**
 * Metrics over prom-client. A metric is declared in the registry when its first sample comes. A label that its spec
 * does not name is left out, and one that a sample lacks is empty: a wrong sample must not fail a request.
 * @throws AppError INTERNAL when two specs share a name, or a sample does not fit its spec's kind: faults of the code.
 */
export function createPrometheusMetrics(
  opts: PrometheusOptions,
  modules: { readonly registry?: Registry } = {},
): MetricsRegistry {
  const registry = modules.registry ?? new Registry();
  if (opts.processMetrics) collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 10 });
  const byName = new Map<string, Declared>();

  const declare = (spec: MetricSpec): Declared => {
    const config = { name: spec.name, help: spec.help, labelNames: [...(spec.labels ?? [])], registers: [registry] };
    switch (spec.kind) {
      case "counter":
        return { kind: "counter", spec, metric: new Counter(config) };
      case "gauge":
        return { kind: "gauge", spec, metric: new Gauge(config) };
      case "histogram":
        return {
          kind: "histogram",
          spec,
          metric: new Histogram({ ...config, ...(spec.buckets === undefined ? {} : { buckets: [...spec.buckets] }) }),
        };
    }
  };
  const find = (spec: MetricSpec): Declared => {
    const found = byName.get(spec.name);
    if (found === undefined) {
      const declared = declare(spec);
      byName.set(spec.name, declared);
      return declared;
    }
    if (found.spec !== spec && !sameSpec(found.spec, spec)) throw misused(spec, "is declared twice, differently");
    return found;
  };

  return {
    count(spec, labels, by = 1) {
      const found = find(spec);
      if (found.kind !== "counter") throw misused(spec, "is not a counter");
      found.metric.inc(fitted(spec, labels), by);
    },
    set(spec, value, labels) {
      const found = find(spec);
      if (found.kind !== "gauge") throw misused(spec, "is not a gauge");
      found.metric.set(fitted(spec, labels), value);
    },
    observe(spec, value, labels) {
      const found = find(spec);
      if (found.kind !== "histogram") throw misused(spec, "is not a histogram");
      found.metric.observe(fitted(spec, labels), value);
    },
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

function fitted(spec: MetricSpec, labels: Labels | undefined): Record<string, string> {
  const fit: Record<string, string> = {};
  for (const name of spec.labels ?? []) fit[name] = labels?.[name] ?? "";
  return fit;
}

function sameSpec(a: MetricSpec, b: MetricSpec): boolean {
  return JSON.stringify([a.kind, a.labels, a.buckets]) === JSON.stringify([b.kind, b.labels, b.buckets]);
}

function misused(spec: MetricSpec, how: string): AppError {
  return new AppError("INTERNAL", { message: `Metric ${spec.name} ${how}.` });
}
