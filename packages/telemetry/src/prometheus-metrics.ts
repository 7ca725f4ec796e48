import { AppError, type Labels, type MetricSpec, type Metrics } from "@turnpike/base";
import { collectDefaultMetrics, type Metric, Registry } from "prom-client";
import { type Cell, Cells, type IsNamed, type MetricsDump } from "./cells.ts";

/** Metrics as text: the answer of `GET /metrics`. */
export interface MetricsText {
  /** All samples, in the format of `contentType`. */
  render(): Promise<string>;
  readonly contentType: string;
}

/** Metrics that can be read again, as text or by another process. */
export interface MetricsRegistry extends Metrics, MetricsText {
  /** All samples as a JSON value, for a process that adds up those of several. */
  dump(): Promise<MetricsDump>;
}

/** Gauges of prom-client that end as counters do; each has a twin by type without that ending. */
const MISNAMED_GAUGES = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

export interface PrometheusOptions {
  /** Adds metrics of the process: CPU, memory, garbage collection, event-loop delay. */
  readonly processMetrics: boolean;
  /** Label values that never become `other`, whatever others come from a chain: read when a value first comes. None by default. */
  readonly isNamed?: IsNamed;
}

/**
 * Metrics in Prometheus' format. Samples are kept in cells of ours, since a sample in prom-client costs half a
 * microsecond and a relayed call takes a dozen; prom-client writes them out, with its own of the process. A metric is
 * declared when its first sample comes. Two specs of one name, or a sample that does not fit its spec's kind, are thrown as
 * AppError INTERNAL: faults of the code.
 */
export class PrometheusMetrics implements MetricsRegistry {
  readonly contentType: string;
  readonly #registry: Registry;
  readonly #isNamed: IsNamed | undefined;
  readonly #bySpec = new Map<MetricSpec, Cells>();
  readonly #byName = new Map<string, Cells>();

  constructor(opts: PrometheusOptions, modules: { readonly registry?: Registry } = {}) {
    const registry = modules.registry ?? new Registry();
    if (opts.processMetrics) {
      collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 10 });
      for (const name of MISNAMED_GAUGES) registry.removeSingleMetric(name);
    }
    this.contentType = registry.contentType;
    this.#registry = registry;
    this.#isNamed = opts.isNamed;
  }

  count(spec: MetricSpec, labels?: Labels, by = 1): void {
    this.#find(spec, "counter").at(labels).value += by;
  }

  set(spec: MetricSpec, value: number, labels?: Labels): void {
    this.#find(spec, "gauge").at(labels).value = value;
  }

  observe(spec: MetricSpec, value: number, labels?: Labels): void {
    this.#find(spec, "histogram").observe(value, labels);
  }

  remove(spec: MetricSpec, labels: Labels): void {
    this.#find(spec, "gauge").remove(labels);
  }

  async dump(): Promise<MetricsDump> {
    const process = (await this.#registry.getMetricsAsJSON()).filter(({ name }) => !this.#byName.has(name));
    return { cells: [...this.#byName.values()].map((cells) => cells.dump()), process };
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  #find(spec: MetricSpec, kind: MetricSpec["kind"]): Cells {
    if (spec.kind !== kind) throw misused(spec, `is not a ${kind}`);
    return this.#bySpec.get(spec) ?? this.#declare(spec);
  }

  #declare(spec: MetricSpec): Cells {
    const known = this.#byName.get(spec.name);
    if (known !== undefined && !sameSpec(known.spec, spec)) throw misused(spec, "is declared twice, differently");
    const cells = known ?? new Cells(spec, this.#isNamed);
    if (known === undefined) this.#registry.registerMetric(asMetric(cells));
    this.#byName.set(spec.name, cells);
    this.#bySpec.set(spec, cells);
    return cells;
  }
}

interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

function samplesOf({ spec, bounds }: Cells, cell: Cell): readonly Sample[] {
  const { labels, value, buckets } = cell;
  if (buckets === undefined) return [{ labels, value }];
  const samples: Sample[] = [];
  let count = 0;
  for (const [at, observed] of buckets.entries()) {
    count += observed;
    const le = bounds[at] ?? "+Inf";
    samples.push({ metricName: `${spec.name}_bucket`, labels: { le, ...labels }, value: count });
  }
  samples.push({ metricName: `${spec.name}_sum`, labels, value });
  samples.push({ metricName: `${spec.name}_count`, labels, value: count });
  return samples;
}

/** Cells as prom-client's registry reads a metric: by name, and by `get`. */
export function asMetric(cells: Cells): Metric {
  const { name, help, kind } = cells.spec;
  const metric = {
    name,
    get: () =>
      Promise.resolve({
        name,
        help,
        type: kind,
        aggregator: "sum",
        values: cells.all().flatMap((cell) => samplesOf(cells, cell)),
      }),
  };
  return metric as unknown as Metric;
}

function sameSpec(a: MetricSpec, b: MetricSpec): boolean {
  return JSON.stringify([a.kind, a.labels, a.buckets]) === JSON.stringify([b.kind, b.labels, b.buckets]);
}

function misused(spec: MetricSpec, how: string): AppError {
  return new AppError("INTERNAL", { message: `Metric ${spec.name} ${how}.` });
}
