import { isRecord } from "@turnpike/base";
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from "prom-client";
import { Cells, type CellsDump, type IsNamed, type MetricsDump } from "./cells.ts";
import { asMetric } from "./prometheus-metrics.ts";

type ProcessMetric = MetricObjectWithValues<MetricValue<string>> & { aggregator?: string };

/** Event-loop lag is that of the slowest process: a mean would hide it. */
const WORST = /^nodejs_eventloop_lag/;

function isProcessMetric(value: unknown): value is ProcessMetric {
  return isRecord(value) && typeof value.name === "string" && Array.isArray(value.values);
}

/** A dump that came from another process, checked; undefined when it is none. */
export function readMetricsDump(value: unknown): MetricsDump | undefined {
  if (!isRecord(value) || !Array.isArray(value.cells) || !Array.isArray(value.process)) return undefined;
  const cells = value.cells.filter(
    (one: unknown): one is CellsDump =>
      isRecord(one) && isRecord(one.spec) && typeof one.spec.name === "string" && Array.isArray(one.cells),
  );
  return { cells, process: value.process.filter(isProcessMetric) };
}

/** Counters and histograms only grow, and so outlive their process. */
const outlives = (kind: unknown): boolean => kind === "counter" || kind === "histogram";

/** prom-client writes types in numbers or words, by version. */
function kindOf({ type }: ProcessMetric): string {
  return String(type);
}

/** Each process has bounded its own label values. */
const ALL_NAMED: IsNamed = () => true;

function sum(dumps: Iterable<MetricsDump>, isNamed: IsNamed): Map<string, Cells> {
  const byName = new Map<string, Cells>();
  for (const { cells } of dumps) {
    for (const dump of cells) {
      const known = byName.get(dump.spec.name) ?? new Cells(dump.spec, isNamed);
      byName.set(dump.spec.name, known);
      known.merge(dump);
    }
  }
  return byName;
}

/** Metrics of the processes themselves: each by prom-client's own rule. */
function sumProcesses(dumps: readonly MetricsDump[]): Registry {
  const all = dumps.map(({ process }) =>
    process.filter(isProcessMetric).map((metric) => ({
      ...metric,
      aggregator: WORST.test(metric.name) ? "max" : (metric.aggregator ?? "sum"),
    })),
  );
  return AggregatorRegistry.aggregate(all);
}

/** Sums the metrics of several processes, so that they are scraped as one. */
export class MetricsAggregator {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #isNamed: IsNamed;
  readonly #running = new Map<string, MetricsDump>();
  /** Sum of all ended processes, with as many cells as one of them at most, however many there were. */
  #ended: MetricsDump = { cells: [], process: [] };
  #summing: Promise<unknown> = Promise.resolve();

  /** `isNamed`: label values that never become `other`. */
  constructor({ isNamed = () => false }: { readonly isNamed?: IsNamed } = {}) {
    this.#isNamed = isNamed;
  }

  /** Replaces what a process reported before. */
  put(id: string, dump: MetricsDump): void {
    this.#running.set(id, dump);
  }

  /** Keeps the counters and histograms of a process that has ended, so that no sum decreases, and drops its gauges. */
  retire(id: string): void {
    const last = this.#running.get(id);
    this.#running.delete(id);
    if (last === undefined) return;
    const kept: MetricsDump = {
      cells: last.cells.filter(({ spec }) => outlives(spec.kind)),
      process: last.process.filter(isProcessMetric).filter((metric) => outlives(kindOf(metric))),
    };
    this.#summing = this.#summing.then(async () => {
      const both = [this.#ended, kept];
      const process = await sumProcesses(both).getMetricsAsJSON();
      this.#ended = { cells: [...sum(both, this.#isNamed).values()].map((cells) => cells.dump()), process };
    });
  }

  /** The sums in Prometheus' format. */
  async render(): Promise<string> {
    await this.#summing;
    const dumps = [...this.#running.values(), this.#ended];
    const own = new Registry();
    for (const cells of sum(dumps, ALL_NAMED).values()) own.registerMetric(asMetric(cells));
    return [await own.metrics(), await sumProcesses(dumps).metrics()].filter((text) => text !== "").join("\n");
  }
}
