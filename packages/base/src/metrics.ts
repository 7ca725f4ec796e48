/** Labels of one sample; values must come from small, fixed sets. */
export type Labels = Readonly<Record<string, string>>;

/** How one metric is declared: once, in its package's `metrics.ts`. */
export interface MetricSpec {
  readonly kind: "counter" | "gauge" | "histogram";
  /** `turnpike_…`, ending in `_seconds`, `_bytes` or `_total` where it has a unit. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
  /** How a gauge's values of several processes become one; `sum` by default. Counters and histograms are always summed. */
  readonly aggregator?: "sum" | "max" | "min";
}

/** Where samples go. */
export interface Metrics {
  /** Adds to a counter. */
  count(spec: MetricSpec, labels?: Labels, by?: number): void;
  /** Sets a gauge. */
  set(spec: MetricSpec, value: number, labels?: Labels): void;
  /** Adds one observation to a histogram. */
  observe(spec: MetricSpec, value: number, labels?: Labels): void;
  /** Removes the sample of a gauge whose subject is gone. */
  remove?(spec: MetricSpec, labels: Labels): void;
}

/** Metrics that go nowhere. */
export const noMetrics: Metrics = { count() {}, set() {}, observe() {} };
