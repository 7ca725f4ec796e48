export type { MetricsDump } from "./cells.ts";
export { MetricsAggregator, readMetricsDump } from "./metrics-aggregator.ts";
export { type JsonPage, MetricsServer, startMetricsServer } from "./metrics-server.ts";
export { type MetricsRegistry, type MetricsText, PrometheusMetrics } from "./prometheus-metrics.ts";
